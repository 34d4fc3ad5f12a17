# SPDX-License-Identifier: Apache-2.0
"""An installation that is broken: never mistaken for success, and no matter to those who did not ask for a guard."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from shim.built import SRUN_BLOCKS, Shim

JOB = {"SLURM_JOB_ID": "71"}


def no_bridge(shim: Shim) -> None:
    shim.bridge.unlink()


def bridge_is_no_library(shim: Shim) -> None:
    shim.bridge.write_bytes(b"x" * 100)


def bridge_of_another_version(shim: Shim) -> None:
    shutil.copy(shim.plugin, shim.bridge)


def no_venv(shim: Shim) -> None:
    shutil.rmtree(shim.prefix / "venv")


def no_interpreter(shim: Shim) -> None:
    for program in (shim.prefix / "venv/bin").iterdir():
        program.unlink()


def no_package(shim: Shim) -> None:
    shutil.rmtree(shim.packages / "stepguard")


def no_cffi(shim: Shim) -> None:
    next(shim.packages.glob("_cffi_backend*")).unlink()


def error_in_the_package(shim: Shim) -> None:
    (shim.packages / "stepguard/bridge.py").write_text("def answer(\n")


def exception_in_the_answer(shim: Shim) -> None:
    (shim.packages / "stepguard/bridge.py").write_text("def answer(*_):\n    raise ValueError('no idea')\n")


def answer_is_no_decision(shim: Shim) -> None:
    (shim.packages / "stepguard/bridge.py").write_text("def answer(*_):\n    return 0\n")


def exit_in_the_answer(shim: Shim) -> None:
    (shim.packages / "stepguard/bridge.py").write_text("import sys\ndef answer(*_):\n    sys.exit(0)\n")


def python_cannot_be_run(shim: Shim) -> None:
    python = shim.prefix / "venv/bin/python"
    python.unlink()
    python.write_text("#!/nonexistent/interpreter\n")
    python.chmod(0o755)


def no_command(shim: Shim) -> None:
    (shim.prefix / "bin/stepguard").unlink()


BREAKAGES: list[tuple[Callable[[Shim], None], str]] = [
    (no_bridge, "cannot load the bridge: "),
    (bridge_is_no_library, "cannot load the bridge: "),
    (bridge_of_another_version, "cannot load the bridge: "),
    (no_venv, "no Python: "),
    (no_interpreter, "no Python: "),
    (no_package, "No module named 'stepguard'"),
    (no_cffi, "No module named '_cffi_backend'"),
    (error_in_the_package, "'(' was never closed"),
    (exception_in_the_answer, "ValueError: no idea"),
    (answer_is_no_decision, "the bridge failed"),
    (exit_in_the_answer, "SystemExit: 0"),
    (python_cannot_be_run, "cannot start the supervisor: "),
    (no_command, "cannot start the supervisor: "),
]


@pytest.mark.parametrize(("breaks", "reason"), BREAKAGES, ids=[breaks.__name__ for breaks, _ in BREAKAGES])
def test_step_runs_unguarded_and_says_so(moved: Shim, breaks: Callable[[Shim], None], reason: str) -> None:
    breaks(moved)
    outcome = moved.run(["srun", "--auto-resume=1", "true"], env=JOB)
    assert len(outcome.lines) == 1, outcome.stderr
    assert outcome.lines[0].startswith("stepguard: this step runs without --auto-resume: ")
    assert reason in outcome.lines[0]
    assert outcome.lines[0].endswith(f"see `{moved.prefix}/bin/stepguard doctor`")
    plain = outcome.plain
    assert plain["env"] == []
    assert plain["blocked"] == SRUN_BLOCKS
    assert plain["sigint_default"] == "1"

    refused = moved.run(["srun", "--auto-resume=1", "true"], env=JOB, plugstack="optional {plugin} on_broken=refuse")
    assert refused.status == 71
    assert len(refused.lines) == 1
    assert refused.lines[0].startswith("stepguard: this step is not started, for it could not be guarded: ")
    assert reason in refused.lines[0]

    untouched = moved.run(["srun", "true"], env=JOB)
    assert untouched.stderr == ""
    assert untouched.plain["python"] == "0"


@pytest.mark.parametrize("breaks", [no_bridge, no_venv, exception_in_the_answer], ids=lambda breaks: breaks.__name__)
def test_refusal_on_sbatch_does_not_depend_on_python(moved: Shim, breaks: Callable[[Shim], None], job: Path) -> None:
    breaks(moved)
    outcome = moved.run(["sbatch", str(job)], context="allocator", script=job)
    assert outcome.status == 2
    assert outcome.lines == [
        "stepguard: --auto-resume guards one step and belongs on its srun, not on sbatch or salloc: "
        "remove it and write srun --auto-resume=1 in the job"
    ]
