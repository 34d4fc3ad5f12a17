# SPDX-License-Identifier: Apache-2.0
"""The kernel's own file.

/dev/kmsg gives a record a read, `PRI,SEQUENCE,MICROSECONDS,FLAGS;text`, then lines ` KEY=value` that say of which
device it is (Documentation/ABI/testing/dev-kmsg of the kernel). Facility 0 is the kernel's own: what comes from user
space has another, and is counted and no more. A FIFO or a regular file with such lines is read too; other devices have
no end, or no log, and are not.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from typing import Any

from stepguard.agent.health.kernel_log.batches import Batches
from stepguard.agent.health.kernel_log.source import Line, Listener, boottime_s, check_not_of_proc, seconds_of
from stepguard.errors import reason

_HEAD_MAX_BYTES = 80
_FACILITY_BITS = 3
_KMSG = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt of the kernel
_NO_LOG = "what is there is no log as /dev/kmsg gives it"
_NO_PLACE = "lines of the kernel's log before line {} may be unread: what was kept of how far it was read is wrong"
_NONE_YET = -1
# kernel/printk of the kernel: both are u64.
_NUMBER_END = 1 << 64
# How far the log's clock may be from the one since boot: minutes for months, hours for a suspended machine.
_OFFSET_MAX_S = 86_400.0


class Kmsg:
    """A Source. Of another boot, a cursor says nothing."""

    def __init__(self, path: str, listener: Listener, cursor: Mapping[str, Any]) -> None:
        self.name = path
        self._listener = listener
        is_ours = cursor.get("boot_id") == listener.boot_id
        self._sequence = int(cursor.get("sequence", _NONE_YET)) if is_ours else _NONE_YET
        # A record with this number, or a later one, has been read: it is no number out of a file that was damaged.
        self._is_proven = False
        # The log's clock is not corrected as others are: minutes apart after months of uptime.
        said_s = seconds_of(cursor, "offset_s") if is_ours else None
        self._offset_s = boottime_s() - time.monotonic() if said_s is None else said_s
        if self._sequence >= _NUMBER_END or abs(self._offset_s) > boottime_s() + _OFFSET_MAX_S:
            raise ValueError(f"no place in {path}")
        self._batches: Batches | None = None
        self._is_log = False  # a record has been read since it was opened
        self._garbage = 0
        self.lost = 0

    @property
    def garbage(self) -> int:
        return self._garbage + (self._batches.cut if self._batches else 0)

    @property
    def due_s(self) -> float:
        return self._batches.due_s if self._batches else float("inf")

    def cursor(self) -> dict[str, Any]:
        return {"sequence": self._sequence, "offset_s": self._offset_s}

    def document(self) -> dict[str, Any]:
        return {"sequence": self._sequence}

    def begin(self) -> None:
        try:
            descriptor = _opened(self.name)
        except OSError as error:
            self._listener.failed(reason(error))
            return
        self._is_log = False
        self._batches = Batches(descriptor, self._listener.selector, self._read, self._listener.failed)
        self._listener.heard()
        self._batches.read()

    def turn(self) -> None:
        if self._batches is not None:
            self._batches.turn()

    def stop(self) -> None:
        if self._batches is not None:
            self._garbage = self.garbage
            self._batches.stop()
            self._batches = None

    def _read(self, content: bytes, is_drained: bool) -> None:
        assert self._batches is not None
        is_live, garbage = self._batches.is_live, self._garbage
        said = self._parse(content, is_live)
        if not self._is_log and (self._garbage > garbage or self._batches.cut):
            self._listener.failed(_NO_LOG)
            return
        if not said:
            return
        now_s = boottime_s()
        if is_live and is_drained:
            self._offset_s = now_s - said[-1][0] / 1e6  # the last line has just been written
        offset_s = self._offset_s
        self._listener.take([Line(min(now_s, us / 1e6 + offset_s), _text(text), level) for us, text, level in said])

    def _parse(self, content: bytes, is_live: bool) -> list[tuple[int, bytes, int]]:
        """Time, text and level of the kernel's own records that are new."""
        said = []
        lost = 0
        was_here = self._sequence
        for line in content.split(b"\n"):
            if not line or line.startswith(b" "):
                continue
            head, _, text = line.partition(b";")
            if (numbers := _numbers(head)) is None:
                self._garbage += 1
                continue
            self._is_log = True
            priority, sequence, us = numbers
            if sequence < self._sequence and is_live and not self._is_proven:
                self._listener.log.warning(_NO_PLACE.format(sequence))
                self._sequence = sequence - 1
            self._is_proven |= sequence >= self._sequence
            if sequence <= self._sequence:
                continue
            if self._sequence != _NONE_YET:
                lost += sequence - self._sequence - 1
            self._sequence = sequence
            if priority >> _FACILITY_BITS == 0:
                said.append((us, text, priority))  # of facility 0: the level alone
        if lost:
            self.lost += lost
            how = "" if is_live else "up to "  # an agent that was killed had read more than it could write down
            what = f"{how}{lost} lines of the kernel's log were overwritten unread, after line {was_here}"
            self._listener.log.warning(what)
        return said


def try_it(path: str) -> None:
    """Raises OSError where it cannot be read, as far as that can be told beforehand."""
    os.close(_opened(path))


def _opened(path: str) -> int:
    """A descriptor that does not block. Raises OSError, by the kind of file it is too."""
    status = os.stat(path)  # noqa: PTH116 - the path may be anything
    is_device = stat.S_ISCHR(status.st_mode) and status.st_rdev == _KMSG
    is_fifo = stat.S_ISFIFO(status.st_mode)
    if not (is_device or is_fifo or stat.S_ISREG(status.st_mode)):
        raise OSError(_NO_LOG)
    check_not_of_proc(status)
    # A FIFO that is open for writing too has no end when its last writer goes.
    flags = (os.O_RDWR if is_fifo else os.O_RDONLY) | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    return os.open(path, flags)


def _numbers(head: bytes) -> tuple[int, int, int] | None:
    """Priority, sequence and microseconds; None where that is no head of a record."""
    words = head[:_HEAD_MAX_BYTES].split(b",", 3)
    if len(words) <= 3 or not (words[0].isdigit() and words[1].isdigit() and words[2].isdigit()):
        return None
    priority, sequence, us = map(int, words[:3])
    return (priority, sequence, us) if sequence < _NUMBER_END and us < _NUMBER_END else None


def _text(said: bytes) -> str:
    text = said.decode(errors="replace")
    if "\\x" in text:
        from stepguard.health.kernel.formats import unescaped

        return unescaped(text)
    return text
