# SPDX-License-Identifier: Apache-2.0
"""The kernel's log, read in the agent's loop as it comes, each record once over restarts of the agent.

/dev/kmsg gives a record a read, `PRI,SEQUENCE,MICROSECONDS,FLAGS;text`, then lines ` KEY=value` that say of which
device it is (Documentation/ABI/testing/dev-kmsg of the kernel). Facility 0 is the kernel's own: what comes from user
space has another, and is counted and no more. A FIFO or a regular file with such lines is read too; other devices have
no end, or no log, and are not.

Where a thousand lines come in a second, waking for each would cost more than reading it: after all is read it waits
for PAUSE_S. A batch is bounded, so that others get their turn.
"""

from __future__ import annotations

import os
import selectors
import stat
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from stepguard.agent.log import Log
from stepguard.errors import reason

PAUSE_S = 0.05
# What no selector can wait for, a regular file, is looked at this often.
_POLL_S = 0.2
_OPEN_AGAIN_S = 60.0
_BATCH_READS, _BATCH_BYTES = 256, 1 << 16
# A record is at most 8 KiB (PRINTKRB_RECORD_MAX, CONSOLE_EXT_LOG_MAX); a smaller buffer is EINVAL.
_READ_BYTES = 1 << 14
_HEAD_MAX_BYTES, _LINE_MAX_BYTES = 80, 1 << 16
_FACILITY_BITS = 3
_KMSG = os.makedev(1, 11)  # Documentation/admin-guide/devices.txt of the kernel
_NO_LOG = "what is there is no log as /dev/kmsg gives it"
_NONE_YET = -1


class Line(NamedTuple):
    """What the kernel said, and when by CLOCK_BOOTTIME. `level`: as in syslog, 3 is an error."""

    at_s: float
    text: str
    level: int = 6


