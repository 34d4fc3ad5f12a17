# SPDX-License-Identifier: Apache-2.0
"""What the real sbatch does with job scripts that would go wrong after a resume, and with those that would not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from guarded import PLUGSTACK
from lab.cluster import Cluster
from lab.processes import Completed
from product import installed

HEAD = "#!/bin/bash\n#SBATCH -N1 --exclusive -o /dev/null\n"
FIRST = "MASTER=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1)\n"
TRAIN = "srun --auto-resume=1 torchrun --rdzv-endpoint=$MASTER:29500 train.py\n"
REFUSED = "stepguard: nothing is submitted: "

# The script, and the lines that it should be told of.
MISUSES = {
    "master address": (HEAD + "cd /tmp\n" + FIRST + TRAIN, [4]),
    "exported": (HEAD + FIRST.replace("MASTER", "export MASTER_ADDR") + "srun --auto-resume=1 python3 train.py\n", [3]),
    "machine file": (
        HEAD + "scontrol show hostnames > hosts\nsrun --auto-resume=1 deepspeed --hostfile hosts train.py\n",
        [3],
    ),
    "named nodes": (HEAD + "srun --auto-resume=1 -w $SLURM_NODELIST ./train\n", [3]),
    "het group": (HEAD + "export HEAD_NODE=$SLURM_JOB_NODELIST_HET_GROUP_0\nsrun --auto-resume=1 ./train\n", [3]),
    "through a variable": (
        HEAD + 'GUARD="--auto-resume=1"\nNODES=$SLURM_JOB_NODELIST\n\nsrun $GUARD ./train --hosts $NODES\n',
        [4],
    ),
    "late directive": (HEAD + FIRST + "#SBATCH -N2\n" + TRAIN, [3, 4]),
    "behind the program": (HEAD + FIRST + "srun ./train --master $MASTER --auto-resume=1\n", [3, 4]),
    "another value": (HEAD + FIRST + "srun --auto-resume=yes ./train --master $MASTER\n", [3, 4]),
}
RIGHT = {
    "guarded": HEAD + "srun --auto-resume=1 true\n",
    "node list, unguarded": HEAD + FIRST + "srun true $MASTER\n",
    "neither": HEAD + "srun true\n",
}


@pytest.fixture(scope="module")
def linting() -> Iterator[Cluster]:
    """A cluster with the plugin. Its jobs stay in the queue."""
    with Cluster(nodes=1, plugstack=PLUGSTACK, prefix=installed()) as cluster:
        yield cluster


def plugstack(lab: Cluster, text: str) -> None:
    """What sbatch reads from now on; the daemons go on with what they have."""
    (lab.root("login") / "etc/slurm/plugstack.conf").write_text(text)


def submit(lab: Cluster, script: str, *options: str, env: Sequence[str] = ()) -> Completed:
    """Submits a job."""
    lab.write("job.sh", script)
    return lab.run(["env", *env, "sbatch", "--hold", *options, "job.sh"], check=False)


def lines_told(done: Completed) -> list[int]:
    """The lines of the script that the findings are about."""
    findings = [line for line in done.stderr.splitlines() if not line.startswith(REFUSED)]
    assert all(line.startswith("stepguard: job.sh:") for line in findings), done.stderr
    return [int(line.split(":")[2]) for line in findings]


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_warned_of_with_its_line(linting: Cluster, name: str) -> None:
    script, lines = MISUSES[name]
    plugstack(linting, PLUGSTACK)
    done = submit(linting, script, "--parsable")
    assert done.status == 0, done.stderr
    assert done.stdout.strip().isdigit()
    assert lines_told(done) == lines
    quiet = submit(linting, script, "-Q", "--test-only")
    assert quiet.status == 0
    assert set(lines_told(Completed(quiet.argv, 0, "", ours(quiet)))) <= set(lines)


def ours(done: Completed) -> str:
    return "".join(f"{line}\n" for line in done.stderr.splitlines() if line.startswith("stepguard: "))


def test_misuse_is_refused_with_its_line(linting: Cluster) -> None:
    linting.run(["scancel", "--user=alice"])
    plugstack(linting, PLUGSTACK.replace(".so", ".so lint=reject"))
    for name, (script, lines) in MISUSES.items():
        done = submit(linting, script)
        assert (done.status, done.stdout) == (2, ""), name
        assert lines_told(done) == lines, name
        assert done.stderr.splitlines()[-1].startswith(REFUSED)
    assert linting.run(["squeue", "-h", "--states=all", "--user=alice", "--states=PD"]).stdout == ""
    excused = HEAD + FIRST.replace("\n", " # stepguard: ignore[SG201]\n") + TRAIN
    done = submit(linting, excused)
    assert (done.status, done.stderr) == (0, "")


def test_nodes_of_ones_own_are_asked_for_on_the_command_line(linting: Cluster) -> None:
    plugstack(linting, PLUGSTACK.replace(".so", ".so lint=reject"))
    script = "#!/bin/bash\n#SBATCH -N1\necho $SLURM_JOB_NODELIST\nsrun --auto-resume=1 true\n"
    done = submit(linting, script)
    assert (done.status, lines_told(done)) == (0, [4])
    for options, env in (["--exclusive"], []), ([], ["SBATCH_EXCLUSIVE=exclusive"]):
        done = submit(linting, script, *options, env=env)
        assert (done.status, done.stderr) == (0, "")


@pytest.mark.parametrize("argument", ["--auto-resume", "--auto-resume --epochs 1", "--auto-resume=True"])
def test_program_that_has_the_option_itself_is_submitted(linting: Cluster, argument: str) -> None:
    plugstack(linting, PLUGSTACK.replace(".so", ".so lint=reject"))
    done = submit(linting, HEAD + f"echo $SLURM_JOB_NODELIST\nsrun python3 train.py {argument}\n")
    assert (done.status, done.stderr) == (0, "")


def test_misplaced_option_is_quoted_from_where_sbatch_found_the_script(linting: Cluster) -> None:
    linting.run(["mkdir", "-p", "there"])
    linting.write("there/placed.sh", "#!/bin/bash\n#SBATCH --auto-resume=1\n\nsrun ./train\n")
    done = linting.run(["sbatch", "--hold", "-D", "there", "placed.sh"], check=False)
    assert (done.status, done.stdout) == (2, "")
    assert "there/placed.sh line 2: #SBATCH --auto-resume=1: " in done.stderr
    assert "on line 4 of there/placed.sh write: srun --auto-resume=1 ./train" in done.stderr


def loaded(lab: Cluster, script: str, *options: str) -> str:
    """The libraries that sbatch and all that it starts have opened, by ld.so's own account."""
    trace = lab.shared / "libraries"
    for path in lab.shared.glob("libraries.*"):
        path.unlink()
    done = submit(lab, script, *options, env=["LD_DEBUG=files", f"LD_DEBUG_OUTPUT={trace}"])
    assert done.status == 0
    return "".join(path.read_text() for path in lab.shared.glob("libraries.*"))


