# SPDX-License-Identifier: Apache-2.0
"""Events over time: how often, when last, and whether they have come too often. In whatever order they are added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from stepguard.health.model import Action, Event, FaultClass
from stepguard.health.verdict import weight

# The kernel of a sick node says the same few things; what is beyond this is the oldest.
MAX_RECORDS = 256
_MAX_TIMES = 64
_MAX_TEXT = 500
HARDWARE = frozenset({FaultClass.HARDWARE_REPLACE, FaultClass.HARDWARE_RESET, FaultClass.REBOOT})

Key = tuple[str, int | str | None, str]
"""Source, code, device."""


class Repetition(Protocol):
    """`count` times on one device within `within_s`, and an event is of this class and action instead."""

    @property
    def count(self) -> int: ...
    @property
    def within_s(self) -> float: ...
    @property
    def fault_class(self) -> FaultClass: ...
    @property
    def action(self) -> Action: ...


class Row(Protocol):
    """What the policy needs of a row of the catalogue."""

    @property
    def repeats(self) -> Repetition | None: ...
    @property
    def overridden_by(self) -> tuple[str, ...]: ...


Lookup = Callable[[str, int | str], Row]
"""A row of the catalogue by source and code."""


@dataclass
class Occurrence:
    """All events of one key. Class, action and text are those of the newest; of several at one time, the gravest.

    `times_s`  one for each time that counts by itself, in order: the lines of one crash are one time
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
    times_s: list[float] = field(default_factory=list)
    row: str = ""

    @property
    def key(self) -> Key:
        return self.source, self.code, self.device

    def add(self, event: Event, seen_s: float, apart_s: float) -> None:
        """Takes in one more; `apart_s` is how long what belongs to one crash may take."""
        text = event.text[:_MAX_TEXT]
        newest = (self.last_s, weight(self.action), self.fault_class.value, self.text)
        if (seen_s, weight(event.action), event.fault_class.value, text) > newest:
            self.last_s, self.action, self.fault_class, self.text = seen_s, event.action, event.fault_class, text
        self.first_s = min(self.first_s, seen_s)
        self.count += event.count
        # Of each span of that length the first, which does not depend on the order in which they come.
        spans = {int(time // apart_s): time for time in sorted([seen_s, *self.times_s], reverse=True)}
        self.times_s = [spans[span] for span in sorted(spans)][-_MAX_TIMES:]

    def repeated(self, rule: Repetition, apart_s: float) -> bool:
        """Whether it has come `rule.count` times, each `apart_s` after the one before, within the rule's time."""
        counted: list[float] = []
        for time in self.times_s:
            if not counted or time - counted[-1] >= apart_s:
                counted.append(time)
        ends = counted[rule.count - 1 :]
        return any(end - start <= rule.within_s for start, end in zip(counted, ends, strict=False))


class Occurrences:
    """The events of a node."""

    def __init__(self, lookup: Lookup, apart_s: float) -> None:
        self._lookup = lookup
        self._apart_s = apart_s
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
        known.add(event, seen_s, self._apart_s)
        if len(self._by_key) > 2 * MAX_RECORDS:
            self._keep_newest()

    def judged(self, one: Occurrence) -> tuple[FaultClass, Action]:
        """Its class and action, those of its repetition where it has come too often on one device."""
        rule = self._row(one).repeats
        if rule is not None and one.device and one.repeated(rule, self._apart_s):
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
            one.times_s = [time + by_s for time in one.times_s]

    def to_state(self) -> list[dict[str, Any]]:
        self._keep_newest()
        return [asdict(one) for one in sorted(self._by_key.values(), key=_order)]

    def from_state(self, state: list[dict[str, Any]]) -> None:
        """Takes in what `to_state` gave. Raises KeyError, TypeError or ValueError when it is nothing of the kind."""
        for record in state:
            named = {"fault_class": FaultClass(record["fault_class"]), "action": Action(record["action"])}
            one = Occurrence(**{**record, **named})
            self._by_key[one.key] = one

    def _keep_newest(self) -> None:
        """Application errors go before hardware's, and old ones before new ones."""
        for one in sorted(self._by_key.values(), key=_order)[:-MAX_RECORDS]:
            del self._by_key[one.key]


def _order(one: Occurrence) -> tuple[bool, float, str]:
    return one.fault_class in HARDWARE, one.last_s, repr(one.key)
