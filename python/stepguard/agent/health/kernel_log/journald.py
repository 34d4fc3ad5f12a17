# SPDX-License-Identifier: Apache-2.0
"""The kernel's lines as journald keeps them, by a `journalctl --follow` beside us (journalctl(1), release 236 and on).

An entry is a JSON object a line (systemd.journal-fields(7)). What journald heard of the kernel has _TRANSPORT=kernel,
which nobody can give to an entry of their own; with another facility than 0 a program of root's has written it to
/dev/kmsg. MESSAGE is a text, an array of bytes where it is no UTF-8, null where it is too long.

Where it is left off is known by journald's cursor of the last entry. journalctl begins with that entry, so that it can
be told whether it is still there; and by its time, so that what has been read is known again in another file, where it
has been moved to, or where the cursor is refused.

A quiet kernel and a journal without the kernel's lines (a container's) look alike, so before the first line nothing is
well; nor where journalctl was stopped, or waits for a disk and cannot go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import selectors
import shutil
import signal
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stepguard.agent.health.kernel_log.batches import ENDED, Batches
from stepguard.agent.health.kernel_log.source import ERROR, Line, Listener, boottime_s
from stepguard.errors import ProcessError, reason
from stepguard.process import Child, spawn

NAME = "journald"
_PROGRAM = "journalctl"
# It dies with us: util-linux's setpriv asks for that before it becomes journalctl.
_GUARD = ("setpriv", "--pdeathsig=KILL")
_FIELDS = "MESSAGE,PRIORITY,SYSLOG_FACILITY,_SOURCE_MONOTONIC_TIMESTAMP,_TRANSPORT"
# When it is told that the first line of this boot has not come: a disk may be slow. And when it is asked anew, as one
# that began before its journal was there never finds it.
_ANSWER_S = 20.0
_GIVE_UP_S = 900.0
# A process that was killed ends within milliseconds, where it can.
_END_S = 0.05
_CHECK_S = 60.0
_HANGING = frozenset("DTt")  # proc(5): waiting for a disk, stopped, traced
_CURSOR = re.compile(r"[\w=;-]{1,512}")
_STDERR_BYTES, _TOLD_CHARS = 1 << 12, 300
_MAX_DIGITS = 18


class Journald:
    """A Source."""

    name = NAME
    lost = 0  # what journald itself has missed it does not tell

    def __init__(self, listener: Listener, cursor: Mapping[str, Any]) -> None:
        self._listener = listener
        kept = cursor if cursor.get("boot_id") == listener.boot_id else {}
        self._cursor = _checked(kept.get("cursor"))
        self._last = _Place(int(kept.get("heard_us", 0)), int(kept.get("mark", 0)))
        if self._last.heard_us > time.monotonic() * 1e6:
            raise ValueError("an entry of the future")
        # Entries up to the last one may come once more; it is looked for.
        self._is_resuming = False
        self._has_heard = False
        self._child: Child | None = None
        self._killed: Child | None = None
        self._batches: Batches | None = None
        self._stderr = -1
        self._told = self._logged = ""
        self._begun_s = self._check_at_s = self._answer_at_s = 0.0
        self._is_suspect = False
        self._garbage = 0

    @property
    def garbage(self) -> int:
        return self._garbage + (self._batches.cut if self._batches else 0)

    @property
    def due_s(self) -> float:
        if self._batches is None:
            return float("inf")
        answer_s = float("inf") if self._has_heard else self._answer_at_s
        return min(self._batches.due_s, self._check_at_s, answer_s)

    def cursor(self) -> dict[str, Any]:
        return {"cursor": self._cursor, "heard_us": self._last.heard_us, "mark": self._last.mark}

    def document(self) -> dict[str, Any]:
        return {"pid": self._child.pid if self._child else None}

    def begin(self) -> None:
        self._is_resuming = self._last.heard_us > 0
        self._has_heard = self._is_suspect = False
        self._told = ""
        try:
            self._look_for_the_last()
            try_it()
            self._start()
        except (OSError, ProcessError) as error:
            self._listener.failed(reason(error) if isinstance(error, OSError) else str(error))
            return
        self._begun_s = time.monotonic()
        self._check_at_s = self._begun_s + _CHECK_S
        self._answer_at_s = self._begun_s + _ANSWER_S
        if self._is_resuming:
            self._heard()  # it has the kernel's lines, and nobody knows when the next one comes

    def turn(self) -> None:
        if self._batches is None:
            return
        self._batches.turn()
        now_s = time.monotonic()
        if self._batches is not None and not self._has_heard and now_s >= self._answer_at_s:
            self._has_not_answered(now_s)
        elif self._child is not None and now_s >= self._check_at_s:
            self._check_at_s = now_s + _CHECK_S
            self._check()

    def _has_not_answered(self, now_s: float) -> None:
        if now_s >= self._begun_s + _GIVE_UP_S:
            self._failed("it has no line of this boot's kernel")
            return
        self._answer_at_s = self._begun_s + _GIVE_UP_S
        self._listener.waits(f"in {now_s - self._begun_s:.0f} s it has told no line of this boot's kernel")

    def stop(self) -> None:
        if self._child is None:
            return
        assert self._batches is not None
        self._garbage = self.garbage
        self._batches.stop()
        self._close_stderr()
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGKILL)
        select.select([self._child.pidfd] if self._child.status is None else [], [], [], _END_S)
        self._child.poll()
        self._killed, self._child, self._batches = self._child, None, None

    def _look_for_the_last(self) -> None:
        """Raises OSError where it is still there."""
        if self._killed is not None and self._killed.poll() is None:
            raise OSError(f"its last {_PROGRAM} hangs and cannot be killed (pid {self._killed.pid})")
        self._killed = None

    def _start(self) -> None:
        """Raises OSError or ProcessError."""
        argv = [*_GUARD, _PROGRAM, "--quiet", "--no-pager", "--follow", "--no-tail"]
        argv += ["--output=json", f"--output-fields={_FIELDS}"]
        argv += [f"--cursor={self._cursor}"] if self._cursor else []
        argv += ["_TRANSPORT=kernel", f"_BOOT_ID={self._listener.boot_id.replace('-', '')}"]
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as childs:
            stdout, child_stdout = _pipe(ours, childs)
            self._stderr, child_stderr = _pipe(ours, childs)
            stdin = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            childs.callback(os.close, stdin)
            self._child = spawn(argv, stdin=stdin, stdout=child_stdout, stderr=child_stderr, new_session=True)
            ours.pop_all()
        self._batches = Batches(stdout, self._listener.selector, self._read, self._failed)
        self._listener.selector.register(self._stderr, selectors.EVENT_READ, lambda _: self._says())

    def _read(self, content: bytes, is_drained: bool) -> None:
        said = [line for one in content.split(b"\n") if one and (line := self._taken(one))]
        if said:
            self._listener.take(said)

    def _taken(self, text: bytes) -> Line | None:
        """What an entry says, where it is new and the kernel's."""
        if (entry := _Entry.of(text)) is None:
            self._garbage += 1
            return None
        if entry.is_kernels:
            self._heard()
        if self._is_resuming and not self._resumes(entry.place):
            return None
        self._cursor, self._last = entry.cursor, entry.place
        if not entry.is_kernels:
            return None
        now_s = boottime_s()
        at_s = entry.place.heard_us / 1e6 + now_s - time.monotonic()
        return Line(min(now_s, at_s), entry.text, entry.level)

    def _resumes(self, place: _Place) -> bool:
        """Whether it comes behind what has been read."""
        if place.heard_us < self._last.heard_us:
            return False
        if place.heard_us == self._last.heard_us:
            self._is_resuming = place.mark != self._last.mark
            return False
        self._is_resuming = False
        self._listener.log.warning(f"{NAME} has not kept the kernel's line that was read last: some may be lost")
        return True

    def _heard(self) -> None:
        if not self._has_heard:
            self._has_heard = True
            self._listener.heard()

    def _says(self) -> None:
        """What it says on stderr is told once, and with its end."""
        try:
            said = os.read(self._stderr, _STDERR_BYTES).decode(errors="replace")
        except OSError:
            return
        if not said:
            self._close_stderr()
        elif not self._told and (text := said.strip().partition("\n")[0][:_TOLD_CHARS]):
            if text != self._logged:
                self._listener.log.warning(f"{_PROGRAM} says: {text}")
            self._told = self._logged = text

    def _close_stderr(self) -> None:
        if self._stderr >= 0:
            self._listener.selector.unregister(self._stderr)
            os.close(self._stderr)
            self._stderr = -1

    def _check(self) -> None:
        """Kills it where it hangs, a second time after a while."""
        assert self._child is not None
        if (state := _state(self._child.pid)) not in _HANGING:
            self._is_suspect = False
        elif self._is_suspect:
            self._failed(f"{_PROGRAM} hangs (pid {self._child.pid}, state {state})")
        else:
            self._is_suspect = True

    def _failed(self, why: str) -> None:
        assert self._child is not None
        if why == ENDED:
            if self._stderr >= 0:
                self._says()
            status = self._child.poll()
            why = f"{_PROGRAM} has ended" + ("" if status is None else f" with status {status}")
            if self._is_resuming:
                self._cursor = ""  # it may be that which is refused; the rest is known by its time
        self._listener.failed(f"{why}: {self._told}" if self._told else why)