@pytest.mark.parametrize("name", RIGHT)
def test_no_python_for_a_script_that_is_right(linting: Cluster, name: str) -> None:
    plugstack(linting, PLUGSTACK)
    done = submit(linting, RIGHT[name])
    assert (done.status, done.stderr) == (0, "")
    libraries = loaded(linting, RIGHT[name])
    assert "/stepguard.so" in libraries
    assert "bridge.so" not in libraries
    assert "libpython" not in libraries
    # That it would be seen.
    libraries = loaded(linting, MISUSES["named nodes"][0])
    assert "bridge.so" in libraries
    assert "libpython" in libraries


def test_script_on_stdin_and_wrapped_command(linting: Cluster) -> None:
    plugstack(linting, PLUGSTACK.replace(".so", ".so lint=reject"))
    script = MISUSES["named nodes"][0]
    done = linting.run(["sbatch", "--hold"], text_in=script)
    assert done.stderr == ""
    done = linting.run(["sbatch", "--hold", "--wrap", "srun --auto-resume=1 -w $SLURM_NODELIST ./train"])
    assert done.stderr == ""


def test_script_is_the_one_that_sbatch_reads(linting: Cluster) -> None:
    """The job's name tells which one that is, the line of the finding which one was looked at."""
    plugstack(linting, PLUGSTACK)
    home = linting.home()
    linting.run(["mkdir", "a", "b"])
    script = MISUSES["named nodes"][0]
    linting.write("a/which.sh", script.replace("-N1", "-N1 -J a"))
    linting.write("b/which.sh", script.replace("-N1", "-N1 -J b").replace("srun", "\nsrun"))
    for folder, words, name in (
        ("a", ["which.sh"], "a"),
        ("", ["which.sh"], "b"),
        ("", ["a/which.sh"], "a"),
        ("a", ["-D", f"{home}/b", "which.sh"], "b"),
        ("a", [f"--chdir={home}/b", "which.sh"], "b"),
        ("b", [f"-HD{home}/a", "which.sh"], "a"),
        ("a", ["-D", f"{home}", "which.sh"], "b"),
        ("a", ["-D", f"{home}/b", "./which.sh"], "a"),
    ):
        done = linting.run(
            ["sbatch", "--hold", "--parsable", *words], cwd=home / folder, env={"PATH": f"{home}/b:/usr/bin:/bin"}
        )
        told = done.stderr.split(":")[2]
        assert (name, told) in (("a", "3"), ("b", "4")), words
        assert linting.run(["squeue", "-h", "-o", "%j", "-j", done.stdout.strip()]).stdout.strip() == name, words


def test_heterogeneous_job_is_told_once(linting: Cluster) -> None:
    plugstack(linting, PLUGSTACK + PLUGSTACK)
    linting.write("job.sh", MISUSES["named nodes"][0].replace(" --exclusive", ""))
    done = linting.run(["sbatch", "--hold", "-n1", ":", "-n1", "job.sh"], check=False)
    assert len([line for line in done.stderr.splitlines() if "SG201" in line]) == 1
