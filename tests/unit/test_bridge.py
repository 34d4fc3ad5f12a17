# SPDX-License-Identifier: Apache-2.0
"""What the bridge answers; how it is asked is tested in tests/shim."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepguard import bridge
from stepguard.errors import PlacementError

JOB = {"SLURM_JOB_ID": "71"}
# What a command line can hold: no NUL; bytes that are no UTF-8 are lone surrogates.
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=()), max_size=30)


@given(
    st.lists(st.sampled_from(["-n", "4", "-J", "x", "-N2", "--exact", "--gres=gpu:2"])),
    st.lists(WORDS.filter(":".__ne__)),
)
def test_ordinary_step_in_an_allocation_is_guarded(options: list[str], program: list[str]) -> None:
    words = ["srun", *options, "prog", *program]
    assert bridge.judge_srun(words, 1 + len(options), 0, JOB) == (bridge.GUARDED, "71.-")


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ([], {}),
        ([], {"SLURM_JOB_ID": ""}),
        (["--het-group=1"], JOB),
        (["--pack-group", "0"], JOB),
        (["--no-allocate"], JOB),
        (["--no-al"], JOB),
        (["-vZ"], JOB),
        (["--async"], JOB),
        (["--as"], JOB),
        ([], {**JOB, "SLURM_HET_SIZE": "2"}),
        ([], {**JOB, "SLURM_STEPMGR": "n1"}),
        (["--jobid=9"], {"SLURM_STEPMGR": "n1"}),
    ],
)
def test_refused(options: list[str], environment: dict[str, str]) -> None:
    with pytest.raises(PlacementError) as refused:
        bridge.judge_srun(["srun", *options, "prog"], 1 + len(options), 0, environment)
    assert refused.value.exit_status == 2
    assert refused.value.on == shlex.join(["srun", *options, "prog"])
    assert refused.value.advice


@pytest.mark.parametrize(
    "options",
    [
        ["--jobid=9"],
        ["--jobi", "9"],
    ],
)
def test_named_job_is_an_allocation(options: list[str]) -> None:
    assert bridge.judge_srun(["srun", *options, "prog"], 1 + len(options), 0, {})[0] == bridge.GUARDED


@pytest.mark.parametrize("options", [["-J", "--async"], ["--job-name", "-Z"], ["-JZ"], ["--comment=--no-allocate"]])
def test_values_are_not_mistaken_for_options(options: list[str]) -> None:
    assert bridge.judge_srun(["srun", *options, "prog", "--async", "-Z"], 1 + len(options), 0, JOB)[0] == bridge.GUARDED


def test_border_of_components_counts_only_behind_the_program() -> None:
    assert bridge.judge_srun(["srun", "-J", ":", "prog", "a:b"], 3, 0, JOB)[0] == bridge.GUARDED
    with pytest.raises(PlacementError, match="several components"):
        bridge.judge_srun(["srun", "prog", ":", "-n1", "prog"], 1, 0, JOB)
    with pytest.raises(PlacementError, match="several components"):
        bridge.judge_srun(["srun", "prog"], 1, 1, JOB)


@pytest.mark.parametrize(
    ("held", "step", "decision"),
    [
        ("71.-", "", bridge.PLAIN),
        ("71.4294967290", "4294967290", bridge.PLAIN),
        ("71.-", "0", None),
        ("71.4294967290", "1", None),
        ("70.-", "", bridge.GUARDED),
        ("70.-", "0", bridge.GUARDED),
        ("", "0", bridge.GUARDED),
        ("1", "0", bridge.GUARDED),
    ],
)
def test_guard_tells_attempt_from_task_from_other_job(held: str, step: str, decision: int | None) -> None:
    environment = {**JOB, "STEPGUARD_SUPERVISED": held, "SLURM_STEP_ID": step}
    if decision is None:
        with pytest.raises(PlacementError, match="guarded already"):
            bridge.judge_srun(["srun", "prog"], 1, 0, environment)
    else:
        assert bridge.judge_srun(["srun", "prog"], 1, 0, environment)[0] == decision


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("srun ./train", "srun --auto-resume=1 ./train"),
        ("  srun\t-n4   ./train", "srun --auto-resume=1 -n4 ./train"),
        ("exec srun ./train", "exec srun --auto-resume=1 ./train"),
        ("/usr/bin/srun ./train", "/usr/bin/srun --auto-resume=1 ./train"),
        ("A=1 B='x' srun ./train", "A=1 B='x' srun --auto-resume=1 ./train"),
        ("if srun ./train; then", "if srun --auto-resume=1 ./train; then"),
        ("cd x && srun ./train", "cd x && srun --auto-resume=1 ./train"),
        ("time srun ./train &", "time srun --auto-resume=1 ./train &"),
        ("out=$(srun ./train)", "out=$(srun --auto-resume=1 ./train)"),
        ("srun --auto-resume=0 ./train", "srun --auto-resume=1 ./train"),
        ("srun ./train \\", "srun --auto-resume=1 ./train \\"),
    ],
)
def test_step_of_the_script_is_quoted_corrected(tmp_path: Path, line: str, corrected: str) -> None:
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n#SBATCH --auto-resume=1\n# srun here\necho 'srun there'\nmysrun x\nsrun\n{line}\n")
    error = bridge.misplaced(["sbatch", script.name], 1, False, str(script))
    assert error.on == f"{script} line 2: #SBATCH --auto-resume=1"
    assert error.advice == f"remove it there, and on line 7 of {script} write: {corrected}"


@pytest.mark.parametrize(
    "directive", ["#SBATCH --auto-resume=1", "#SBATCH -N2 --auto-res 1 # why", "#SCRON --auto-resume=1"]
)
def test_directive_is_quoted(tmp_path: Path, directive: str) -> None:
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n## SBATCH --auto-resume=1\n#SBATCH --automatic=1 -J --a\n{directive}\n")
    error = bridge.misplaced(["sbatch", script.name], 1, False, str(script))
    assert error.on == f"{script} line 4: {directive}"
    assert error.advice == "remove it there, and write srun --auto-resume=1 in the job"


def test_command_of_salloc_is_no_script(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("srun ./train\n")
    error = bridge.misplaced(
        ["/usr/bin/salloc", "--auto-resume=1", "-N2", str(script), "--auto-resume=1"], 3, False, str(script)
    )
    assert "not on salloc" in error.what
    assert (
        error.advice == f"write /usr/bin/salloc -N2 {script} --auto-resume=1, and write srun --auto-resume=1 in the job"
    )


@example(["", "\ud800"], 1, False)
@given(st.lists(WORDS, max_size=8), st.integers(0, 9), st.booleans())
def test_refusal_is_one_printable_line_whatever_the_words(words: list[str], command_at: int, inherited: bool) -> None:
    error = bridge.misplaced(["sbatch", *words], min(command_at, len(words)) + 1, inherited, "")
    assert str(error).isprintable()
    assert len(str(error)) < 2000


@given(st.lists(WORDS.filter(lambda word: word.isprintable() and len(word) < 20), max_size=8))
def test_shown_words_can_be_pasted_into_a_shell(words: list[str]) -> None:
    assert shlex.split(bridge.shown(words)) == words


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert bridge.shown(["\udcff\n\x1b"]) == "'\\xff\\n\\x1b'"
    assert bridge.shown(["x" * 1000]) == "x" * 300 + "…"


def test_the_answer_go_on_imports_next_to_nothing() -> None:
    """It is given inside srun, before every guarded step."""
    program = (
        "import sys; sys.path.append(sys.argv[1]); import os; before = set(sys.modules)\n"
        "from stepguard import bridge\n"
        "assert bridge.judge_srun(['srun', '-n4', 'prog'], 2, 0, {'SLURM_JOB_ID': '1'})[0] == bridge.GUARDED\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    package = str(Path(bridge.__file__).parents[1])
    command = [sys.executable, "-I", "-S", "-c", program, package]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__future__", "stepguard", "stepguard.bridge", "stepguard.errors"]
