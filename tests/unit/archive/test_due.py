# SPDX-License-Identifier: Apache-2.0
"""Which attempts are archived when."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from stepguard.archive import due
from stepguard.records.spool import COMPLETE, SpoolLayout
from unit.archive.spools import Told


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> due.Due:
    """A running job, in the archive as it is in the spool."""
    monkeypatch.setattr(due, "EARLY_S", 0.0)
    monkeypatch.setattr(due, "AGAIN_S", 0.0)
    directory = Told().prolog().put(tmp_path, complete=False)
    os.utime(directory, (1, 1))  # long ago, so that its time tells changes
    looked = due.Due(SpoolLayout(tmp_path))
    ((key, _),) = looked.look()
    looked.done(key, is_gone=False)
    return looked


def test_a_quiet_one_is_not_written_again(waiting: due.Due) -> None:
    assert waiting.look() == []


def test_but_now_and_then_so_that_its_record_is_not_taken_for_abandoned(
    waiting: due.Due, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + due.BEAT_S)
    ((key, _),) = waiting.look()
    waiting.done(key, is_gone=False)
    assert waiting.look() == []
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 3 * due.BEAT_S)
    assert [one for one, _ in waiting.look()] == [key]


def test_the_end_is_news(waiting: due.Due, tmp_path: Path) -> None:
    (SpoolLayout(tmp_path).attempt(Told().key) / COMPLETE).touch()
    ((_, seen),) = waiting.look()
    assert seen.is_complete
