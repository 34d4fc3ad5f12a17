# SPDX-License-Identifier: Apache-2.0
"""What the page says of nodes that were lost, said nothing or were not used, and of steps that auto-resume ended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepguard.archive.reading import find
from stepguard.records.manifest import Exit, FindingRecord, Missing
from stepguard.report.ended import ended, why_of
from stepguard.report.lacks import missing_of, silent_nodes
from stepguard.report.screen import Screen
from stepguard.report.steps import steps_of
from stepguard.report.times import moment
from unit.archive.building import START_S, manifest, node, step, write_record

LOST = {"event": "end", "attempt": 0, "restart_count": 0, "step_id": "0", "status": 137, "ran_s": 1}
LOST |= {"cause": "node-lost", "why": "n2 is silent", "nodes": ["n2"], "time": START_S + 100}


def lines(archive: Path) -> list[str]:
    (record,) = find(archive, "12")
    return [line.strip() for line in ended(record, steps_of(record), Screen())]


def test_a_node_that_said_nothing_is_named(tmp_path: Path) -> None:
    nodes = ["n1", "n2", "n3", "n4"]
    write_record(tmp_path, manifest(nodes=nodes, node_list="n[1-4]"), nodes=[node("n1"), node("n3")])
    assert lines(tmp_path) == ["exit status 0", "no word of n[2,4]: it may be down, or its agent"]
    (record,) = find(tmp_path, "12")
    assert missing_of(record) == [Missing("all of n[2,4]", "no word of it: it may be down, or its agent")]


def test_a_job_that_gates_refused_says_where_whoever_led_it(tmp_path: Path) -> None:
    refusals = [FindingRecord("gate", "no job may start here: replace: XID 79", START_S, name) for name in ("n2", "n3")]
    nodes = [node("n1"), node("n2", findings=refusals[:1]), node("n3", findings=refusals[1:])]
    told = manifest(outcome="ended", outcome_why="nothing tells that any of it was started here", nodes=["n1"])
    write_record(tmp_path, told, nodes=nodes)
    assert why_of(find(tmp_path, "12")[0]) == "the gate refused it on n[2-3]"
    write_record(tmp_path, manifest(outcome="requeued", outcome_why="its output says so"), nodes=nodes)
    assert why_of(find(tmp_path, "12")[0]) == "the gate refused it on n[2-3]; its output says so"
    write_record(tmp_path, manifest(outcome="completed"), nodes=nodes)
    assert why_of(find(tmp_path, "12")[0]) == ""


def test_why_it_failed_stands_beside_its_exit(tmp_path: Path) -> None:
    told = manifest(outcome="failed", outcome_why="its script did not begin", exit_signal=53, nodes=["n1"])
    write_record(tmp_path, told, nodes=[node("n1")])
    assert lines(tmp_path) == ["killed by signal 53 (53): its script did not begin"]


def test_nodes_of_a_job_that_runs_need_not_have_said_anything(tmp_path: Path) -> None:
    write_record(tmp_path, manifest(state="running", end_s=None, exit_status=None, exit_signal=None))
    assert silent_nodes(find(tmp_path, "12")[0]) == ""


def test_a_lost_node_was_last_heard_of_in_local_time(tmp_path: Path) -> None:
    lost = node("n2", state="lost", end_s=None, last_heard_s=START_S + 5, missing=[Missing("end", "no epilog told")])
    write_record(tmp_path, manifest(), nodes=[node("n1"), lost])
    assert lines(tmp_path)[1] == f"node n2 was lost: no epilog told; last heard of at {moment(START_S + 5)}"


def test_nodes_that_no_step_used_are_one_line(tmp_path: Path) -> None:
    silence = "none told of this job on this node"
    unused = [Missing("prolog", silence), Missing("start", "nothing that was kept tells it")]
    parts = [node("n1"), *(node(f"n{number}", start_s=None, missing=unused) for number in range(2, 9))]
    used = node("n9", missing=unused, steps=[step("0", ["train"])])
    nodes = [f"n{number}" for number in range(1, 10)]
    write_record(tmp_path, manifest(nodes=nodes, node_list="n[1-9]"), nodes=[*parts, used])
    told = missing_of(find(tmp_path, "12")[0])
    assert [one.what for one in told] == ["prolog of n9", "start of n9", "prolog and start of n[2-8]"]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            {},
            "first to fail: step 0: attempt 0 ended with status 137 after 1.0 s: node-lost: n2 is silent (nodes n2)",
        ),
        ({"step_id": "12.0"}, "first to fail: step 0: attempt 0 ended"),
        ({"step_id": None}, "first to fail: step 0: attempt 0 ended"),
        ({"step_id": "1"}, "first to fail: task 0 of step 0 on n1 at "),
        ({"attempt": 1}, "first to fail: task 0 of step 0 on n1 at "),
        ({"restart_count": 1}, "first to fail: task 0 of step 0 on n1 at "),
        ({"nodes": []}, "first to fail: task 0 of step 0 on n1 at "),
    ],
)
def test_a_healthy_node_is_not_blamed_for_what_auto_resume_ended(
    tmp_path: Path, event: dict[str, object], expected: str
) -> None:
    steps = [step("0", ["train"], [Exit(0, 0, 9, START_S + 101)], attempt=0), step("1", ["train"], attempt=1)]
    journal = json.dumps({**LOST, **event}).encode() + b"\n"
    write_record(tmp_path, manifest(), nodes=[node("n1", steps=steps), node("n2")], files={"resumes.jsonl": journal})
    assert lines(tmp_path)[1].startswith(expected)


@pytest.mark.parametrize(("ago_s", "told"), [(1, False), (600, True)])
def test_tasks_that_slurm_killed_with_the_job_did_not_fail_first(tmp_path: Path, ago_s: int, told: bool) -> None:
    steps = [step("0", ["train"], [Exit(0, 0, 15, START_S + 3600 - ago_s)])]
    cancelled = manifest(outcome="cancelled", outcome_why="Slurm ended it", nodes=["n1"], steps=steps)
    write_record(tmp_path, cancelled, nodes=[node("n1", steps=steps)])
    first, *rest = lines(tmp_path)
    assert first == "cancelled: Slurm ended it"
    assert [line.startswith("first to fail: task 0 of step 0 on n1 at ") for line in rest] == [True] * told
