# SPDX-License-Identifier: Apache-2.0
"""How often a device has failed in one way: which lines are of one crash, and whether crashes repeat. Pure.

One crash prints many lines, within a moment or by one program; they are one time. Where its lines tell the place on the
GPU (GPC and TPC of an XID 13), only crashes at one place are a repetition: a defective unit fails where it is, while a
program fails wherever it runs. So crashes in several GPCs at once count for nothing ("Repeat TPC and GPC" of NVIDIA's
WORKFLOW_XID_13, otherwise "CHECK_APP/CUDA"). Crashes that tell no place count with those of any.

An MMU fault (31) names the client of the MMU that met it, which is whoever used the address, not what is broken:
NVIDIA's WORKFLOW_XID_31 goes by the GPU, and so does this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from stepguard.health.model import Action, FaultClass

# Lines of one crash come within this time, whoever they name.
APART_S = 2.0
# Lines that name one program are of one crash until it has been silent for so long; a number comes again in the end.
PROGRAM_S = 60.0
# So many crashes can be told to be too many.
MAX_COUNT = 64
# In several GPCs at once.
SCATTERED = frozenset({"*"})


class Rule(Protocol):
    """`count` times on one device within `within_s`, and an event is of this class and action instead."""

    @property
    def count(self) -> int: ...
    @property
    def within_s(self) -> float: ...
    @property
    def fault_class(self) -> FaultClass: ...
    @property
    def action(self) -> Action: ...


class When(NamedTuple):
    """Seconds, and by which clock: of the world's, or of the log's own."""

    seconds: float
    is_of_the_world: bool = False


def apart_s(one: When | None, other: When | None) -> float | None:
    """None where nobody can tell. A log may run backwards."""
    if one is None or other is None or one.is_of_the_world is not other.is_of_the_world:
        return None
    return abs(one.seconds - other.seconds)


def together(places: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    """The places of one crash, "GPC.TPC" each, whose lines tell of these and those."""
    both = places | others
    return SCATTERED if len({place.partition(".")[0] for place in both}) > 1 else both


@dataclass
class _Crash:
    first: When | None
    last: When | None
    places: frozenset[str]
    names_program: bool


@dataclass
class Crashes:
    """Those of one device in one way. Lines are added in the order of the log."""

    _crashes: list[_Crash] = field(default_factory=list)
    _by_pid: dict[str, _Crash] = field(default_factory=dict)
    # That of the last line, and its lines that tell neither a program nor a time.
    _latest: _Crash | None = None
    _texts: set[str] = field(default_factory=set)

    def add(self, when: When | None, pid: str, places: frozenset[str], text: str = "") -> None:
        """Takes in a line. `text` tells one from the next where it names neither a time nor a program."""
        crash = self._of(when, pid, text)
        if crash is None:
            crash = _Crash(when, when, places, bool(pid))
            self._crashes.append(crash)
            self._texts.clear()
        else:
            crash.last = when
            crash.names_program |= bool(pid)
            if not places <= crash.places and crash.places is not SCATTERED:
                crash.places = together(crash.places, places)
        self._latest = crash
        if when is None and not pid and len(self._texts) < MAX_COUNT:
            self._texts.add(text)
        if pid:
            self._by_pid.pop(pid, None)
            self._by_pid[pid] = crash
            if len(self._by_pid) > MAX_COUNT:
                del self._by_pid[next(iter(self._by_pid))]

    def _of(self, when: When | None, pid: str, text: str) -> _Crash | None:
        """The crash that the line is of; None for a new one."""
        if (known := self._by_pid.get(pid)) and (apart_s(known.last, when) or 0.0) < PROGRAM_S:
            return known
        latest = self._latest
        if latest is None:
            return None
        is_programs = latest.names_program and not pid
        apart = apart_s(latest.last if is_programs else latest.first, when)
        is_same = not pid and text not in self._texts if apart is None else apart < APART_S
        return latest if is_same else None

    def __len__(self) -> int:
        return len(self._crashes)

    def keep_newest(self, count: int) -> None:
        """Forgets those that are older."""
        del self._crashes[:-count]

    def repeat(self, rule: Rule) -> bool:
        """Whether there were `rule.count` of them within the rule's time, at one place where they tell it."""
        told = [crash for crash in self._crashes if crash.places != SCATTERED]
        if len(told) < rule.count:
            return False
        places = frozenset[str]().union(*(crash.places for crash in told)) or {""}
        return any(
            _within(rule, [crash.first for crash in told if not crash.places or place in crash.places])
            for place in places
        )


def _within(rule: Rule, times: list[When | None]) -> bool:
    ends = times[rule.count - 1 :]
    return any((apart_s(*pair) or 0.0) <= rule.within_s for pair in zip(times, ends, strict=False))
