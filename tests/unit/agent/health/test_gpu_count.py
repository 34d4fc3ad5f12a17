# SPDX-License-Identifier: Apache-2.0
"""How many GPUs Slurm says the node has: when that is asked, and what is made of the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepguard.agent.health import asker, gpu_count
from stepguard.agent.health.gpu_count import GpuCount
from stepguard.config import Config
from unit.agent.health.conftest import Loop


class Asking:
    """A count whose process appends its arguments to a file, and answers with another."""

    def __init__(self, directory: Path, loop: Loop, state: dict[str, Any] | None = None) -> None:
        self._directory = directory
        self.loop = loop
        self.saves = 0
        self.count = GpuCount(Config(), state or {}, loop.selector, loop.log)

    def answer(self, gpus: int | None, error: str = "") -> None:
        (self._directory / "answer").write_text(json.dumps({"gpus": gpus, "error": error}))

    @property
    def asked(self) -> list[str]:
        path = self._directory / "asked"
        return path.read_text().splitlines() if path.exists() else []

    def look(self, node: str = "n1") -> None:
        self.saves += self.count.look(node)

    def until_asked(self, times: int, node: str = "n1") -> None:
        """And answered."""
        self.loop.until(lambda: len(self.asked) == times and not self.count._asker.is_asking, lambda: self.look(node))
        self.look(node)

    def for_a_while(self) -> None:
        for _ in range(5):
            self.loop.until(lambda: True, self.look)
            self.look()


@pytest.fixture
def make(tmp_path: Path, loop: Loop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Asking]]:
    program = tmp_path / "ask"
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/asked\ncat {tmp_path}/answer\n')
    program.chmod(0o755)
    monkeypatch.setattr(asker, "own_command", lambda: [str(program)])
    made: list[Asking] = []

    def build(**more: Any) -> Asking:
        made.append(Asking(tmp_path, loop, **more))
        return made[-1]

    yield build
    for one in made:
        one.count.stop()


def test_it_is_asked_once_and_only_where_there_are_gpus(make: Callable[..., Asking]) -> None:
    asking = make()
    asking.answer(8)
    asking.for_a_while()
    asking.count.learn({})
    asking.for_a_while()
    assert (asking.asked, asking.count.expected) == ([], None)
    asking.count.learn({"GPU-1": {}})
    asking.until_asked(1)
    asking.for_a_while()
    assert (asking.asked, asking.count.expected, asking.saves) == (["health count-gpus n1"], 8, 1)


def test_what_was_told_holds_over_a_restart_until_the_next_answer(make: Callable[..., Asking]) -> None:
    asking = make(state={"expected": 8})
    asking.answer(None, "no answer from slurmctld")
    assert asking.count.expected == 8
    asking.until_asked(1)
    assert (asking.count.expected, asking.count.state()) == (8, {"expected": 8})
    assert "how many GPUs n1 has in slurm.conf is not known: no answer from slurmctld" in asking.loop.said()
    again = make(state=asking.count.state())
    again.answer(7)
    again.until_asked(2)
    assert (again.count.expected, again.saves) == (7, 1)
    third = make(state=again.count.state())
    third.answer(None)
    third.until_asked(3)
    assert third.count.expected is None, "they are no GPUs of Slurm's any more, or MIG devices"


def test_without_an_answer_it_is_asked_again_but_not_soon(
    make: Callable[..., Asking], monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = make(state={"expected": 8})
    asking.answer(None, "no such node")
    asking.until_asked(1)
    asking.for_a_while()
    assert len(asking.asked) == 1
    asking.answer(6)
    asking.until_asked(2, node="n01")  # slurmd has said the node's name
    assert (asking.asked[1], asking.count.expected) == ("health count-gpus n01", 6)


def test_a_process_that_hangs_or_says_nothing(make: Callable[..., Asking], tmp_path: Path) -> None:
    asking = make(state={"expected": 8})
    (tmp_path / "answer").write_text("Traceback")
    asking.until_asked(1)
    assert (asking.count.expected, "it ended with status 0" in asking.loop.said()) == (8, True)


def test_one_that_does_not_end_is_killed(make: Callable[..., Asking], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_count, "_LIMIT_S", 0.2)
    monkeypatch.setattr(asker, "own_command", lambda: ["sh", "-c", "sleep 600"])
    asking = make(state={"expected": 8})
    asking.loop.until(lambda: "no answer within 0.2 s" in asking.loop.said(), asking.look)
    assert not asking.count._asker.is_asking
