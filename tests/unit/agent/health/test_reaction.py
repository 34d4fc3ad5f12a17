# SPDX-License-Identifier: Apache-2.0
"""When something is done to the node in Slurm: by a process that says here what a test wants it to say."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepguard.agent.health import asker
from stepguard.agent.health import reaction as reactions
from stepguard.agent.health.reaction import Reaction
from stepguard.config import Agent, Config, Health
from stepguard.health.verdict import NodeVerdict
from unit.agent.health.conftest import Loop
from unit.health.building import XID_13, XID_79, finding, looked_at, report

_APART_S = 0.1


class Reacting:
    """A reaction whose process appends its question to a file, and answers with another."""

    def __init__(
        self, directory: Path, loop: Loop, state: dict[str, Any] | None = None, how: str = "fail", gate: bool = False
    ) -> None:
        self._directory = directory
        self.loop = loop
        self.health = looked_at()
        self.saves = 0
        config = Config(agent=Agent(gate=gate), health=Health(reaction=how))
        self.reaction = Reaction(config, state or {"node": "n1"}, loop.selector, loop.log)

    def answer(self, done: str, *, is_marked: bool = False) -> None:
        said = json.dumps({"done": done, "text": f"so it is {done}", "is_marked": is_marked})
        (self._directory / "answer").write_text(said)

    @property
    def verdict(self) -> NodeVerdict:
        return self.health.verdict(200)

    @property
    def asked(self) -> list[dict[str, Any]]:
        path = self._directory / "asked"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def look(self) -> None:
        self.saves += self.reaction.look(self.verdict)

    def until_asked(self, count: int) -> None:
        """And answered."""
        self.loop.until(lambda: len(self.asked) == count and not self.reaction._asker.is_asking, self.look)

    def for_a_while(self) -> None:
        """Long enough for a question that is due to be asked."""
        end_s = time.monotonic() + 4 * _APART_S
        self.loop.until(lambda: time.monotonic() >= end_s, self.look)


@pytest.fixture
def make(tmp_path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Reacting]]:
    program = tmp_path / "react"
    program.write_text(f"#!/bin/sh\ncat >> {tmp_path}/asked\necho >> {tmp_path}/asked\ncat {tmp_path}/answer\n")
    program.chmod(0o755)
    monkeypatch.setattr(asker, "own_command", lambda: [str(program)])
    monkeypatch.setattr(reactions, "APART_S", _APART_S)
    made: list[Reacting] = []

    def build(**more: Any) -> Reacting:
        made.append(Reacting(tmp_path, loop, **more))
        return made[-1]

    yield build
    for one in made:
        one.reaction.stop()


Make = Callable[..., Reacting]


def settled(make: Make, **more: Any) -> Reacting:
    """One that has looked at the start, as each does, and found nothing to do."""
    one = make(**more)
    one.answer("left")
    one.until_asked(1)
    return one


def test_a_node_that_is_well_is_looked_at_once(make: Make) -> None:
    """An agent that died over its claim may have left it."""
    one = settled(make)
    one.for_a_while()
    assert len(one.asked) == 1


def test_hardware_that_failed_is_marked_once(make: Make) -> None:
    one = settled(make)
    one.health.add_event(XID_79, 100)
    one.answer("marked", is_marked=True)
    one.until_asked(2)
    asked = one.asked[1]
    assert (asked["node"], asked["reaction"], asked["memory"]) == ("n1", "fail", {})
    assert NodeVerdict.from_record(asked["verdict"]) == one.verdict
    assert "so it is marked" in one.loop.said()
    one.for_a_while()
    assert len(one.asked) == 2
    state = one.reaction.state()
    assert (state["is_marked"], list(state["memory"].values())) == (True, [1])
    again = make(state=state)
    again.health.add_event(XID_79, 100)
    again.until_asked(3)  # a new agent looks once
    again.for_a_while()
    assert len(again.asked) == 3


def test_no_reaction_asks_for_nothing(make: Make) -> None:
    one = make(how="none")
    one.health.add_event(XID_79, 100)
    one.for_a_while()
    assert one.asked == []


@pytest.mark.parametrize(("how", "asked"), [("none", "gate"), ("drain", "drain"), ("fail", "fail")])
def test_a_gate_has_leave_for_what_was_allowed(make: Make, how: str, asked: str) -> None:
    one = settled(make, how=how, gate=True)
    one.health.add_event(XID_79, 100)
    one.answer("refused")
    one.until_asked(2)
    assert one.asked[1]["reaction"] == asked
    [failed] = one.verdict.items
    assert "circuit breaker" in one.reaction.obstacle(failed)
    one.reaction._not_before_s = 0
    one.answer("marked", is_marked=True)
    one.until_asked(3)
    assert one.reaction.obstacle(failed) == ""
    one.health.add_report(report("nvml", finding()), 101)
    [new] = [item for item in one.verdict.items if item.source == "nvml"]
    assert "circuit breaker" in one.reaction.obstacle(new), "what has come since was not asked for"
    assert one.reaction.document()["configured"] == how


@pytest.mark.parametrize(("how", "gate"), [("none", True), ("fail", False)])
def test_an_administrator_has_taken_the_mark_away(make: Make, how: str, gate: bool) -> None:
    """Slurm is asked for it as long as it stands, though nothing new has failed."""
    one = settled(make, how=how, gate=gate)
    one.health.add_event(XID_79, 100)
    one.answer("marked", is_marked=True)
    one.until_asked(2)
    [failed] = one.verdict.items
    one.answer("left", is_marked=True)
    for count in (3, 4):
        one.for_a_while()
        one.reaction._not_before_s = 0
        one.until_asked(count)
        assert one.reaction.obstacle(failed) == ""
    assert one.loop.said().count("nothing is done to n1: so it is left") <= 2, "at the start, and once more"
    one.answer("left")
    one.reaction._not_before_s = 0
    one.until_asked(5)
    assert one.reaction.obstacle(failed) == "an administrator has put this node back into service since"
    one.reaction._not_before_s = 0
    one.for_a_while()
    assert len(one.asked) == 5


def test_what_asks_for_nothing_is_left(make: Make) -> None:
    one = settled(make)
    one.health.add_event(XID_13, 100)
    one.health.add_report(report(reason="why", status=finding().status.UNKNOWN), 101)
    one.for_a_while()
    assert len(one.asked) == 1


def test_a_full_breaker_is_said_loudly_and_asked_again_later(make: Make) -> None:
    one = settled(make)
    one.health.add_event(XID_79, 100)
    one.answer("refused")
    one.until_asked(2)
    assert "<3>stepguard agent: the circuit breaker holds: so it is refused" in one.loop.said()
    one.health.add_event(XID_79, 103)  # more of the same waits too
    one.for_a_while()
    assert (len(one.asked), one.reaction.state()["memory"]) == (2, {})
    one.reaction._not_before_s = 0
    one.answer("marked", is_marked=True)
    one.until_asked(3)


def test_a_process_that_fails_is_started_again_soon(make: Make) -> None:
    one = settled(make)
    one.health.add_event(XID_79, 100)
    (one._directory / "answer").write_text("garbage")
    one.until_asked(2)
    assert "no reaction to this node's health, tried again in 30 s: it ended with status 0" in one.loop.said()


def test_one_that_hangs_is_killed(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "react").write_text("#!/bin/sh\nsleep 1000\n")
    monkeypatch.setattr(reactions, "_LIMIT_S", 0.5)
    one = make()
    one.loop.until(lambda: "no answer within 0.5 s" in one.loop.said(), one.look)


def test_news_do_not_wait(make: Make) -> None:
    """A node that somebody else had drained is left; what comes then is looked at at once."""
    one = settled(make)
    one.health.add_event(XID_79, 100)
    one.until_asked(2)
    one.for_a_while()
    assert len(one.asked) == 2
    one.health.add_event(XID_79, 103)
    one.until_asked(3)


def test_our_drain_is_lifted_when_the_node_is_well(make: Make) -> None:
    one = settled(make, how="drain")
    one.health.add_report(report("nvml", finding()), 100)
    one.answer("marked", is_marked=True)
    one.until_asked(2)
    for now_s in (101, 150, 500):
        one.health.add_report(report(), now_s)
    one.answer("lifted")
    one.reaction._not_before_s = 0
    one.until_asked(3)
    assert one.asked[2]["verdict"]["status"] == "ok"
    assert (one.reaction.state()["is_marked"], one.reaction.state()["memory"]) == (False, {})


def test_the_nodes_name(make: Make) -> None:
    one = settled(make)
    one.reaction.know_node("")
    one.reaction.know_node("gpu-a17")
    before = one.saves
    one.look()
    assert (one.reaction.state()["node"], one.saves) == ("gpu-a17", before + 1)
