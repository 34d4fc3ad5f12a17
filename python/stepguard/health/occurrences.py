# SPDX-License-Identifier: Apache-2.0
"""Events over time: how often, when last, and whether they have come too often. In whatever order they are added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from stepguard.health.model import Action, Event, FaultClass
from stepguard.health.repetition import APART_S, MAX_COUNT, Crashes, Rule, When, together
from stepguard.health.verdict import weight

# The kernel of a sick node says the same few things; what is beyond this is the oldest.
MAX_RECORDS = 256
_MAX_TEXT = 500
HARDWARE = frozenset({FaultClass.HARDWARE_REPLACE, FaultClass.HARDWARE_RESET, FaultClass.REBOOT})

Key = tuple[str, int | str | None, str]
"""Source, code, device."""


class Row(Protocol):
    """What the policy needs of a row of the catalogue."""

    @property
    def repeats(self) -> Rule | None: ...
    @property
    def overridden_by(self) -> tuple[str, ...]: ...


Lookup = Callable[[str, int | str], Row]
"""A row of the catalogue by source and code."""


@dataclass
class Occurrence:
    """All events of one key. Class, action and text are those of the newest; of several at one time, the gravest.

    `lines`    what tells one crash from the next, in order: time, pid and places, of one moment and program together
    `row`      the catalogue's name for it, where it has no code
    """

    source: str
    code: int | str | None
    device: str
    first_s: float
    last_s: float
    fault_class: FaultClass
    action: Action
    text: str
    count: int = 0
    lines: list[tuple[float, str, list[str]]] = field(default_factory=list)
    row: str = ""

    @property
    def key(self) -> Key:
        return self.source, self.code, self.device

    def add(self, event: Event, seen_s: float) -> None:
        """Takes in one more."""
        text = event.text[:_MAX_TEXT]
        newest = (self.last_s, weight(self.action), self.fault_class.value, self.text)
        if (seen_s, weight(event.action), event.fault_class.value, text) > newest:
            self.last_s, self.action, self.fault_class, self.text = seen_s, event.action, event.fault_class, text
        self.first_s = min(self.first_s, seen_s)
        self.count += event.count
        # Of each span of that length and each program the first, which does not depend on the order in which they come.
        # What names no program is of one that the same moment's lines name.
        known = {_moment(time, pid): (time, pid, places) for time, pid, places in self.lines}
        at = _moment(seen_s, event.pid)
        time, _, places = known.get(at, (seen_s, event.pid, []))
        known[at] = (min(time, seen_s), event.pid, sorted(together(frozenset(places), event.places)))
        self.lines = [known[moment] for moment in sorted(known)][-MAX_COUNT:]

    def repeated(self, rule: Rule) -> bool:
        """Whether it has come too often by this rule."""
        crashes = Crashes()
        for time, pid, places in self.lines:
            crashes.add(When(time), pid, frozenset(places))
        return crashes.repeat(rule)


def _moment(time_s: float, pid: str) -> tuple[int, bool, str]:
    return int(time_s // APART_S), not pid, pid


class Occurrences:
    """The events of a node."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._by_key: dict[Key, Occurrence] = {}

    def __iter__(self) -> Iterator[Occurrence]:
        return iter(list(self._by_key.values()))

    def add(self, event: Event, seen_s: float) -> None:
        """Takes in an event. One that anybody could have written counts for nothing."""
        if not event.trusted:
            return
        key = (event.source, event.code, event.device)
        known = self._by_key.get(key)
        if known is None:
            fresh = (event.source, event.code, event.device, seen_s, seen_s, event.fault_class, event.action)
            known = self._by_key[key] = Occurrence(*fresh, event.text[:_MAX_TEXT], row=event.row)
        known.add(event, seen_s)
        if len(self._by_key) > 2 * MAX_RECORDS:
            self._keep_newest()

    def judged(self, one: Occurrence) -> tuple[FaultClass, Action]:
        """Its class and action, those of its repetition where it has come too often on one device."""
        rule = self._row(one).repeats
        if rule is not None and one.device and one.repeated(rule):
            return rule.fault_class, rule.action
        return one.fault_class, one.action

    def overridden_by(self, one: Occurrence) -> tuple[str, ...]:
        """What counts for more than the catalogue's row."""
        return self._row(one).overridden_by

    def _row(self, one: Occurrence) -> Row:
        return self._lookup(one.source, one.row if one.code is None else one.code)

    def forget(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._by_key.pop(key, None)

    def shift(self, by_s: float) -> None:
        """Moves all times."""
        for one in self._by_key.values():
            one.first_s += by_s
            one.last_s += by_s
            one.lines = [(time + by_s, pid, places) for time, pid, places in one.lines]

    def to_state(self) -> list[dict[str, Any]]:
        self._keep_newest()
        return [asdict(one) for one in sorted(self._by_key.values(), key=_order)]

    def from_state(self, state: list[dict[str, Any]]) -> None:
        """Takes in what `to_state` gave. Raises KeyError, TypeError or ValueError when it is nothing of the kind."""
        for record in state:
            named = {"fault_class": FaultClass(record["fault_class"]), "action": Action(record["action"])}
            lines = [(float(time), str(pid), list(places)) for time, pid, places in record["lines"]]
            one = Occurrence(**{**record, **named, "lines": lines})
            self._by_key[one.key] = one

    def _keep_newest(self) -> None:
        """Application errors go before hardware's, and old ones before new ones."""
        for one in sorted(self._by_key.values(), key=_order)[:-MAX_RECORDS]:
            del self._by_key[one.key]


def _order(one: Occurrence) -> tuple[bool, float, str]:
    return one.fault_class in HARDWARE, one.last_s, repr(one.key)
