# SPDX-License-Identifier: Apache-2.0
"""The option on the real srun, sbatch and salloc: values, places, inheritance, and what a broken installation costs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from guarded import PLUGSTACK
from lab.cluster import Cluster
from lab.processes import Completed, wait_until
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]

OPTION_ENV = "_SLURM_SPANK_OPTION_stepguard_auto_resume"
INHERITED = f"SLURM_SPANK_{OPTION_ENV}"
MISPLACED = "stepguard: --auto-resume guards one step and belongs on its srun, not on "
TELL = "import os, sys; print(os.environ.get('STEPGUARD_ATTEMPT'), [os.fsencode(word).hex() for word in sys.argv[1:]])"
PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def guarding() -> Iterator[Cluster]:
    """A cluster with the plugin. Its jobs use it one after another."""
    with Cluster(nodes=2, plugstack=PLUGSTACK, prefix=installed()) as cluster:
        yield cluster


def inside(lab: Cluster, *words: str, env: dict[str, str] | None = None, **more: str) -> Completed:
    """Runs a command in an allocation of one whole node."""
    variables = [f"{name}={value}" for name, value in (env or {}).items()]
    return lab.run(["salloc", "-Q", "-N1", "--exclusive", "env", *variables, *words], check=False, **more)  # type: ignore[arg-type]


def told(words: list[str], attempt: str = "0") -> str:
    return f"{attempt} {[word.encode(errors='surrogateescape').hex() for word in words]}\n"


@pytest.mark.parametrize(
    "given",
    [
        ["--auto-resume=1"],
        ["--auto-resume", "1"],
        ["--auto-res=1"],
        ["--auto-resume=0", "--auto-resume=1"],
        ["--auto-r", "1"],
    ],
)
def test_ways_of_writing_the_option(guarding: Cluster, given: list[str]) -> None:
    done = inside(guarding, "srun", *given, "-J", "a b", PYTHON, "-c", TELL, "--auto-resume=0", "--auto-resume", "1")
    assert done.stdout == told(["--auto-resume=0", "--auto-resume", "1"])
    assert done.status == 0


@pytest.mark.parametrize("given", [["--auto-resume=0"], ["--auto-resume=1", "--auto-resume", "0"], []])
def test_step_that_is_not_guarded_is_a_plain_one(guarding: Cluster, given: list[str]) -> None:
    done = inside(guarding, "srun", *given, PYTHON, "-c", TELL)
    assert (done.status, done.stdout, done.stderr) == (0, told([], "None"), "")
    outside = guarding.run(["srun", *given, PYTHON, "-c", TELL])
    assert (outside.stdout, outside.stderr) == (told([], "None"), "")


def test_words_arrive_to_the_byte(guarding: Cluster) -> None:
    odd = ["", " ", "a b", "'", '"$(id)"', "line\nline", "\udcff\udcfe", "ü€", "*", "\\", "\x1b[0m", "%", "--", "-n9"]
    assert inside(guarding, "srun", "--auto-resume=1", PYTHON, "-c", TELL, *odd).stdout == told(odd)


@pytest.mark.parametrize("value", ["", "2", "yes", "(null)"])
def test_bad_value(guarding: Cluster, value: str) -> None:
    done = inside(guarding, "srun", f"--auto-resume={value}", "true")
    assert done.status == 255
    assert done.stderr.splitlines()[0] == (
        f"stepguard: bad value: --auto-resume={value}: "
        "write --auto-resume=1 to guard this step, or leave the option out"
    )


def test_absent_value(guarding: Cluster) -> None:
    done = inside(guarding, "srun", "--auto-resume")
    assert done.status == 255
    assert "requires an argument" in done.stderr


def test_outside_of_an_allocation(guarding: Cluster) -> None:
    done = guarding.run(["srun", "--auto-resume=1", "-n1", "true"], check=False)
    assert done.status == 2
    assert done.stderr == (
        "stepguard: --auto-resume works inside an allocation only: srun --auto-resume=1 -n1 true: "
        "put this line into a script for sbatch, or call it under salloc\n"
    )


def test_components(guarding: Cluster) -> None:
    for words in (["--auto-resume=1", "true", ":", "true"], ["true", ":", "--auto-resume=1", "true"]):
        done = inside(guarding, "srun", *words)
        assert done.status == 2
        assert "guards no step of several components" in done.stderr


def test_shared_nodes(guarding: Cluster) -> None:
    done = guarding.run(["salloc", "-Q", "-n1", "srun", "--auto-resume=1", "true"], check=False)
    assert done.status == 2
    assert "--exclusive" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_option_in_the_script(guarding: Cluster) -> None:
    guarding.write("job.sh", "#!/bin/bash\n#SBATCH -N1\n#SBATCH --auto-resume=1\n\nsrun -n1 ./train --epochs 90\n")
    done = guarding.run(["sbatch", "job.sh"], check=False)
    assert done.status == 2
    assert done.stdout == ""
    assert done.stderr == (
        MISPLACED + "sbatch: job.sh line 3: #SBATCH --auto-resume=1: "
        "remove it there, and on line 5 of job.sh write: srun --auto-resume=1 -n1 ./train --epochs 90\n"
    )
    assert guarding.run(["squeue", "-h", "--states=PD,R"]).stdout == ""


def test_option_on_sbatch_and_salloc(guarding: Cluster) -> None:
    done = guarding.run(["sbatch", "--auto-resume=1", "-N1", "--wrap", "srun true"], check=False)
    assert done.status == 2
    assert done.stderr == (
        MISPLACED + "sbatch: sbatch --auto-resume=1 -N1 --wrap 'srun true': "
        "write sbatch -N1 --wrap 'srun true', and write srun --auto-resume=1 in the job\n"
    )
    done = guarding.run(["salloc", "--auto-resume", "1", "-N1", "srun", "true"], check=False)
    assert done.status == 2
    assert MISPLACED + "salloc: salloc --auto-resume 1 -N1 srun true: write salloc -N1 srun true, and" in done.stderr
    done = guarding.run(["sbatch", "--wrap", "true"], env={INHERITED: "1"}, check=False)
    assert done.status == 2
    assert f"{INHERITED} is set: unset it, and" in done.stderr
    done = guarding.run(["sbatch"], text_in="#!/bin/sh\n#SBATCH --auto-resume=1\ntrue\n", check=False)
    assert done.status == 2
    assert done.stderr.startswith(MISPLACED + "sbatch: the job script: ")


@pytest.mark.parametrize("export", ["ALL", "NONE"])
def test_inherited_option_guards_no_step(guarding: Cluster, export: str) -> None:
    done = inside(guarding, "srun", f"--export={export}", "/usr/bin/env", env={INHERITED: "1"})
    assert done.status == 0
    assert done.stderr == (
        f"stepguard: --auto-resume in the environment ({INHERITED}) guards no step: "
        "this one runs without it: write srun --auto-resume=1\n"
    )
    assert "auto_resume" not in done.stdout
    assert "STEPGUARD_ATTEMPT" not in done.stdout


@pytest.mark.parametrize("export", ["ALL", "NONE"])
def test_guarded_tasks_see_nothing_of_the_option(guarding: Cluster, export: str) -> None:
    done = inside(guarding, "srun", "--auto-resume=1", f"--export={export}", "/usr/bin/env", env={INHERITED: "0"})
    assert done.status == 0
    assert "auto_resume" not in done.stdout
    assert "SLURM_JOB_ID=" in done.stdout


def test_warning_instead_of_refusal_hands_nothing_on() -> None:
    warn = PLUGSTACK.rstrip() + " misplaced=warn\n"
    with Cluster(nodes=1, plugstack=warn, prefix=installed()) as lab:
        lab.write("job.sh", "#!/bin/sh\n#SBATCH --auto-resume=1\nenv\nsrun env\n")
        done = lab.run(["sbatch", "-W", "-o", "out", "job.sh"])
        assert done.stderr.splitlines()[1] == "stepguard: the job goes on without --auto-resume"
        out = (lab.home() / "out").read_text()
        assert "SLURM_JOB_ID=" in out
        assert "auto_resume" not in out
        assert "stepguard:" not in out


def test_steps_daemons_say_nothing_of_the_option(guarding: Cluster) -> None:
    inside(guarding, "srun", "--auto-resume=0", "true")
    inside(guarding, "srun", "true", env={INHERITED: "1"})
    inside(guarding, "srun", "--auto-resume=1", "true")
    for node in guarding.nodes:
        assert "SPANK plugin" not in guarding.node_log(node)
        assert "auto-resume" not in guarding.node_log(node)


def test_directory_that_is_gone(guarding: Cluster) -> None:
    leave = 'mkdir -p gone && cd gone && rmdir ../gone && srun "$@"'
    plain = inside(guarding, "sh", "-c", leave, "sh", PYTHON, "-c", TELL)
    done = inside(guarding, "sh", "-c", leave, "sh", "--auto-resume=1", PYTHON, "-c", TELL)
    assert (done.status, done.stdout.replace("0 [", "None [")) == (plain.status, plain.stdout)


def test_listed_twice() -> None:
    with Cluster(nodes=1, plugstack=PLUGSTACK * 2, prefix=installed()) as lab:
        done = inside(lab, "srun", "--auto-resume=1", PYTHON, "-c", TELL)
        assert (done.status, done.stdout, done.stderr) == (0, told([]), "")
        done = inside(lab, "srun", "true", env={INHERITED: "1"})
        assert len(done.stderr.splitlines()) == 1
        done = lab.run(["sbatch", "--auto-resume=1", "--wrap", "true"], check=False)
        assert (done.status, len(done.stderr.splitlines())) == (2, 1)


def test_without_the_option_nothing_is_loaded_or_started(guarding: Cluster) -> None:
    before = set(guarding.processes("login"))
    process = guarding.start(["srun", "-n1", "sleep", "30"])
    wait_until(lambda: any("sleep 30" in line for node in guarding.nodes for line in guarding.processes(node).values()),
               "the step runs", 20)  # fmt: skip
    mine = {pid: line for pid, line in guarding.processes("login").items() if pid not in before}
    maps = {pid: Path(f"/proc/{pid}/maps").read_text() for pid in mine}
    process.kill()
    # srun and its shepherd.
    assert [line.split()[0] for line in mine.values()] == ["srun", "srun"]
    for text in maps.values():
        assert "/stepguard.so" in text
        assert "python" not in text
        assert "bridge" not in text
    guarding.run(["scancel", "--user=alice"])
    guarding.wait_idle()


def test_broken_installation_harms_only_the_guard(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    prefix = tmp_path / "stepguard"
    shutil.copytree(installed(), prefix, symlinks=True)
    (prefix / "venv").unlink()
    with Cluster(nodes=1, plugstack=PLUGSTACK, prefix=prefix) as lab:
        plain = inside(lab, "srun", PYTHON, "-c", TELL)
        assert (plain.status, plain.stdout, plain.stderr) == (0, told([], "None"), "")
        guarded = inside(lab, "srun", "--auto-resume=1", PYTHON, "-c", TELL)
        assert (guarded.status, guarded.stdout) == (0, told([], "None"))
        assert guarded.stderr == (
            "stepguard: this step runs without --auto-resume: no Python: /opt/stepguard/venv: "
            "see `/opt/stepguard/bin/stepguard doctor`\n"
        )
        lab.reconfigure(plugstack=PLUGSTACK.rstrip() + " on_broken=refuse\n")
        refused = inside(lab, "srun", "--auto-resume=1", "true")
        assert refused.status == 71
        assert lab.run(["sbatch", "--auto-resume=1", "--wrap", "true"], check=False).status == 2
        lab.run(["sbatch", "-W", "-o", "/dev/null", "--wrap", "srun true"])
