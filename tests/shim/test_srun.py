# SPDX-License-Identifier: Apache-2.0
"""srun: which steps are guarded, and in which state the supervisor starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from shim.built import SRUN_BLOCKS, Shim

JOB = {"SLURM_JOB_ID": "71"}
INHERITED = "SLURM_SPANK__SLURM_SPANK_OPTION_stepguard_auto_resume"
NEEDED = {
    "plugin_name",
    "plugin_type",
    "plugin_version",
    "spank_plugin_version",
    "slurm_spank_init",
    "slurm_spank_init_post_opt",
    "slurm_spank_task_init",
    "slurm_spank_task_exit",
    "slurm_spank_exit",
}
# Names that Slurm looks for in vain, 22.05 to 26.05.
ABSENT = {
    "slurm_spank_init_failure_mode",
    "slurm_spank_job_prolog",
    "slurm_spank_local_user_init",
    "slurm_spank_user_init",
    "slurm_spank_task_init_privileged",
    "slurm_spank_task_post_fork",
    "slurm_spank_job_epilog",
    "slurm_spank_slurmd_exit",
    "spank_options",
    "init",
    "fini",
}


def test_without_the_option_nothing_is_loaded(shim: Shim) -> None:
    plain = shim.run(["srun", "-n1", "true"], env=JOB).plain
    assert plain == {
        "python": "0",
        "registered": "1",
        "sigint_default": "1",
        "job_control": "",
        "blocked": SRUN_BLOCKS,
        "env": [],
    }


def test_exports_only_what_slurm_calls(shim: Shim) -> None:
    """All that Slurm looks for is known; of what is absent, the value is NULL, which the host looks up."""
    listing = subprocess.run(["nm", "-D", "--defined-only", shim.plugin], capture_output=True, text=True, check=True)
    kinds = {name: kind for _, kind, name in map(str.split, listing.stdout.splitlines())}
    names = {name: kind for name, kind in kinds.items() if not name.startswith(("_", "asan."))}
    assert {name for name, kind in names.items() if kind != "A"} == NEEDED
    assert {name for name, kind in names.items() if kind == "A"} == ABSENT


def test_guarded_step_becomes_the_supervisor(shim: Shim) -> None:
    state = shim.run(["srun", "-n4", "--auto-resume=1", "-J", "x", "./train", "--lr", "1"], env=JOB).supervised
    assert state["argv"] == [b"supervise", b"--command-at", b"4", b"--", *b"srun -n4 -J x ./train --lr 1".split()]
    assert state["package"] == str(shim.packages / "stepguard")
    assert state["isolated"] == 1
    assert state["env"]["STEPGUARD_SUPERVISED"] == "71.-"
    assert state["fds"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--auto-resume", "1"], []),
        (["--auto-res=1"], []),
        (["--au", "1"], []),
        (["--auto-resume=0", "--auto-resume=1"], []),
        (["--auto-resume", "0", "-N2", "--auto", "1", "-v"], ["-N2", "-v"]),
        (["--auto-resume=1", "--auto-resume=1"], []),
        (["-J", "--auto-resume=0", "--auto-resume=1"], ["-J", "--auto-resume=0"]),
        (["-J", "1", "--auto-resume", "1", "-J", "1"], ["-J", "1", "-J", "1"]),
        (["--auto-resume=1", "--"], ["--"]),
    ],
)
def test_every_way_of_writing_the_option(shim: Shim, given: list[str], kept: list[str]) -> None:
    state = shim.run(["/usr/bin/srun", *given, "prog", "--auto-resume=0", "--auto-resume", "1"], env=JOB).supervised
    at = str(1 + len(kept))
    expected = [
        "supervise",
        "--command-at",
        at,
        "--",
        "/usr/bin/srun",
        *kept,
        "prog",
        "--auto-resume=0",
        "--auto-resume",
        "1",
    ]
    assert state["argv"] == [word.encode() for word in expected]


def test_words_arrive_to_the_byte(shim: Shim) -> None:
    odd = [b"", b" ", b"a b", b"'", b'"$(id)"', b"line\nline", b"\xff\xfe\x80", "ü€".encode(), b"*", b"\\", b"\x1b[0m"]
    state = shim.run([b"srun", b"--auto-resume=1", b"-J", b"a\n\xff", b"printf", *odd, b""], env=JOB).supervised
    assert state["argv"][4:] == [b"srun", b"-J", b"a\n\xff", b"printf", *odd, b""]


def test_many_and_long_words(shim: Shim) -> None:
    many = ["x" * 1000] * 900
    state = shim.run(["srun", "--auto-resume=1", "echo", *many], env=JOB).supervised
    assert state["argv"][5:] == [b"echo"] + [b"x" * 1000] * 900


def test_value_zero_is_a_plain_step(shim: Shim) -> None:
    for given in (["--auto-resume=0"], ["--auto-resume", "0"], ["--auto-resume=1", "--auto-resume=0"]):
        outcome = shim.run(["srun", *given, "true"], env=JOB)
        assert outcome.stderr == ""
        assert outcome.plain["python"] == "0"
        assert outcome.plain["env"] == []
        assert outcome.plain["job_control"] == ""


@pytest.mark.parametrize("value", ["", "2", "yes", "(null)", "01", " 1", "1 ", "-1", "true"])
def test_bad_values_are_refused(shim: Shim, value: str) -> None:
    outcome = shim.run(["srun", f"--auto-resume={value}", "true"], env=JOB)
    assert outcome.status == 255
    assert outcome.lines[0] == (
        f"stepguard: bad value: --auto-resume={value}: "
        "write --auto-resume=1 to guard this step, or leave the option out"
    )


def test_too_many_occurrences_are_refused(shim: Shim) -> None:
    assert shim.run(["srun", *["--auto-resume=1"] * 16, "true"], env=JOB).supervised
    outcome = shim.run(["srun", *["--auto-resume=1"] * 17, "true"], env=JOB)
    assert outcome.status == 255
    assert "more than 16 times" in outcome.lines[0]


@pytest.mark.parametrize("value", ["1", "0", "yes", ""])
def test_inherited_option_is_no_option_on_the_step(shim: Shim, value: str) -> None:
    outcome = shim.run(["srun", "true"], env={**JOB, INHERITED: value})
    assert outcome.lines == [
        f"stepguard: --auto-resume in the environment ({INHERITED}) guards no step: "
        "this one runs without it: write srun --auto-resume=1"
    ]
    assert outcome.plain["env"] == []
    assert outcome.plain["job_control"] == ""
    assert outcome.plain["python"] == "0"


def test_option_on_the_line_wins_over_the_inherited_one(shim: Shim) -> None:
    state = shim.run(["srun", "--auto-resume=1", "true"], env={**JOB, INHERITED: "0"}).supervised
    assert not [name for name in state["env"] if "SPANK" in name]
    outcome = shim.run(["srun", "--auto-resume=0", "true"], env={**JOB, INHERITED: "1"})
    assert outcome.stderr == ""
    assert outcome.plain["env"] == []


@pytest.mark.parametrize(
    ("words", "env", "said"),
    [
        (["-n1", "true"], {}, "works inside an allocation only: srun --auto-resume=1 -n1 true: "),
        (["true", ":", "false"], JOB, "guards no step of several components"),
        (["--het-group=0", "true"], JOB, "guards no step of several components"),
        (["true"], {**JOB, "SLURM_HET_SIZE": "2"}, "heterogeneous job"),
        (["-Z", "true"], JOB, "needs slurmctld"),
        (["--async", "true"], JOB, "stays until its step ends"),
        (["true"], {**JOB, "SLURM_STEPMGR": "n1"}, "--stepmgr"),
        (["true"], {**JOB, "STEPGUARD_SUPERVISED": "71.-", "SLURM_STEP_ID": "0"}, "guarded already"),
    ],
)
def test_placements_that_cannot_work(shim: Shim, words: list[str], env: dict[str, str], said: str) -> None:
    outcome = shim.run(["srun", "--auto-resume=1", *words], env=env)
    assert outcome.status == 2
    assert len(outcome.lines) == 1
    assert outcome.lines[0].startswith("stepguard: --auto-resume ")
    assert said in outcome.lines[0]


def test_option_on_a_later_component(shim: Shim) -> None:
    outcome = shim.run(["srun", "-n1", "true", ":", "--auto-resume=1", "-n1", "false"], env=JOB)
    assert outcome.status == 2
    assert "several components" in outcome.lines[0]


def test_named_job_stands_for_an_allocation(shim: Shim) -> None:
    assert shim.run(["srun", "--auto-resume=1", "--jobid=9", "true"]).supervised["argv"][-1] == b"true"


def test_attempts_of_a_supervisor_are_left_alone(shim: Shim) -> None:
    """Its srun may be a site's wrapper that adds the option."""
    outcome = shim.run(["srun", "--auto-resume=1", "true"], env={**JOB, "STEPGUARD_SUPERVISED": "71.-"})
    assert outcome.stderr == ""
    assert outcome.plain["env"] == ["STEPGUARD_SUPERVISED=71.-"]
    assert outcome.plain["sigint_default"] == "1"
    # Submitted from within a guarded step, another job is guarded as any.
    assert shim.run(["srun", "--auto-resume=1", "true"], env={**JOB, "STEPGUARD_SUPERVISED": "70.-"}).supervised


