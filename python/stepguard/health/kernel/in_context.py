# SPDX-License-Identifier: Apache-2.0
"""What lines tell that need a line before them: a line that names no GPU is of the one that was named just before, the
second line on one kill by the OOM killer tells nothing new, what firmware reports takes several lines, and a link that
has not been up yet did not go down."""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel import firmware
from stepguard.health.kernel.held_gpus import HeldGpus
from stepguard.health.kernel.line import LogLine
from stepguard.health.kernel.link_starts import LinkStarts
from stepguard.health.kernel.lockup import HUNG_TASK, HungTasks
from stepguard.health.kernel.network import EMPTY_CAGE
from stepguard.health.kernel.nvidia import NAMES_A_GPU, named_gpu
from stepguard.health.kernel.recognize import sightings
from stepguard.health.kernel.sighting import Sighting, by_catalogue

_LINES_OF_ONE_MESSAGE = 5
_REMEMBERED_KILLS = 256


class InContext:
    """Takes the lines of a log, one after the other. `catalogue` is asked for by lines that name a code alone."""

    def __init__(self, catalogue: Callable[[], Catalogue]) -> None:
        self._catalogue = catalogue
        self._gpu, self._gpu_line = "", 0
        self._held = HeldGpus()
        self._firmware = firmware.FirmwareRecords()
        self._links = LinkStarts()
        self._hung = HungTasks()
        self._kills: collections.deque[tuple[str, Hashable]] = collections.deque(maxlen=_REMEMBERED_KILLS)
        self.lines = 0

    def sightings(
        self, text: str, witness: Hashable = None, clock_s: float | None = None, place: LogLine | None = None
    ) -> list[Sighting]:
        """What this line tells. `witness`: whose words these are, where a log has those of several. `clock_s`: as a
        LogLine has it. `place`: the line itself, where somebody asks for the `rest`."""
        self.lines += 1
        found = sightings(text, self._catalogue())
        if text.startswith(NAMES_A_GPU) and (gpu := named_gpu(text)):
            self._gpu, self._gpu_line = gpu, self.lines
        elif not found and firmware.MARK in text:
            found = self._firmware.take(text, witness, place, self._catalogue())
        elif not found:
            self._links.take(text, witness, clock_s)
            found = self._hung.waits_for(text, self.lines, self._catalogue())
        elif found[0].code == HUNG_TASK:
            self._hung.begins(found[0].device, self.lines)
        return [
            self._link(one, text, witness, clock_s) if one.source == "link" else self._named(one)
            for one in found
            if not self._is_told(one, witness)
        ]

    def rest(self) -> list[tuple[Sighting, LogLine]]:
        """What the last lines tell of which a record was cut off, each with its line."""
        return self._firmware.rest(self._catalogue())

    def _named(self, sighting: Sighting) -> Sighting:
        if sighting.source != "xid":
            return sighting
        sighting = self._held.told(sighting, self.lines)
        is_of_gpu = self._gpu and self.lines - self._gpu_line < _LINES_OF_ONE_MESSAGE
        return sighting._replace(device=self._gpu) if is_of_gpu and not sighting.device else sighting

    def _link(self, sighting: Sighting, text: str, witness: Hashable, clock_s: float | None) -> Sighting:
        is_waiting = False
        if sighting.code == "up":
            self._links.is_up(sighting.device, witness)
        elif sighting.code == "down":
            is_waiting = self._links.waits(sighting.device, witness, clock_s)
        elif sighting.code == "cable":
            is_waiting = EMPTY_CAGE in text and self._links.boots(witness, clock_s)
        return by_catalogue(self._catalogue(), "link", "not-up-yet", sighting.device) if is_waiting else sighting

    def _is_told(self, sighting: Sighting, witness: Hashable) -> bool:
        if sighting.source != "oom" or not sighting.pid:
            return False
        kill = (sighting.pid, witness)
        if kill in self._kills:
            return True
        self._kills.append(kill)
        return False
