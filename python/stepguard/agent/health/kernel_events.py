# SPDX-License-Identifier: Apache-2.0
"""Lines of the kernel's log → events, as they come. A line that tells more of an event is not another one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

from stepguard.agent.health.kernel_log import Line
from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.in_context import InContext
from stepguard.health.kernel.line import LogLine
from stepguard.health.kernel.recognize import event_of
from stepguard.health.kernel.sighting import Sighting
from stepguard.health.model import Event
from stepguard.health.policy import APART_S

_REMEMBERED = 256


class KernelEvents:
    """`catalogue` is asked for its rows by lines that name a code, and by no other."""

    def __init__(self, catalogue: Callable[[], Catalogue]) -> None:
        self._in_context = InContext(catalogue)
        self._mains: dict[tuple[str, object, str], float] = {}

    def of(self, lines: Iterable[Line]) -> list[tuple[Event, float]]:
        """The events of these lines and when they happened: identical ones counted, those of one moment as one."""
        found: list[tuple[Event, float]] = []
        places: dict[tuple[object, ...], int] = {}
        for at_s, said in lines:
            for sighting, text in self._sightings(said):
                count = self._count(sighting, at_s)
                key = sighting[:5]
                place = places.get(key)
                if place is not None and at_s - found[place][1] < APART_S:
                    event, first_s = found[place]
                    found[place] = dataclasses.replace(event, count=event.count + count), first_s
                    continue
                places[key] = len(found)
                event = event_of(sighting, LogLine(0, None, "", "kernel", text, is_kernel=True))
                found.append((dataclasses.replace(event, count=count), at_s))
        return found

    def _sightings(self, text: str) -> list[tuple[Sighting, str]]:
        if "\\x" in text:
            from stepguard.health.kernel.formats import unescaped

            text = unescaped(text)
        return [(one, text) for one in self._in_context.sightings(text)]

    def _count(self, sighting: Sighting, at_s: float) -> int:
        """0 for a line that says more of what has been counted."""
        key = (sighting.source, sighting.code, sighting.device)
        if sighting.is_detail and at_s - self._mains.get(key, float("-inf")) < APART_S:
            return 0
        self._mains.pop(key, None)
        self._mains[key] = at_s
        if len(self._mains) > _REMEMBERED:
            del self._mains[next(iter(self._mains))]
        return 1
