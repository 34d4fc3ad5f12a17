# SPDX-License-Identifier: Apache-2.0
"""What holds of the policy whatever comes, and what it keeps over a restart."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepguard.health.marking import REASONS, Mark, Reaction, decide
from stepguard.health.model import Action, Event, FaultClass, Finding, Report, Status
from stepguard.health.policy import NodeHealth
from unit.health.building import GPU, OTHER, RULES, XID_79, finding, looked_at, node, report, xid

CLASSES = st.sampled_from([(one, action) for one in FaultClass for action in Action])
EVENTS = st.builds(
    lambda code, judged, device, trusted, text, pid, places: replace(
        xid(code, judged[0], judged[1], device, trusted, text), pid=pid, places=places
    ),
    st.sampled_from([13, 31, 48, 79, 154, 999]),
    CLASSES,
    st.sampled_from([GPU, OTHER, "GPU-1", "", "nvme0"]),
    st.booleans(),
    st.sampled_from(["a", "b", "\x1b[31m: : "]),
    st.sampled_from(["", "7", "8"]),
    st.sampled_from([frozenset[str](), frozenset({"0.1"}), frozenset({"0.2"}), frozenset({"1.1"})]),
)
FINDINGS = st.builds(
    finding,
    st.sampled_from(["row-remap-failure", "recovery-action", "shm-full"]),
    st.sampled_from(list(Status)),
    st.sampled_from(["GPU-1", "GPU-2", ""]),
    st.sampled_from(list(Action)),
)


def reports(probe: str) -> st.SearchStrategy[Report]:
    def made(found: list[Finding], status: Status | None) -> Report:
        return report(probe, *found, status=status)

    return st.builds(made, st.lists(FINDINGS, max_size=4), st.sampled_from([None, Status.UNKNOWN]))


STEPS = st.one_of(EVENTS, reports("nvml"), reports("host"))


def take(health: NodeHealth, what: Event | Report, now_s: float) -> None:
    if isinstance(what, Event):
        health.add_event(what, now_s)
    else:
        health.add_report(what, now_s)


def happened(steps: list[tuple[Event | Report, float]]) -> tuple[NodeHealth, float]:
    health, now_s = looked_at(), 0.0
    for what, later_s in steps:
        now_s += later_s
        take(health, what, now_s)
    return health, now_s


HISTORIES = st.lists(st.tuples(STEPS, st.sampled_from([0.0, 1.0, 60.0, 400.0, 90_000.0])), max_size=30)


@given(HISTORIES, st.lists(EVENTS, max_size=12), reports("nvml"), reports("host"), st.randoms())
def test_the_order_of_what_comes_at_one_time_does_not_matter(
    history: list[tuple[Event | Report, float]],
    events: list[Event],
    nvml: Report,
    host: Report,
    rng: random.Random,
) -> None:
    together: list[Event | Report] = [*events, nvml, host]
    shuffled = rng.sample(together, len(together))
    states = []
    for order in (together, shuffled):
        health, now_s = happened(history)
        for what in order:
            take(health, what, now_s + 1)
        states.append((health.verdict(now_s + 2), health.to_state(now_s + 2)))
    assert states[0] == states[1]


@given(HISTORIES)
def test_the_state_is_the_same_after_a_restart(history: list[tuple[Event | Report, float]]) -> None:
    health, now_s = happened(history)
    state = health.to_state(now_s)
    again = NodeHealth.from_state(json.loads(json.dumps(state)), RULES, "boot-1", now_s)
    assert again.to_state(now_s) == state
    assert again.verdict(now_s).items == health.verdict(now_s).items


REACTIONS: list[Reaction] = ["drain", "fail"]


@given(HISTORIES, st.sampled_from(REACTIONS))
def test_nothing_is_done_for_what_cannot_be_told(
    history: list[tuple[Event | Report, float]], reaction: Reaction
) -> None:
    health, now_s = happened(history)
    verdict = health.verdict(now_s)
    failed = [item.action for item in verdict.items if item.status is Status.FAIL]
    is_marked = isinstance(decide(verdict, node(), reaction, {}), Mark)
    assert is_marked is bool(REASONS.keys() & set(failed))
    if any(item.status is Status.UNKNOWN for item in verdict.items):
        assert verdict.status is not Status.OK


@pytest.mark.parametrize(
    "state", [{}, {"schema": 2}, {"schema": 1}, {"schema": 1, "gpus": {}, "events": [{}], "looked_s": {}}]
)
def test_a_state_of_another_kind_is_refused(state: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"schema|state"):
        NodeHealth.from_state(state, RULES, "boot-1", 0)


def test_a_storm_is_bounded() -> None:
    health = looked_at()
    health.add_event(XID_79, 0)
    for number in range(5000):
        made = Event(1, "nvme", f"{number}", "nvme0", FaultClass.STORAGE, Action.CHECK, text="x" * 9000)
        health.add_event(made, number)
    state = health.to_state(5000)
    assert len(state["events"]) == 256
    assert len(json.dumps(state)) < 1 << 18
    verdict = health.verdict(5000)
    assert (verdict.status, verdict.action) == (Status.FAIL, Action.REPLACE)
