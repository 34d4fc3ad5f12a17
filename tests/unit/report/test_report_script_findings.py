# SPDX-License-Identifier: Apache-2.0
"""What check-script says of an archived script, on the page; after a resume, which of it came true."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stepguard.archive.reading import find
from stepguard.archive.reading_record import Record
from stepguard.records.manifest import ScriptFinding
from stepguard.report.job_page import job_page
from stepguard.report.screen import Screen
from stepguard.report.script_findings import happenings
from stepguard.report.timeline import timeline
from unit.archive.building import START_S, manifest, write_record

LIST = "SLURM_JOB_NODELIST → MASTER_ADDR → torchrun --rdzv_endpoint on line 22: stale after a resume"
COUNT = "SLURM_NNODES → srun -N on line 20: stale after a resume"
WITHIN = "SLURM_JOB_NODELIST → MASTER_ADDR → torchrun on line 23: may not be the step's own"
NODES = ["n1", "n2", "n3", "n4"]


def finding(line: int, message: str, severity: str = "error", kind: str = "stale-nodelist") -> ScriptFinding:
    return ScriptFinding("SG201", kind, severity, line, 1, message, "$(stepguard nodes --first)")


FINDINGS = [
    finding(7, "the allocation may share its nodes", "warning", "not-exclusive"),
    finding(14, LIST),
    finding(20, COUNT, "info"),
]


def event(kind: str, attempt: Any, nodes: Any = None, key: str = "a", restart_count: Any = 0) -> dict[str, Any]:
    told = {"event": kind, "attempt": attempt, "step_key": key, "restart_count": restart_count, "time": START_S + 60}
    return told if nodes is None else {**told, "nodes": nodes}


def resumed(attempt: int, lost: Sequence[str], then: Sequence[str], **more: Any) -> list[dict[str, Any]]:
    """From the end of an attempt to the beginning of the next."""
    end, choice = event("end", attempt, list(lost), **more), event("choice", attempt, list(then), **more)
    return [end, choice, event("start", attempt + 1, **more)]


def record_with(
    root: Path, events: Sequence[object], findings: Sequence[ScriptFinding] = FINDINGS, attempt: int = 0
) -> Record:
    journal = "".join(json.dumps(one) + "\n" for one in events).encode()
    told = manifest(attempt=attempt, node_list="n[1-4]", nodes=NODES, script_findings=list(findings))
    write_record(root, told, files={"resumes.jsonl": journal})
    return find(root, "12")[-1]


def test_what_is_read_within_the_step_is_not_of_the_first_attempt(tmp_path: Path) -> None:
    events = [event("start", 0), *resumed(0, ["n3"], ["n1", "n2", "n4"])]
    record = record_with(tmp_path, events, [finding(14, LIST), finding(23, WITHIN)])
    assert [one.finding.line for one in happenings(record)] == [14]


def texts(record: Record) -> list[str]:
    return [one.text for one in happenings(record)]


def page_of(record: Record, screen: Screen | None = None) -> str:
    return "\n".join(job_page(record, [record], screen or Screen()))


def test_a_job_that_was_not_resumed_shows_errors_and_warnings(tmp_path: Path) -> None:
    record = record_with(tmp_path, [])
    page = page_of(record)
    assert (
        "\nIn the script\n"
        "  line 7: warning SG201: the allocation may share its nodes\n"
        f"  line 14: error SG201: {LIST}\n"
        "  what to write instead: stepguard job 12 script | stepguard check-script -\n"
    ) in page
    assert "line 20" not in page
    assert (texts(record), "\nFindings\n" in page) == ([], False)
    assert page_of(record, Screen(utf8=False)).isascii()


def test_what_is_stale_came_true_in_a_resume(tmp_path: Path) -> None:
    record = record_with(tmp_path, [event("start", 0), *resumed(0, ["n3"], ["n1", "n2", "n4"])])
    began = "of attempt 0: when attempt 1 began"
    told = f"line 14 used the node list {began}, SLURM_JOB_NODELIST still named n3, which was lost"
    counted = f"line 20 used the node count {began}, SLURM_NNODES still counted n3, which was lost"
    assert texts(record) == [told, counted]
    assert page_of(record).split("\n\n")[1].split("\n") == [
        "Findings",
        f"  stale-nodelist: {told}",
        f"  stale-nodelist: {counted}",
    ]
    assert [line[21:] for line in timeline(record, Screen()) if "line 14" in line] == [
        f"+00:01:00     finding stale-nodelist: {told}"
    ]


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([*resumed(0, ["n3"], ["n1"]), *resumed(1, ["n2"], ["n1"])], "2 began, SLURM_JOB_NODELIST still named n[2-3]"),
        ([*resumed(0, ["n3"], ["n1"]), event("start", 0, key="b")], "1 began, SLURM_JOB_NODELIST still named n3"),
        (resumed(0, ["n3"], ["n1", "n3"]), ""),  # it came back
        (resumed(0, ["n9"], ["n1"]), ""),  # of a helper: the list never named it
        ([event("end", 0, ["n3"]), event("choice", 0, [])], ""),
        (resumed(0, ["n3"], ["n1"], restart_count=1), ""),
    ],
)
def test_what_came_true_is_which_nodes_were_lost(tmp_path: Path, events: list[dict[str, Any]], said: str) -> None:
    found = texts(record_with(tmp_path, [event("start", 0), *events], FINDINGS[1:2]))
    start = "line 14 used the node list of attempt 0: when attempt "
    assert [text.removeprefix(start).partition(", which")[0] for text in found] == ([said] if said else [])


def test_attempts_of_a_requeued_job_go_on_counting(tmp_path: Path) -> None:
    before = [event("start", 0), *resumed(0, ["n1"], ["n2"])]
    now = [event("start", 2, restart_count=1), *resumed(2, ["n3"], ["n1"], restart_count=1)]
    (text,) = texts(record_with(tmp_path, [*before, *now], FINDINGS[1:2], attempt=1))
    assert "node list of attempt 2: when attempt 3 began, SLURM_JOB_NODELIST still named n3," in text


def test_there_are_lines_for_some_only(tmp_path: Path) -> None:
    many = [finding(line, f"SLURM_JOB_NODELIST → {line}") for line in range(1, 41)]
    page = page_of(record_with(tmp_path, [event("start", 0), *resumed(0, ["n3"], ["n1"])], many))
    assert sum(line.startswith("  line ") for line in page.split("\n")) == 9
    assert "  31 more, and what to write instead: stepguard job 12 script | stepguard check-script -\n" in page
    assert "  20 more: stepguard job 12 --json\n" in page


def test_a_journal_and_findings_that_somebody_made_up(tmp_path: Path) -> None:
    evil = "\x1b]0;x\x07\n\u202e"
    events = [event("start", 0), *resumed(0, ["n3"], ["n1"]), event("start", "7", key=evil), event("end", 1, {"a": 1})]
    events += [event("choice", True, evil), event("start", [1]), event("start", 1, restart_count="0"), {"event": evil}]
    page = page_of(record_with(tmp_path, events, [finding(10**17, evil * 2000), finding(-1, "")]))
    assert all(line.isprintable() for line in page.split("\n"))


def test_nodes_were_not_shared_where_a_guarded_step_ran(tmp_path: Path) -> None:
    page = page_of(record_with(tmp_path, [event("start", 0), event("end", 0)]))
    assert f"\nIn the script\n  line 14: error SG201: {LIST}\n" in page
    assert "share its nodes" not in page
