# SPDX-License-Identifier: Apache-2.0
"""Looks at devices that somebody asks for, beside those of the cycle: real probes on the lab's GPUs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gpus import Gpus
from stepguard.agent.health.cycle import APART_S, Cycle
from stepguard.health.model import Report, Status
from stepguard.health.probes.settings import Settings
from unit.agent.health.conftest import Loop

HOUR_S = 3600.0


class Looked:
    """What has been told, in order."""

    def __init__(self, loop: Loop, path: Path, *names: str, cycle_s: float = HOUR_S, limit_s: float = HOUR_S) -> None:
        self.reports: list[Report] = []
        self.answers: list[list[Report]] = []
        self.cycles = 0
        self._loop = loop
        self.cycle = Cycle(
            names,
            cycle_s,
            lambda deadline_s: Settings(min(limit_s, deadline_s), state=str(path)),
            loop.selector,
            self.reports.append,
            self._ended,
        )

    def _ended(self) -> None:
        self.cycles += 1

    def ask(self, *names: str, within_s: float = 30.0) -> None:
        self.cycle.ask(names, within_s, self.answers.append)

    def look(self) -> None:
        self.cycle.look()
        self.cycle.turn()

    def until_answered(self, count: int) -> None:
        self._loop.until(lambda: len(self.answers) >= count, self.look)


@pytest.fixture
def looked(loop: Loop, gpus: Gpus, tmp_path: Path) -> Iterator[Looked]:
    made = Looked(loop, tmp_path, "nvml", "infiniband")
    yield made
    made.cycle.stop()


def test_a_look_that_is_asked_for_is_told_and_taken_in(looked: Looked) -> None:
    looked.ask("nvml", "infiniband", "host")
    looked.until_answered(1)
    [answer] = looked.answers
    assert {one.probe: one.status for one in answer} == {"nvml": Status.OK, "infiniband": Status.OK}
    assert sorted(one.probe for one in looked.reports) == ["infiniband", "nvml"], "the cycle's look is this one"
    assert looked.cycles == 1


def test_those_that_ask_meanwhile_share_the_next_look(looked: Looked) -> None:
    looked.ask("nvml")
    looked.cycle.turn()
    for _ in range(20):
        looked.ask("nvml")
    looked.until_answered(21)
    looks = sum(one.probe == "nvml" for one in looked.reports)
    assert looks in (1, 2, 3), "one for all, or one for the first and one for the twenty, and that of the cycle"


def test_looks_are_apart(looked: Looked) -> None:
    began_s = time.monotonic()
    for number in range(1, 6):
        looked.ask("nvml")
        looked.until_answered(number)
    assert time.monotonic() - began_s >= 4 * APART_S


def test_a_probe_that_hangs_is_told_as_unknown(loop: Loop, gpus: Gpus, tmp_path: Path) -> None:
    gpus["driver.hangs"] = "*"
    looked = Looked(loop, tmp_path, "nvml")
    looked.ask("nvml", within_s=0.5)
    assert looked.cycle.due_s <= time.monotonic() + 0.5
    looked.until_answered(1)
    [[report]] = looked.answers
    assert (report.status, report.reason) == (Status.UNKNOWN, "no answer within 0.5 s")
    looked.ask("nvml", within_s=0.5)
    looked.until_answered(2)
    assert looked.answers[1][0].status is Status.UNKNOWN
    looked.cycle.stop()


def test_one_that_hangs_says_the_same_in_each_cycle(loop: Loop, gpus: Gpus, tmp_path: Path) -> None:
    """Where its deadline is longer than a cycle too: its process is gone before the next one is started."""
    gpus["driver.hangs"] = "*"
    looked = Looked(loop, tmp_path, "nvml", cycle_s=0.1, limit_s=1.0)
    loop.until(lambda: len(looked.reports) == 3, looked.look)
    assert {report.reason for report in looked.reports} == {"no answer within 1 s: nvmlInit was called"}
    looked.cycle.stop()


def test_nothing_to_look_at_is_told_at_once(loop: Loop, tmp_path: Path) -> None:
    looked = Looked(loop, tmp_path, "host")
    looked.ask("nvml")
    looked.look()
    assert looked.answers == [[]]
    looked.cycle.stop()