def test_signals_are_as_a_program_expects_them(shim: Shim) -> None:
    def ignore() -> None:
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTSTP):
            signal.signal(number, signal.SIG_IGN)

    state = shim.run(["srun", "--auto-resume=1", "true"], env=JOB, preexec_fn=ignore).supervised
    assert state["blocked"] == 0
    # srun would have heard the first three, which it blocks; SIGPIPE and SIGXFSZ are ignored by Python itself.
    # GNU make 4.3 has its children ignore 32 and 33, which are glibc's own.
    ignored = {number for number in range(1, 65) if number not in (32, 33) and state["ignored"] >> (number - 1) & 1}
    assert ignored == {signal.SIGTSTP, signal.SIGPIPE, signal.SIGXFSZ}


def test_threads_of_srun_end(shim: Shim) -> None:
    """Since 26.05 it has some when the plugin is asked."""
    state = shim.run(["srun", "--auto-resume=1", "true"], env={**JOB, "HOST_THREAD": "1"}).supervised
    assert state["blocked"] == 0


def test_the_callers_descriptors_stay(shim: Shim) -> None:
    read_end, write_end = os.pipe()
    try:
        state = shim.run(["srun", "--auto-resume=1", "true"], env=JOB, pass_fds=(read_end,)).supervised
    finally:
        os.close(read_end)
        os.close(write_end)
    assert state["fds"] == [0, 1, 2, read_end]


