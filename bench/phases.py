# SPDX-License-Identifier: Apache-2.0
"""Where the time between a fault and all tasks running again went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.budgets import Budget
from bench.figures import figure
from bench.journals import Events
from bench.table import Row


class Bounds(NamedTuple):
    """The budgets of a recovery, where it has any."""

    total: Budget | None = None
    after_detection: Budget | None = None
    after_decision: Budget | None = None


@dataclass(frozen=True)
class Phases:
    """One recovery, in seconds. The phases follow on one another without a gap."""

    detect_s: float
    """Until the supervisor gave the attempt up."""
    decide_s: float
    """Until it had its verdict."""
    replace_s: float
    """Until the bad node had left the job, the old step was ended, and everything was ready for srun."""
    relaunch_s: float
    """srun, until the program has run its first line on every rank."""

    @property
    def after_decision_s(self) -> float:
        """The last two."""
        return self.replace_s + self.relaunch_s

    @property
    def after_detection_s(self) -> float:
        """All but the first."""
        return self.decide_s + self.after_decision_s

    @property
    def total_s(self) -> float:
        """All."""
        return self.detect_s + self.after_detection_s


def phases(journal: Events, fault_at: float, ranks: Sequence[Mapping[str, Any]]) -> Phases:
    """The phases of the first resume, which was within the job. `ranks` are what the program's ranks saw in the new
    attempt; times are Unix times, of the one clock that all hosts of a lab share."""
    end, start = journal["end", 0], journal["start", 1]
    return Phases(
        detect_s=end["time"] - end["decide_s"] - fault_at,
        decide_s=end["decide_s"],
        replace_s=start["time"] - end["time"],
        relaunch_s=launch_s(journal, 1, ranks),
    )


def launch_s(journal: Events, attempt: int, ranks: Sequence[Mapping[str, Any]]) -> float:
    """How long an attempt took to run the program's first line on every rank."""
    return float(max(rank["time"] for rank in ranks) - journal["start", attempt]["time"])


def rows(part: str, taken: Sequence[Phases], bounds: Bounds) -> Iterable[Row]:
    """The sum, what came after detection and after the decision, and each phase, over all recoveries."""
    for what, name, budget in (
        ("fault → all tasks running again", "total", bounds.total),
        ("  of which after detection", "after_detection", bounds.after_detection),
        ("  of which after the decision", "after_decision", bounds.after_decision),
        *((f"  {name}", name, None) for name in ("detect", "decide", "replace", "relaunch")),
    ):
        yield Row(part, what, "s", figure([getattr(p, f"{name}_s") for p in taken]), None, budget)
