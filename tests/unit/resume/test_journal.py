# SPDX-License-Identifier: Apache-2.0
"""The journal outlives the run of a job, and damage to it."""

from __future__ import annotations

import json
import os
import pwd
import stat
from pathlib import Path

from stepguard.resume.journal import Journal, directory, step_key

KEY = step_key(["srun", "train"])


def test_events_are_json_lines_that_only_the_owner_reads(tmp_path: Path) -> None:
    path = tmp_path / "cluster" / "71" / "resumes.jsonl"
    Journal(path, KEY, 0).write("start", attempt=0)
    record = json.loads(path.read_text())
    assert record["event"] == "start"
    assert record["schema"] == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_attempt_numbers_go_on_after_a_requeue(tmp_path: Path) -> None:
    path = tmp_path / "resumes.jsonl"
    first = Journal(path, KEY, 0)
    first.write("start", attempt=0)
    first.write("start", attempt=1)
    assert first.earlier_attempts() == 0
    assert Journal(path, KEY, 1).earlier_attempts() == 2
    assert Journal(path, step_key(["srun", "other"]), 1).earlier_attempts() == 0


def test_a_step_that_ended_well_starts_again_at_zero(tmp_path: Path) -> None:
    path = tmp_path / "resumes.jsonl"
    first = Journal(path, KEY, 0)
    first.write("start", attempt=0)
    first.write("end", attempt=0, status=0)
    assert Journal(path, KEY, 1).earlier_attempts() == 0


def test_damaged_lines_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "resumes.jsonl"
    Journal(path, KEY, 0).write("start", attempt=0)
    with path.open("ab") as file:
        file.write(b'{"schema":1,"event":"st\n\xff\xfe\n[]\n')
    Journal(path, KEY, 0).write("start", attempt=1)
    assert [record["attempt"] for record in Journal(path, KEY, 1).records()] == [0, 1]
    assert Journal(path, KEY, 1).earlier_attempts() == 2


def test_a_journal_that_cannot_be_written_is_told_once_and_ends_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    told: list[str] = []
    journal = Journal(blocked / "71" / "resumes.jsonl", KEY, 0, told.append)
    journal.write("start", attempt=0)
    journal.write("start", attempt=1)
    assert len(told) == 1
    assert "cannot be written" in told[0]
    assert journal.earlier_attempts() == 0


def test_directory_is_the_owners_and_cannot_be_left(tmp_path: Path) -> None:
    assert directory({"HOME": "/home/a"}, "c1", "71") == Path("/home/a/.local/state/stepguard/c1/71")
    assert directory({"XDG_STATE_HOME": str(tmp_path)}, "../../x", "71").is_relative_to(tmp_path / "stepguard")
    assert os.pardir not in directory({"HOME": "/h"}, "..", "71").parts


def test_relative_places_are_ignored() -> None:
    own_home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    for environment in ({"XDG_STATE_HOME": "state", "HOME": ""}, {"HOME": "here"}, {}):
        assert directory(environment, "c", "71") == own_home / ".local/state/stepguard/c/71"


def test_a_pipe_or_a_device_in_its_place_blocks_nobody(tmp_path: Path) -> None:
    fifo, device = tmp_path / "fifo", tmp_path / "device"
    os.mkfifo(fifo)
    device.symlink_to("/dev/zero")
    for path in (fifo, device):
        told: list[str] = []
        journal = Journal(path, KEY, 0, told.append)
        journal.write("start", attempt=0)
        assert len(told) == 1
        assert journal.records() == []
