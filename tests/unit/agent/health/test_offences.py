# SPDX-License-Identifier: Apache-2.0
"""Which jobs a node's GPUs have failed, by what fails while they run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from stepguard.agent.health import offences
from stepguard.agent.health.offences import Offences
from stepguard.config import Health
from stepguard.health.model import Action, FaultClass
from stepguard.health.policy import NodeHealth
from stepguard.health.verdict import NodeVerdict
from stepguard.records.spool import AttemptKey
from unit.health.building import GPU, OTHER, RULES, XID_13, XID_79, finding, looked_at, report, xid

LEMON = Health(lemon_jobs=2, lemon_window_s=1000)
NOW_S = 1_800_000_000.0


class Node:
    """A node whose jobs have these GPUs (None: not known), and its clock."""

    def __init__(self, jobs: dict[int, tuple[str, ...] | None], state: dict[str, Any] | None = None) -> None:
        self.health = looked_at()
        self.jobs = jobs
        self.offences = Offences(LEMON, state or {})

    def look(self, attempts: Iterable[AttemptKey] | None = None) -> bool:
        keys = [AttemptKey(job_id, 0) for job_id in self.jobs] if attempts is None else attempts
        return self.offences.look(self.health.verdict(300), keys, self._own)

    def _own(self, key: AttemptKey) -> NodeVerdict | None:
        gpus = self.jobs[key.job_id]
        return None if gpus is None else self.health.verdict_for(gpus, 300)

    def failed(self) -> list[list[Any]]:
        """GPU and job, as they are kept."""
        return [one[:2] for one in self.offences.state()["jobs"]]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [NOW_S]
    monkeypatch.setattr("stepguard.agent.health.offences.time.time", lambda: now[0])
    return now


def test_a_job_counts_against_its_own_gpu_alone() -> None:
    node = Node({7: ("GPU-1",), 8: ("GPU-2",), 9: (), 10: None})
    node.health.add_event(XID_79, 100)
    assert node.look()
    assert node.failed() == [[GPU, "7"]]
    assert not node.look()


def test_a_gpu_for_which_the_driver_asks_for_a_reboot_each_time_is_an_offender() -> None:
    node = Node({7: ("GPU-1",), 8: ("GPU-1",)})
    for job_id in node.jobs:
        node.health.add_event(XID_79, 100)
        node.health.add_event(xid(154, FaultClass.REBOOT, Action.REBOOT), 100)
        node.look([AttemptKey(job_id, 0)])
        node.health = NodeHealth.from_state(node.health.to_state(200), RULES, f"boot-{job_id}", 0)
        assert not node.health.verdict(1).items
        node.look([])
    assert [one.job_ids for one in node.offences.offenders()] == [("7", "8")]


def test_what_was_before_a_job_began_does_not_count_against_it() -> None:
    node = Node({7: ("GPU-1",)})
    node.health.add_event(XID_79, 100)
    node.look()
    node.jobs[8] = ("GPU-1",)
    for _ in range(2):
        node.look([AttemptKey(8, 0)])
    assert node.failed() == [[GPU, "7"]]
    node.health.add_event(XID_79, 110)  # and again, under that one
    node.look([AttemptKey(8, 0)])
    assert node.failed() == [[GPU, "7"], [GPU, "8"]]


def test_a_job_that_was_over_before_the_next_look_counts() -> None:
    node = Node({7: ("GPU-1",)})
    node.look()
    node.health.add_event(XID_79, 100)
    node.look([])
    assert node.failed() == [[GPU, "7"]]


@pytest.mark.parametrize("event", [XID_13, xid(79, device="")])
def test_a_programs_fault_and_what_is_of_no_gpu_count_for_nothing(event: Any) -> None:
    node = Node({7: ("GPU-1",)})
    node.health.add_event(event, 100)
    node.look()
    assert node.failed() == []


def test_what_a_probe_finds_counts_too() -> None:
    node = Node({7: ("GPU-2",)})
    node.health.add_report(report("nvml", finding(device="GPU-2")), 100)
    node.look()
    assert node.failed() == [[OTHER, "7"]]


def test_a_gpu_that_fails_job_after_job_is_told_until_the_window_has_passed(clock: list[float]) -> None:
    node = Node({7: ("GPU-1",)})
    for job_id, at_s in ((7, 0), (8, 600)):
        clock[0] = NOW_S + at_s
        node.jobs[job_id] = ("GPU-1",)
        for _ in range(2):
            node.look([AttemptKey(job_id, 0)])
        node.health.add_event(XID_79, 100 + at_s / 10)
        node.look([AttemptKey(job_id, 0)])
    [worst] = node.offences.offenders()
    assert (worst.gpu, worst.job_ids, offences.count([worst])) == (GPU, ("7", "8"), 2)
    clock[0] = NOW_S + 1001
    assert node.offences.offenders() == []
    assert offences.count([]) == 0


def test_it_is_remembered_and_counted_once_over_a_restart() -> None:
    node = Node({7: ("GPU-1",)})
    node.health.add_event(XID_79, 100)
    node.look()
    again = Node({7: ("GPU-1",)}, json.loads(json.dumps(node.offences.state())))
    again.health.add_event(XID_79, 100)
    assert not again.look()
    assert again.failed() == [[GPU, "7"]]


def test_what_is_kept_is_bounded(clock: list[float]) -> None:
    node = Node({})
    for number in range(1, 1200):
        node.jobs[number] = ("GPU-1",)
        node.health.add_event(XID_79, 100 + number / 100)
        node.look([AttemptKey(number, 0)])
    assert len(node.failed()) == 1000
    clock[0] = NOW_S + 1001
    node.look([])
    node.health.add_event(XID_79, 200)
    node.jobs[5000] = ("GPU-1",)
    node.look([AttemptKey(5000, 0)])
    assert node.failed() == [[GPU, "5000"]]
