# SPDX-License-Identifier: Apache-2.0
"""What sbatch tells of a script; how it is asked is tested in tests/shim."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepguard.scripts.submission import told

HEAD = "#!/bin/bash\n#SBATCH --exclusive\n"
USE = "srun --auto-resume=1 -w $SLURM_JOB_NODELIST ./train\n"


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "job.sh"


def text_of(job: Path, size_bytes: int) -> str:
    return told(str(job), (), {}, size_bytes).text


def test_what_is_no_fault_is_not_told(job: Path) -> None:
    job.write_text(HEAD + USE.replace("--auto-resume=1 ", ""))
    assert text_of(job, 4096) == ""


@pytest.mark.parametrize(("uses", "left"), [(1, 0), (8, 0), (9, 1), (100, 92)])
def test_first_lines_and_how_many_more(job: Path, uses: int, left: int) -> None:
    job.write_text(HEAD + USE * uses)
    lines = text_of(job, 4096).splitlines()
    assert lines[0].startswith(f"stepguard: {job}:3: error SG201: ")
    assert len(lines) == min(uses, 8) + bool(left)
    assert not left or lines[-1] == f"stepguard: … and {left} more: stepguard check-script {job}"


def test_what_to_write_instead_is_told_once(job: Path) -> None:
    job.write_text(HEAD + USE + USE.replace("=1", "=yes") + USE)
    lines = [line.partition(": fix: ")[2] for line in text_of(job, 4096).splitlines()]
    assert lines == ["Ask there: $(stepguard nodes --list)", "Write --auto-resume=1", "", ""]


def test_text_fits(job: Path) -> None:
    job.write_text(HEAD + USE * 100)
    for size_bytes in range(0, 3000, 100):
        text = text_of(job, size_bytes)
        assert len(text.encode()) < max(size_bytes, 1)
        assert not text or text.endswith(f"{100 - text.count('SG201')} more: stepguard check-script {job}")


def test_long_script_is_left_alone(job: Path) -> None:
    job.write_text(HEAD + USE + "#" * 70_000)
    assert text_of(job, 4096) == ""


@pytest.mark.parametrize(
    ("options", "environment", "is_told"),
    [
        ((), {}, True),
        (("-N", "2", "-J", "--exclusive"), {}, True),
        (("--exclusive=user",), {}, True),
        (("-N2", "--exclusive"), {}, False),
        (("--exclusive=exclusive", "--mem", "0"), {}, False),
        (("--wait", "--exclus"), {}, False),
        ((), {"SBATCH_EXCLUSIVE": "exclusive"}, False),
        ((), {"SBATCH_EXCLUSIVE": "user"}, True),
    ],
)
def test_nodes_may_be_asked_for_elsewhere(
    job: Path, options: tuple[str, ...], environment: dict[str, str], is_told: bool
) -> None:
    job.write_text("#!/bin/bash\n#SBATCH -N2\necho $SLURM_NODELIST\nsrun --auto-resume=1 ./train\n")
    text, is_certain = told(str(job), options, environment, 4096)
    assert ("warning SG304" in text) is is_told
    assert not is_certain
    job.write_text("#!/bin/bash\n#SBATCH -N2\n" + USE)
    text, is_certain = told(str(job), options, environment, 4096)
    assert ("warning SG304" in text) is is_told
    assert is_certain
