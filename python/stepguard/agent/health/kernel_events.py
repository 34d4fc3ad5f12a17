# SPDX-License-Identifier: Apache-2.0
"""Lines of the kernel's log → events, as they come. A line that tells more of an event is not another one.

Where AWS's Neuron driver is loaded, anybody who may open /dev/neuron0 has the kernel print any 511 bytes as an error of
its own (NEURON_IOCTL_PRINTK, neuron_cdev.c: `printk(KERN_ERR "%s", …)`). There no line of that level decides anything:
what would fail the node is told as something to look at.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

from stepguard.agent.health.kernel_log import Line
from stepguard.health.catalogue import Catalogue, status_of
from stepguard.health.kernel.in_context import InContext
from stepguard.health.kernel.line import LogLine
from stepguard.health.kernel.recognize import event_of
from stepguard.health.kernel.sighting import Sighting
from stepguard.health.model import Action, Event, FaultClass, Status
from stepguard.health.policy import APART_S

_REMEMBERED = 256
_NEURON_DRIVER = Path("/sys/module/neuron")
_ERROR = 3


class KernelEvents:
    """`catalogue` is asked for its rows by lines that name a code, and by no other."""

    def __init__(self, catalogue: Callable[[], Catalogue], neuron_driver: Path = _NEURON_DRIVER) -> None:
        self._neuron_driver = neuron_driver
        self._in_context = InContext(catalogue)
        self._mains: dict[tuple[str, object, str], float] = {}

    def of(self, lines: Iterable[Line]) -> list[tuple[Event, float]]:
        """The events of these lines and when they happened: identical ones counted, those of one moment as one."""
        found: list[tuple[Event, float]] = []
        places: dict[tuple[object, ...], int] = {}
        for at_s, said, level in lines:
            for sighting, text in self._sightings(said, level):
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

    def _sightings(self, text: str, level: int) -> list[tuple[Sighting, str]]:
        if "\\x" in text:
            from stepguard.health.kernel.formats import unescaped

            text = unescaped(text)
        return [(self._believed(one, level), text) for one in self._in_context.sightings(text)]

    def _believed(self, sighting: Sighting, level: int) -> Sighting:
        if level != _ERROR or not self._neuron_driver.exists():
            return sighting
        if status_of(sighting.fault_class, sighting.action) is not Status.FAIL:
            return sighting
        return sighting._replace(fault_class=FaultClass.IGNORE, action=Action.CHECK)

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
