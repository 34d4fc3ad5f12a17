# SPDX-License-Identifier: Apache-2.0
"""The events of a log: identical ones of one host counted, then the rules that take more than one line.

- More lines on one event (the detail of an SXID or a PCIe error, the second line on one OOM kill) do not count anew.
- A code with a rule of repetition (XIDs 13 and 31) is something else once it has come so often on one device (see
  health/repetition). Where lines tell no time and no program, the same line once more is another time.
- What an XID 154 asks for counts for more than the rows of the other XIDs on its GPU. "None" speaks of those before it:
  the GPU has recovered. What only asks somebody to look ("Drain P2P", or an action that is not known) leaves them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import NamedTuple

from stepguard.health.catalogue import Catalogue, Repeats, shipped
from stepguard.health.kernel.in_context import InContext
from stepguard.health.kernel.line import LogLine
from stepguard.health.kernel.recognize import event_of
from stepguard.health.kernel.sighting import Sighting
from stepguard.health.model import Action, Event, FaultClass
from stepguard.health.repetition import MAX_COUNT, Crashes, When

# Events of different kinds or devices that are kept; a log with more is hostile, or of more devices than a node has.
MAX_EVENTS = 10_000
_MAX_TEXT = 1000


class _Key(NamedTuple):
    source: str
    code: int | str | None
    device: str
    fault_class: FaultClass
    action: Action
    trusted: bool
    host: str


def _when(line: LogLine) -> When | None:
    if line.at_s is not None:
        return When(line.at_s, is_of_the_world=True)
    return None if line.clock_s is None else When(line.clock_s)


_Gpu = tuple[str, str, bool]


def _gpu_of(key: _Key) -> _Gpu:
    return key.host, key.device, key.trusted


class _Times:
    """How often something has come that a rule of repetition is about."""

    def __init__(self, repeats: Repeats) -> None:
        self.repeats = repeats
        self._crashes = Crashes()
        self._have_repeated = False

    def add(self, line: LogLine, sighting: Sighting) -> None:
        if self._have_repeated:
            return
        places = frozenset({sighting.place} if sighting.place else ())
        self._crashes.add(_when(line), sighting.pid, places, line.text)
        if len(self._crashes) >= 2 * MAX_COUNT:
            self._have_repeated = self.have_repeated()
            self._crashes.keep_newest(MAX_COUNT)

    def have_repeated(self) -> bool:
        return self._have_repeated or self._crashes.repeat(self.repeats)


@dataclasses.dataclass
class _Counted:
    event: Event
    is_overridable: bool
    recovers: bool
    main: int = 0
    details: int = 0
    last: int = 0
    times: _Times | None = None

    def counted(self) -> Event:
        fault_class, action = self.event.fault_class, self.event.action
        if self.times and self.times.have_repeated():
            fault_class, action = self.times.repeats.fault_class, self.times.repeats.action
        count = self.main or self.details
        return dataclasses.replace(self.event, count=count, fault_class=fault_class, action=action)


class Folder:
    """Takes lines in, one after the other, and tells the events of all of them. `is_cut`: there were more than
    MAX_EVENTS different ones; those are left out."""

    def __init__(self, catalogue: Catalogue | None = None) -> None:
        self._catalogue = catalogue or shipped()
        self._counted: dict[_Key, _Counted] = {}
        self._in_context = InContext(lambda: self._catalogue)
        self.is_cut = False

    def add(self, line: LogLine) -> None:
        for sighting in self._in_context.sightings(line.text, (line.host, line.is_kernel), line.clock_s, line):
            self._count(sighting, line)

    def events(self) -> list[Event]:
        """What there was, by first line."""
        for sighting, line in self._in_context.rest():
            self._count(sighting, line)
        said = self._recoveries()
        return [self._overridden(counted, said.get(_gpu_of(key))) for key, counted in self._counted.items()]

    def _count(self, sighting: Sighting, line: LogLine) -> None:
        key = _Key(*sighting[:5], trusted=line.is_kernel, host=line.host)
        counted = self._counted.get(key)
        if counted is None:
            if len(self._counted) >= MAX_EVENTS:
                self.is_cut = True
                return
            event = dataclasses.replace(event_of(sighting, line), text=line.text[:_MAX_TEXT])
            counted = self._counted[key] = _Counted(event, sighting.is_overridable, sighting.recovers)
            row = sighting.row if sighting.code is None else sighting.code
            if rule := self._catalogue.lookup(key.source, row).repeats:
                counted.times = _Times(rule)
        if sighting.is_detail:
            counted.details += 1
        else:
            counted.main += 1
        counted.last = self._in_context.lines
        if counted.times:
            counted.times.add(line, sighting)

    def _recoveries(self) -> dict[_Gpu, _Counted]:
        """The last XID 154 of each GPU that says what is to be done."""
        last: dict[_Gpu, _Counted] = {}
        for key, counted in self._counted.items():
            gpu = _gpu_of(key)
            says = counted.recovers and key.action is not Action.CHECK
            if says and (gpu not in last or counted.last > last[gpu].last):
                last[gpu] = counted
        return last

    def _overridden(self, counted: _Counted, recovery: _Counted | None) -> Event:
        event = counted.counted()
        if event.source != "xid" or recovery is None or recovery is counted:
            return event
        wanted = recovery.event
        if wanted.action is Action.NONE:
            has_recovered = counted.last <= recovery.last and (counted.is_overridable or counted.recovers)
            return dataclasses.replace(event, action=Action.NONE) if has_recovered else event
        if not counted.is_overridable:
            return event
        return dataclasses.replace(event, fault_class=wanted.fault_class, action=wanted.action)


def events(lines: Iterable[LogLine], catalogue: Catalogue | None = None) -> list[Event]:
    """The events of these lines, identical ones counted, in the order of their first lines."""
    folder = Folder(catalogue)
    for line in lines:
        folder.add(line)
    return folder.events()
