# SPDX-License-Identifier: Apache-2.0
"""What probes, readers of logs and the catalogue speak of."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field


class Status(enum.StrEnum):
    """How something is. UNKNOWN is what cannot be told, which is never OK."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"

    @property
    def exit_status(self) -> int:
        """As a plug-in of Nagios ends: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (Monitoring Plugins guidelines)."""
        return _EXIT_STATUSES[self]


_EXIT_STATUSES = {Status.OK: 0, Status.WARN: 1, Status.FAIL: 2, Status.UNKNOWN: 3}
_WORST_FIRST = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.OK)


def worst(statuses: Iterable[Status], of_none: Status = Status.UNKNOWN) -> Status:
    """The worst of them; `of_none` where there are none."""
    found = set(statuses)
    return next((status for status in _WORST_FIRST if status in found), of_none)


class FaultClass(enum.StrEnum):
    """What kind of fault an event tells of, which decides who has to act."""

    HARDWARE_REPLACE = "hardware-replace"
    HARDWARE_RESET = "hardware-reset"
    REBOOT = "reboot"
    APPLICATION = "application"
    NETWORK = "network"
    MEMORY_HOST = "memory-host"
    STORAGE = "storage"
    IGNORE = "ignore"


class Action(enum.StrEnum):
    """What is to be done, from nothing to the most."""

    NONE = "none"
    RESTART_APPLICATION = "restart-application"
    CHECK = "check"
    RESET_GPU = "reset-gpu"
    REBOOT = "reboot"
    REPLACE = "replace"


@dataclass(frozen=True)
class Event:
    """Something that happened, as a line of a log tells it.

    `line`     number of its first line in what was read, from 1; 0 of a live source
    `source`   who tells: xid, sxid, aer, link, oom, mce, nvme, lustre, lockup, efa, neuron, …
    `code`     the source's own number or name for it; None where it has none
    `row`      the catalogue's name for it, where it has no code
    `pid`      of the program that it names; "" for none
    `places`   where on the device, as far as its lines tell (see health/repetition)
    `device`   PCI address (0000:0f:00), interface, disk or device name; "" where the line names none
    `count`    how often: identical ones are counted, not repeated
    `trusted`  the kernel said it; False where anybody could have written the line
    `text`     the line without its time and host
    `at_s`     seconds since 1970, where the line tells
    """

    line: int
    source: str
    code: int | str | None
    device: str
    fault_class: FaultClass
    action: Action
    count: int = 1
    trusted: bool = True
    text: str = ""
    at_s: float | None = None
    row: str = ""
    pid: str = ""
    places: frozenset[str] = frozenset()


@dataclass(frozen=True)
class DeviceJudgement:
    """How one device is, by what a tool printed of it, and why."""

    device: str
    status: Status
    reason: str


@dataclass(frozen=True)
class Judgement:
    """What a whole text says. UNKNOWN where its shape is not known or it does not tell."""

    status: Status
    reason: str = ""
    events: list[Event] = field(default_factory=list)
    devices: list[DeviceJudgement] = field(default_factory=list)


@dataclass(frozen=True)
class Finding:
    """One thing that a probe looked at.

    `device`    as in Event; GPUs by their UUID where NVML tells it; "" for the node as a whole
    `what`      a short stable name: row-remap-failure, ecc-uncorrected, gpu-count, shm-full, …
    `evidence`  the values that say so, for people
    """

    status: Status
    device: str
    what: str
    action: Action
    evidence: str


@dataclass(frozen=True)
class Report:
    """What one run of a probe found. A probe that has nothing to look at (no such device here) is OK with a `reason`;
    one that could not look is UNKNOWN. `values`: what it read, as JSON, for records and differences."""

    probe: str
    status: Status
    reason: str = ""
    findings: list[Finding] = field(default_factory=list)
    values: dict[str, object] = field(default_factory=dict)
