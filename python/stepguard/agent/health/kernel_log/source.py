# SPDX-License-Identifier: Apache-2.0
"""What all sources of the kernel's lines have in common."""

from __future__ import annotations

import math
import os
import selectors
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from stepguard.agent.log import Log

# As in syslog(3).
ERROR = 3
_OF_PROC = "it is of /proc, which has no log that others can read as well: name /dev/kmsg"


class Line(NamedTuple):
    """What the kernel said, and when by CLOCK_BOOTTIME. `level`: as in syslog, 3 is an error. `is_trusted`: nobody else
    can have written it."""

    at_s: float
    text: str
    level: int = 6
    is_trusted: bool = True


@dataclass(frozen=True)
class Listener:
    """Who hears a source, and what a source needs. `boot_id`: of this boot.

    `take`    gets the lines of a batch
    `heard`   the source can be read; called once after each `begin`
    `waits`   it cannot yet, and why: it goes on trying
    `failed`  it cannot, and why: it is stopped by this, and begins anew when it is asked to
    """

    boot_id: str
    selector: selectors.BaseSelector
    log: Log
    take: Callable[[list[Line]], None]
    heard: Callable[[], None]
    waits: Callable[[str], None]
    failed: Callable[[str], None]


class Source(Protocol):
    """Where the kernel's lines are read. Made once; it knows how far it has read, from the cursor that it is made with
    on. `lost` lines are known to have been missed, `garbage` could not be read."""

    @property
    def name(self) -> str: ...
    @property
    def lost(self) -> int: ...
    @property
    def garbage(self) -> int: ...

    @property
    def due_s(self) -> float:
        """When `turn` is to be called, by time.monotonic()."""

    def begin(self) -> None:
        """Begins to read."""

    def turn(self) -> None:
        """Goes on, where it is time."""

    def stop(self) -> None:
        """Lets go of it."""

    def cursor(self) -> dict[str, Any]:
        """How far it has been read, for the next agent."""

    def document(self) -> dict[str, Any]:
        """What is told of it besides."""


def check_not_of_proc(status: os.stat_result) -> None:
    """Raises OSError for a file of /proc: what is read from /proc/kmsg is taken away from the syslog daemon (proc(5)),
    and none of the others is a log."""
    if status.st_dev == os.stat("/proc").st_dev:  # noqa: PTH116 - as that of `status` is
        raise OSError(_OF_PROC)


def boottime_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def seconds_of(cursor: Mapping[str, Any], key: str) -> float | None:
    """A time of a cursor; None where it has none. Raises ValueError or TypeError where it is none."""
    if (value := cursor.get(key)) is None:
        return None
    if not math.isfinite(seconds := float(value)):
        raise ValueError(f"{key}: {value}")
    return seconds