def test_hostile_environment_does_not_reach_the_interpreter(shim: Shim, tmp_path: Path) -> None:
    library = f"libpython{sys.version_info.major}.{sys.version_info.minor}.so.1.0"
    (tmp_path / library).write_bytes(b"not a library")
    for name in ("os.py", "encodings.py", "stepguard.py", "sitecustomize.py", "signal.py"):
        (tmp_path / name).write_text("raise SystemExit('hijacked')\n")
    (tmp_path / "python").write_text("#!/bin/sh\nexit 99\n")
    (tmp_path / "python").chmod(0o755)
    hostile = {
        name: str(tmp_path)
        for name in ("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONPLATLIBDIR", "VIRTUAL_ENV", "CONDA_PREFIX")
    }
    hostile |= {
        "LD_LIBRARY_PATH": str(tmp_path),
        "PYTHONSTARTUP": str(tmp_path / "os.py"),
        "PYTHONSAFEPATH": "",
        "LC_ALL": "C",
    }
    outcome = shim.run(["srun", "--auto-resume=1", "ü"], env={**JOB, **hostile}, cwd=tmp_path)
    assert outcome.stderr == ""
    state = outcome.supervised
    assert state["argv"][-1] == "ü".encode()
    assert state["package"] == str(shim.packages / "stepguard")
    # The user's program gets the user's environment all the same.
    assert {name: state["env"][name] for name in hostile} == hostile


def test_directory_that_is_gone(shim: Shim, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    outcome = shim.run(["srun", "--auto-resume=1", "true"], env=JOB, cwd=gone, preexec_fn=lambda: gone.rmdir())
    assert outcome.stderr == ""
    assert outcome.supervised["argv"][-1] == b"true"


def test_nodes_daemons_do_nothing(shim: Shim) -> None:
    remote = shim.run(["slurmstepd"], context="remote", env={**JOB, "STEPGUARD_X": "kept"})
    assert remote.stderr == ""
    assert remote.plain["python"] == "0"
    assert "STEPGUARD_X=kept" in remote.plain["env"]
    assert shim.run(["slurmd"], context="slurmd").plain["registered"] == "0"
