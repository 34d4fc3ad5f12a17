# SPDX-License-Identifier: Apache-2.0
"""When the agent leaves a word on its node for the cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepguard.agent.health import telling
from stepguard.agent.health.telling import Telling
from stepguard.agent.reserve import Reserve
from stepguard.agent.storing import Storing
from stepguard.health.model import Status
from stepguard.health.offenders import Offender
from stepguard.records.node_state import NodeState, from_json
from unit.agent.health.conftest import Loop
from unit.health.building import XID_79, finding, looked_at, report

LEMON = [Offender("0000:0f:00", ("7", "8", "9"), 1_800_000_000.0)]


class Teller:
    """What tells, of a node whose health a test makes."""

    def __init__(self, directory: Path, loop: Loop) -> None:
        self.path = directory / "node.json"
        self._loop = loop
        self._storing = Storing(Reserve(directory / "reserve", 0, loop.log))
        self.health = looked_at()
        self.telling = self.restarted()

    def restarted(self) -> Telling:
        return Telling(self.path, "boot-1", self._storing, self._loop.log)

    def look(self, offenders: list[Offender] | None = None) -> NodeState | None:
        """What is told then."""
        self.telling.look("n1", self.health.verdict(200), offenders or [])
        end_s = time.monotonic() + 30
        while self._storing.pending and time.monotonic() < end_s:
            self._storing.finished()
            time.sleep(0.005)
        return from_json(self.path.read_bytes()) if self.path.exists() else None


@pytest.fixture
def teller(tmp_path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Teller]:
    monkeypatch.setattr(telling, "_APART_S", 0.0)
    yield Teller(tmp_path, loop)


def test_a_node_that_never_had_trouble_tells_nothing(teller: Teller) -> None:
    assert teller.look() is None
    assert teller.look(LEMON) is not None


def test_before_anything_has_looked_nothing_is_told(teller: Teller) -> None:
    teller.health = type(teller.health)(teller.health._rules, "boot-1")
    assert teller.health.verdict(200).status is Status.UNKNOWN
    assert teller.look() is None


def test_trouble_is_told_with_what_it_rests_on_and_its_end_too(teller: Teller) -> None:
    teller.health.add_report(report("nvml", finding()), 150)
    told = teller.look(LEMON)
    assert told is not None
    assert (told.node, told.status, told.action, told.boot_id) == ("n1", "fail", "replace", "boot-1")
    [item] = told.items
    assert (item.source, item.code, item.device, item.status) == ("nvml", "row-remap-failure", "0000:0f:00", "fail")
    assert item.text == "nvml row-remap-failure on 0000:0f:00: failed: 1"
    began_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    assert abs(item.since_s - (began_s + 150)) < 60
    [offender] = told.offenders
    assert (offender.gpu, offender.job_ids, offender.job_count, told.offences) == ("0000:0f:00", ("7", "8", "9"), 3, 3)
    teller.health = looked_at()
    told = teller.look()
    assert told is not None
    assert (told.status, told.items, told.offences) == ("ok", (), 0)


def test_it_is_written_only_when_something_has_changed(teller: Teller) -> None:
    teller.health.add_event(XID_79, 100)
    teller.look()
    first = teller.path.stat().st_ino
    teller.health.add_event(XID_79, 110)  # once more the same
    teller.look()
    teller.telling = teller.restarted()
    teller.look()
    assert teller.path.stat().st_ino == first
    teller.look(LEMON)
    assert teller.path.stat().st_ino != first


def test_what_has_become_worse_is_written_at_once_and_its_end_later(
    teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nodes of a cluster write to one file server, and a fault may come and go."""
    monkeypatch.setattr(telling, "_APART_S", 3600.0)

    def status() -> str:
        told = teller.look(LEMON)
        assert told is not None
        return told.status

    assert status() == "ok"
    teller.health.add_event(XID_79, 100)
    assert status() == "fail"
    teller.health = looked_at()
    assert status() == "fail"
    teller.telling._not_before_s = 0.0
    assert status() == "ok"
    teller.health.add_event(XID_79, 100)
    assert status() == "fail"


@pytest.mark.parametrize("damage", ["cut", '"status":"ok"->"status":"x"'])
def test_a_file_that_is_damaged_is_written_anew(teller: Teller, damage: str) -> None:
    teller.look(LEMON)
    content = teller.path.read_text()
    before, _, after = damage.partition("->")
    teller.path.write_text(content.replace(before, after) if after else content[:100])
    assert teller.path.read_text() != content
    teller.telling = teller.restarted()
    told = teller.look(LEMON)
    assert told is not None
    assert told.offences == 3