class KernelLog:
    """`take` gets the lines of a batch, `fail` why nothing can be read ("" once it can). `cursor` is what an earlier
    `cursor()` gave: of another boot or another log it says nothing."""

    def __init__(
        self,
        path: str,
        boot_id: str,
        cursor: Mapping[str, Any],
        selector: selectors.BaseSelector,
        log: Log,
        take: Callable[[list[Line]], None],
        fail: Callable[[str], None],
    ) -> None:
        self._path = path
        self._boot_id = boot_id
        is_ours = (cursor.get("boot_id"), cursor.get("path", path)) == (boot_id, path)
        self._sequence = int(cursor.get("sequence", _NONE_YET)) if is_ours else _NONE_YET
        # The log's clock is not corrected as others are: minutes apart after months of uptime.
        said_s = cursor.get("offset_s") if is_ours else None
        self._offset_s = time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic() if said_s is None else float(said_s)
        self._selector = selector
        self._log = log
        self._take = take
        self._fail = fail
        self._descriptor = -1
        self._can_wait = False
        self._is_armed = False
        self._is_live = False
        self._is_log = False  # a record has been read since it was opened
        self._rest = b""
        self._open_at_s = 0.0
        self._why = ""
        self.lost = self.garbage = 0
        # When `turn` is to be called, by time.monotonic().
        self.due_s = 0.0 if path else float("inf")

    def cursor(self) -> dict[str, Any]:
        """How far it has been read, for the next agent."""
        read = {"sequence": self._sequence, "offset_s": self._offset_s}
        return {"boot_id": self._boot_id, "path": self._path, **read}

    def document(self) -> dict[str, Any]:
        """What is told of it."""
        told = {"sequence": self._sequence, "lost": self.lost, "garbage": self.garbage, "why": self._why}
        return {"path": self._path, **told}

    def turn(self) -> None:
        """Goes on, where it is time."""
        now_s = time.monotonic()
        if now_s < self.due_s or not self._path:
            return
        if self._descriptor < 0:
            self._open(now_s)
        elif self._can_wait and not self._is_armed and self._is_live:
            self._arm(True)
            self.due_s = float("inf")
        else:
            self._read()

    def stop(self) -> None:
        """Lets go of it."""
        if self._descriptor >= 0:
            self._arm(False)
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self, now_s: float) -> None:
        try:
            status = os.stat(self._path)  # noqa: PTH116 - the path may be anything
            if problem := kind_problem(status):
                self._failed(problem, now_s)
                return
            # A FIFO that is open for writing too has no end when its last writer goes.
            is_fifo = stat.S_ISFIFO(status.st_mode)
            flags = (os.O_RDWR if is_fifo else os.O_RDONLY) | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
            self._descriptor = os.open(self._path, flags)
            self._can_wait = not stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        except OSError as error:
            self._failed(reason(error), now_s)
            return
        self._rest, self._is_live, self._is_log = b"", False, False
        if self._why:
            self._log.info(f"the kernel's log is read again: {self._path}")
        self._why = ""
        self._fail("")
        self._read()

    def _failed(self, why: str, now_s: float) -> None:
        self.stop()
        if why != self._why:
            self._log.warning(f"the kernel's log cannot be read: {why}; tried again every {_OPEN_AGAIN_S:g} s")
        self._why = why
        self.due_s = now_s + _OPEN_AGAIN_S
        self._fail(why)

    def _arm(self, is_armed: bool) -> None:
        if is_armed and not self._is_armed:
            self._selector.register(self._descriptor, selectors.EVENT_READ, lambda _: self._read())
        elif self._is_armed and not is_armed:
            self._selector.unregister(self._descriptor)
        self._is_armed = is_armed

    def _read(self) -> None:
        self._arm(False)
        garbage = self.garbage
        try:
            content, is_drained = self._batch()
        except OSError as error:
            self._failed(reason(error), time.monotonic())
            return
        said = self._parse(content)
        if self.garbage > garbage and not self._is_log:
            self._failed(_NO_LOG, time.monotonic())
            return
        now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        if self._is_live and is_drained and said:
            self._offset_s = now_s - said[-1][0] / 1e6  # the last line has just been written
        self._is_live = self._is_live or is_drained
        self.due_s = time.monotonic() + (0 if not is_drained else PAUSE_S if self._can_wait else _POLL_S)
        if said:
            offset_s = self._offset_s
            at_s = (min(now_s, us / 1e6 + offset_s) for us, _, _ in said)
            self._take(
                [
                    Line(at, text.decode(errors="replace"), level)
                    for at, (_, text, level) in zip(at_s, said, strict=True)
                ]
            )

    def _batch(self) -> tuple[bytes, bool]:
        """What there is, and whether that is all. Raises OSError."""
        pieces, size = [self._rest], 0
        is_drained = False
        for _ in range(_BATCH_READS):
            try:
                piece = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                piece = b""
            except BrokenPipeError:
                continue  # what comes next was overwritten: the sequence numbers tell how much
            if not piece:
                is_drained = True
                break
            pieces.append(piece)
            size += len(piece)
            if size >= _BATCH_BYTES:
                break
        whole, newline, self._rest = b"".join(pieces).rpartition(b"\n")
        if len(self._rest) > _LINE_MAX_BYTES:
            self._rest = b""
            self.garbage += 1
        return whole + newline, is_drained

    def _parse(self, content: bytes) -> list[tuple[int, bytes, int]]:
        """Time, text and level of the kernel's own records that are new."""
        said = []
        lost = 0
        was_here = self._sequence
        for line in content.split(b"\n"):
            if not line or line.startswith(b" "):
                continue
            head, _, text = line.partition(b";")
            if (numbers := _numbers(head)) is None:
                self.garbage += 1
                continue
            self._is_log = True
            priority, sequence, us = numbers
            if sequence <= self._sequence:
                continue
            if self._sequence != _NONE_YET:
                lost += sequence - self._sequence - 1
            self._sequence = sequence
            if priority >> _FACILITY_BITS == 0:
                said.append((us, text, priority))  # of facility 0: the level alone
        if lost:
            self.lost += lost
            how = "" if self._is_live else "up to "  # an agent that was killed had read more than it could write down
            self._log.warning(f"{how}{lost} lines of the kernel's log were overwritten unread, after line {was_here}")
        return said


def kind_problem(status: os.stat_result) -> str:
    """Why what is there is no kernel's log, by what kind of file it is; "" for what may be one."""
    is_device = stat.S_ISCHR(status.st_mode) and status.st_rdev == _KMSG
    may_be = is_device or stat.S_ISFIFO(status.st_mode) or stat.S_ISREG(status.st_mode)
    return "" if may_be else f'{_NO_LOG}; kernel_log = "" leaves it unread'


def _numbers(head: bytes) -> tuple[int, int, int] | None:
    """Priority, sequence and microseconds; None where that is no head of a record."""
    words = head[:_HEAD_MAX_BYTES].split(b",", 3)
    if len(words) <= 3 or not (words[0].isdigit() and words[1].isdigit() and words[2].isdigit()):
        return None
    return int(words[0]), int(words[1]), int(words[2])
