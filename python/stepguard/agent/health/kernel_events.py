# SPDX-License-Identifier: Apache-2.0
"""Lines of the kernel's log → events, as they come. A line that tells more of an event is not another one.

What somebody else may have written decides nothing: it is told as something to look at, under a name of its own, so
that it neither adds to what the kernel has said nor takes from it. So are all lines of a log file, where the
administrator does not trust it. And where AWS's Neuron driver is loaded, anybody who may open /dev/neuron0 has the
kernel print any 511 bytes as an error of its own (NEURON_IOCTL_PRINTK, neuron_cdev.c: `printk(KERN_ERR "%s", …)`): of
lines of that level, those that would fail the node.

In a network namespace of their own users make bonds and links of any name, of which the kernel says what it says of the
node's. An interface that the node does not have is not named.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from stepguard.agent.health.kernel_log import Line
from stepguard.agent.health.kernel_log.source import ERROR
from stepguard.health.catalogue import Catalogue, status_of
from stepguard.health.kernel.in_context import InContext
from stepguard.health.kernel.line import LogLine
from stepguard.health.kernel.recognize import event_of
from stepguard.health.kernel.sighting import PCI, Sighting
from stepguard.health.model import Action, Event, FaultClass, Status
from stepguard.health.repetition import APART_S, together

_REMEMBERED = 256
_NEURON_DRIVER = Path("/sys/module/neuron")
# Links, one for each interface of our network namespace, which is the node's.
_INTERFACES = Path("/sys/class/net")
# What is told of doubtful lines, in place of xid, oom and the like.
UNPROVEN = "unproven"
_ADDRESS = re.compile(PCI)


class KernelEvents:
    """`catalogue` is asked for its rows by lines that name a code, and by no other."""

    def __init__(
        self, catalogue: Callable[[], Catalogue], neuron_driver: Path = _NEURON_DRIVER, interfaces: Path = _INTERFACES
    ) -> None:
        self._neuron_driver = neuron_driver
        self._interfaces = interfaces
        self._in_context = InContext(catalogue)
        self._mains: dict[tuple[str, object, str], float] = {}

    def of(self, lines: Iterable[Line]) -> list[tuple[Event, float]]:
        """The events of these lines and when they happened: identical ones counted, those of one moment as one."""
        found: list[tuple[Event, float]] = []
        indices: dict[tuple[object, ...], int] = {}
        for line in lines:
            at_s, text = line.at_s, line.text
            for sighting in self._sightings(line):
                count = self._count(sighting, at_s)
                key = (*sighting[:5], sighting.pid)
                index = indices.get(key)
                event = event_of(sighting, LogLine(0, None, "", "kernel", text, is_kernel=True))
                if index is not None and at_s - found[index][1] < APART_S:
                    known, first_s = found[index]
                    places = together(known.places, event.places)
                    found[index] = dataclasses.replace(known, count=known.count + count, places=places), first_s
                    continue
                indices[key] = len(found)
                found.append((dataclasses.replace(event, count=count), at_s))
        return found

    def _sightings(self, line: Line) -> list[Sighting]:
        found = [self._of_node(one) for one in self._in_context.sightings(line.text, clock_s=line.at_s)]
        if line.is_trusted and (not found or line.level != ERROR or not self._neuron_driver.exists()):
            return found
        doubted = {Status.FAIL} if line.is_trusted else {Status.FAIL, Status.WARN, Status.UNKNOWN}
        believed = [one for one in found if line.is_trusted or _status(one) in doubted]
        return [_doubted(one) if _status(one) in doubted else one for one in believed]

    def _of_node(self, sighting: Sighting) -> Sighting:
        if sighting.source != "link" or not sighting.device or _ADDRESS.fullmatch(sighting.device):
            return sighting
        return sighting if (self._interfaces / sighting.device).is_symlink() else sighting._replace(device="")

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


def _status(sighting: Sighting) -> Status:
    return status_of(sighting.fault_class, sighting.action)


def _doubted(sighting: Sighting) -> Sighting:
    """What whoever wrote the line could choose is left out, but for an address."""
    what = sighting.source if sighting.code is None else f"{sighting.source} {sighting.code}"
    device = sighting.device if _ADDRESS.fullmatch(sighting.device) else ""
    return Sighting(UNPROVEN, what, device, FaultClass.IGNORE, Action.CHECK, is_detail=sighting.is_detail)
