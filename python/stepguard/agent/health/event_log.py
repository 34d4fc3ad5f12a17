# SPDX-License-Identifier: Apache-2.0
"""What the kernel and NVML have told of lately, for the records of the jobs that ran then. Pure.

Times are seconds of CLOCK_BOOTTIME, so that what is kept over a restart is of one boot only.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stepguard.health.catalogue import status_of
from stepguard.health.discretion import words_for_all
from stepguard.health.kernel.oom import job_of
from stepguard.health.model import Action, Event, FaultClass, Status

_KEPT = 256
_TEXT_MAX = 300
# Identical ones are counted together within this time.
_TOGETHER_S = 60.0


@dataclass
class Logged:
    """So many identical events, first and last."""

    source: str
    code: int | str | None
    device: str
    fault_class: FaultClass
    action: Action
    text: str
    count: int
    first_s: float
    last_s: float

    @property
    def status(self) -> Status:
        return status_of(self.fault_class, self.action)

    @property
    def _what(self) -> tuple[object, ...]:
        return self.source, self.code, self.device, self.fault_class, self.action

    def takes(self, other: Logged) -> bool:
        """Whether the other is counted with this one."""
        return self._what == other._what and 0 <= other.first_s - self.first_s < _TOGETHER_S


class EventLog:
    """`state` is what an earlier `state()` gave; of another boot, it tells nothing."""

    def __init__(self, state: Mapping[str, Any], boot_id: str) -> None:
        self._boot_id = boot_id
        entries = state.get("events", []) if state.get("boot_id") == boot_id else []
        self._events = deque((_logged(entry) for entry in entries), maxlen=_KEPT)
        self._from = len(self._events)

    def state(self) -> dict[str, Any]:
        return {"boot_id": self._boot_id, "events": [dataclasses.asdict(one) for one in self._events]}

    def part(self) -> None:
        """A job begins or ends: what comes now is not counted with what came before."""
        self._from = len(self._events)

    def add(self, event: Event, at_s: float) -> None:
        """Takes in an event; one whose count is 0 says more of one that was taken in."""
        text = event.text[:_TEXT_MAX]
        new = Logged(
            event.source, event.code, event.device, event.fault_class, event.action, text, event.count, at_s, at_s
        )
        for known in list(self._events)[self._from :]:
            if known.takes(new):
                known.count, known.last_s = known.count + new.count, max(known.last_s, at_s)
                known.text = text or known.text
                return
        if new.count:
            if len(self._events) == _KEPT:
                self._from = max(0, self._from - 1)
            self._events.append(new)

    def of(self, job_id: int, own: Collection[str], others: Collection[str], since_s: float) -> Iterator[Logged]:
        """What concerns a job: its own GPUs (PCI addresses), and the node; not other GPUs, nor other jobs' memory.

        The kernel's words may name anybody's programs: of what is not the job's own, those that all may know are told,
        and only of what has failed.
        """
        for one in self._events:
            job = job_of(one.device) if one.source == "oom" else None  # the OOM killer names the cgroup
            if one.last_s < since_s or one.device in others or (job and job[0] != job_id):
                continue
            if one.device in own or job is not None:
                yield one
                continue
            device, text = words_for_all(one.source, one.code, one.device, one.text)
            yield dataclasses.replace(one, device=device, text=text if one.status is Status.FAIL else "")


def _logged(entry: Mapping[str, Any]) -> Logged:
    return Logged(**{**entry, "fault_class": FaultClass(entry["fault_class"]), "action": Action(entry["action"])})