class _Place(NamedTuple):
    """Where an entry stands: when journald heard it, by CLOCK_MONOTONIC, and a mark of what it says."""

    heard_us: int
    mark: int


class _Entry(NamedTuple):
    """What is read of an entry."""

    cursor: str
    place: _Place
    text: str
    level: int
    is_kernels: bool

    @classmethod
    def of(cls, text: bytes) -> _Entry | None:
        """None for what is none."""
        from stepguard.health.kernel.journal import of_record  # patterns, once there is something to read

        try:
            record = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or not isinstance(cursor := record.get("__CURSOR"), str):
            return None
        heard = record.get("__MONOTONIC_TIMESTAMP")
        if not _CURSOR.fullmatch(cursor) or not isinstance(heard, str) or not _is_number(heard):
            return None
        said = str((record.get("_SOURCE_MONOTONIC_TIMESTAMP"), record.get("MESSAGE")))
        place = _Place(int(heard), zlib.crc32(said.encode(errors="replace")))
        line, priority = of_record(0, record), record.get("PRIORITY")
        level = int(priority) if isinstance(priority, str) and _is_number(priority) else ERROR
        return cls(cursor, place, line.text, level, line.is_kernel)


def try_it() -> None:
    """Raises OSError where it cannot be read, as far as that can be told beforehand."""
    for program in (_PROGRAM, _GUARD[0]):
        if not shutil.which(program):
            raise OSError(f"{program} is not installed")


def _checked(cursor: Any) -> str:
    """A cursor that may stand on a command line; "" for none."""
    return cursor if isinstance(cursor, str) and _CURSOR.fullmatch(cursor) else ""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _pipe(ours: contextlib.ExitStack, childs: contextlib.ExitStack) -> tuple[int, int]:
    """What a child writes to, read without waiting."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    ours.callback(os.close, reading)
    childs.callback(os.close, writing)
    os.set_blocking(reading, False)
    return reading, writing


def _state(pid: int) -> str:
    """Of a process, a letter (proc(5)); "" where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""
