# SPDX-License-Identifier: Apache-2.0
"""Steps are put together from their nodes' parts, and who failed first is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepguard.archive.layout import RecordName
from stepguard.archive.reading_record import Record
from stepguard.records.manifest import Exit, StepRecord
from stepguard.records.spool import AttemptKey
from stepguard.report.steps import ending, first_failure, how, steps_of
from stepguard.report.timeline import moments
from unit.archive.building import START_S, manifest, node, step, write_record

WATCH = ["/opt/stepguard/venv/bin/python", "-IS", "/opt/stepguard/bin/stepguard", "watch"]


def record_of(archive: Path, on_lead: list[StepRecord], on_other: list[StepRecord], with_lead: bool = True) -> Record:
    nodes = [node("n1", steps=on_lead), node("n2", steps=on_other)]
    directory = write_record(archive, manifest(steps=on_lead), nodes if with_lead else nodes[1:])
    return Record("lab", RecordName(AttemptKey(12, 0)), [directory], None)


@pytest.mark.parametrize("with_lead", [True, False])
def test_the_first_failure(tmp_path: Path, with_lead: bool) -> None:
    batch = StepRecord("batch", "ended", start_s=START_S, end_s=START_S + 71, exits=[Exit(0, 1, 0, START_S + 1)])
    extern = StepRecord("extern", "ended", exits=[Exit(0, 9)])
    watch = step("1", WATCH, [Exit(0, 0, 9, START_S + 2)])
    killed = step("0", ["train"], [Exit(0, 0, 15, START_S + 66), Exit(1, 0, 15, START_S + 67)])
    failed = step("0", ["train"], [Exit(2, 3, 0, START_S + 65), Exit(3, 0, 0, START_S + 50)], end_s=START_S + 80)
    record = record_of(tmp_path, [batch, extern, watch, killed], [failed], with_lead)
    steps = steps_of(record)
    assert [one.step_id for one in steps] == ["batch", "0", "1"]
    assert steps[1].end_s == START_S + 80
    assert len(steps[1].exits) == 4
    assert [one.is_own for one in steps] == [False, False, True]
    found = first_failure(steps)
    assert found is not None
    assert (found[0].step_id, found[1].rank, found[1].node, found[1].status) == ("0", 2, "n2", 3)
    assert ending(steps[1]) == "1 of 4 tasks: exit status 3; 2 of 4 tasks: killed by SIGTERM (15)"
    assert (START_S + 65, "step 0: task 2 on n2 failed: exit status 3") in moments(record)
    assert not any("task 0 on n1 failed: killed by SIGKILL" in one.text for one in moments(record))


def test_a_batch_script_that_failed_by_itself(tmp_path: Path) -> None:
    batch = StepRecord("batch", "ended", exits=[Exit(0, 7)], exits_count=1)
    steps = steps_of(record_of(tmp_path, [batch, step("0", ["train"], [Exit(0)])], []))
    found = first_failure(steps)
    assert found is not None
    assert (found[0].step_id, found[1].status) == ("batch", 7)
    assert ending(steps[1]) == "exit status 7"


def test_a_step_that_was_lost_on_a_node(tmp_path: Path) -> None:
    lost = step("0", ["train"], state="lost", end_s=None)
    (found,) = steps_of(record_of(tmp_path, [step("0", ["train"], [Exit(0), Exit(1)])], [lost]))
    assert found.state == "lost"
    assert ending(found) == "2 tasks told no end"
    (unknown,) = steps_of(record_of(tmp_path / "b", [lost], [lost]))
    assert ending(unknown) == "its end is not known"


@pytest.mark.parametrize(
    ("status", "signal", "text"),
    [
        (None, None, ""),
        (0, 0, "exit status 0"),
        (1, None, "exit status 1"),
        (137, 0, "exit status 137 (128 + SIGKILL)"),
        (255, 0, "exit status 255"),
        (0, 11, "killed by SIGSEGV (11)"),
        (0, 42, "killed by signal 42 (42)"),
    ],
)
def test_how(status: int | None, signal: int | None, text: str) -> None:
    assert how(status, signal) == text
