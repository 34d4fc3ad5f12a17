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


def test_what_is_no_fault_is_not_told(job: Path) -> None:
    job.write_text(HEAD + USE.replace("--auto-resume=1 ", ""))
    assert told(str(job), 4096) == ""


@pytest.mark.parametrize(("uses", "left"), [(1, 0), (8, 0), (9, 1), (100, 92)])
def test_first_lines_and_how_many_more(job: Path, uses: int, left: int) -> None:
    job.write_text(HEAD + USE * uses)
    lines = told(str(job), 4096).splitlines()
    assert lines[0].startswith(f"stepguard: {job}:3: error SG201: ")
    assert len(lines) == min(uses, 8) + bool(left)
    assert not left or lines[-1] == f"stepguard: … and {left} more: stepguard check-script {job}"


def test_what_to_write_instead_is_told_once(job: Path) -> None:
    job.write_text(HEAD + USE + USE.replace("=1", "=yes") + USE)
    lines = [line.partition(": fix: ")[2] for line in told(str(job), 4096).splitlines()]
    assert lines == ["Ask there: $(stepguard nodes --list)", "Write --auto-resume=1", "", ""]


def test_text_fits(job: Path) -> None:
    job.write_text(HEAD + USE * 100)
    for size_bytes in range(0, 3000, 100):
        text = told(str(job), size_bytes)
        assert len(text.encode()) < max(size_bytes, 1)
        assert not text or text.endswith(f"{100 - text.count('SG201')} more: stepguard check-script {job}")


def test_long_script_is_left_alone(job: Path) -> None:
    job.write_text(HEAD + USE + "#" * 70_000)
    assert told(str(job), 4096) == ""
