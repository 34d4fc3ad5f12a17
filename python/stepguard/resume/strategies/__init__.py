# SPDX-License-Identifier: Apache-2.0
"""Where the next attempt runs: the first strategy whose probe passes and that succeeds.

To add one: a module with a class that keeps the promise of `Strategy`, and its row in `ALL`. Its name then stands
in [resume] strategies, whose order is the order of trying.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stepguard.errors import SlurmError
from stepguard.resume.situation import Situation, told
from stepguard.resume.strategies.expand import Expand
from stepguard.resume.strategies.outcome import Failed, Outcome, Placement, Requeued
from stepguard.resume.strategies.requeue import Requeue
from stepguard.resume.strategies.shrink import Shrink
from stepguard.resume.strategies.spare import Spare
from stepguard.resume.strategies.splice import Splice
from stepguard.resume.strategies.wait import Wait

__all__ = ["ALL", "Choice", "Failed", "Placement", "Requeued", "Strategy", "choose"]


class Strategy(Protocol):
    """One way to give the step a place to run."""

    def probe(self, situation: Situation) -> str:
        """Why this cannot be done here, in words for the user; empty when it can be tried. Changes nothing."""

    def carry_out(self, situation: Situation) -> Outcome:
        """Does it. Whatever it leaves behind on failure it takes away again. Raises SlurmError."""


ALL: dict[str, Strategy] = {
    "spare": Spare(),
    "expand": Expand(),
    "splice": Splice(),
    "wait": Wait(),
    "shrink": Shrink(),
    "requeue": Requeue(),
}


class Choice(NamedTuple):
    """What was chosen: the strategy's name ("" when none was left), its outcome, and why the others were not."""

    name: str
    outcome: Outcome
    passed_over: tuple[tuple[str, str], ...]


def choose(situation: Situation) -> Choice:
    """Tries the configured strategies in order until one succeeds."""
    passed_over: list[tuple[str, str]] = []
    for name in situation.config.strategies:
        if not situation.pause(0):
            return Choice("", Failed("interrupted"), tuple(passed_over))
        strategy = ALL[name]
        reason = strategy.probe(situation)
        if not reason:
            try:
                outcome = strategy.carry_out(situation)
            except SlurmError as error:
                outcome = Failed(told(error))
            if not isinstance(outcome, Failed):
                return Choice(name, outcome, tuple(passed_over))
            reason = outcome.why
        passed_over.append((name, reason))
        situation.messages.info(f"{name}: not possible: {reason}")
    return Choice("", Failed("no strategy is left"), tuple(passed_over))
