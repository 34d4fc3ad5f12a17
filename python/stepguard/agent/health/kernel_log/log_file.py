# SPDX-License-Identifier: Apache-2.0
"""A file of a syslog daemon's with the kernel's lines, followed over its rotations.

Where it is left off is known by the offset and by the bytes before it, which a line's time makes the only such ones. So
one rule finds the place again, whatever was done to the file: it is in the file itself, or in one that stands beside it
under a longer name (kern.log.1, kern.log-20261130) and holds these bytes there, renamed or copied. From there all is
read that is newer, up to the file itself. What was compressed meanwhile is lost, which is said.

A file that was renamed may be written to until the daemon opens a new one: it is left once something stands there. An
editor makes a new one too, with what has been read: of a file that does not hold the place, lines count from the time
of the last one on.

A file may be of all programs, or of the kernel and never written to: nothing is well before a first line of the
kernel's. What tells is the tag, which a program may take too, so these lines are trusted only where the administrator
says so. Lines have the time of the wall's clock. What comes while it is followed is of now; of what was there before,
lines from before this boot count for nothing.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stepguard.agent.health.kernel_log.source import Line, Listener, boottime_s, seconds_of
from stepguard.errors import reason

# No selector can wait for a file; a look costs 10 us.
POLL_S = 1.0
_BATCH_BYTES = 1 << 18
_TAIL_BYTES = 256
# Of a file that has never been read, only so much of the end.
_FIRST_MAX_BYTES = 64 << 20
_MAX_BESIDE = 64
_MAX_BYTES = 1 << 62
_COMPRESSED = (".gz", ".xz", ".zst", ".bz2", ".lz4", ".Z")
_NO_FILE = "it is no file that lines can be read from"
_NONE_YET = "it has no line of the kernel's yet"


class LogFile:
    """A Source. A cursor of another boot tells the place all the same."""

    lost = 0  # nobody knows how many

    def __init__(self, path: str, listener: Listener, cursor: Mapping[str, Any], is_trusted: bool) -> None:
        self.name = path
        self._listener = listener
        self._is_trusted = is_trusted
        self._offset = int(cursor.get("offset", -1))
        self._tail = bytes.fromhex(cursor.get("tail", ""))
        is_place = min(self._offset, 1) <= len(self._tail) <= min(max(0, self._offset), _TAIL_BYTES)
        if not is_place or not -1 <= self._offset < _MAX_BYTES:
            raise ValueError(f"a place in {path}")
        self._is_cutting = bool(cursor.get("is_cutting", False))
        self._has_kernels = bool(cursor.get("has_kernels", False))
        is_of_this_boot = cursor.get("boot_id") == listener.boot_id
        # When the last line was said, in this boot, and what it says itself.
        self._last_s = seconds_of(cursor, "at_s") if is_of_this_boot else None
        self._wall_s = seconds_of(cursor, "wall_s") if is_of_this_boot else None
        # What comes is behind what was read; of another file, the lines' times tell.
        self._is_sure = False
        self._descriptor = -1
        self._ahead: list[Path] = []
        self._is_live = self._has_heard = False
        self.garbage = 0
        self._due_s = float("inf")

    @property
    def due_s(self) -> float:
        return self._due_s

    def cursor(self) -> dict[str, Any]:
        if self._offset < 0:
            return {}
        place = {"offset": self._offset, "tail": self._tail.hex(), "is_cutting": self._is_cutting}
        return {**place, "has_kernels": self._has_kernels, "wall_s": self._wall_s}

    def document(self) -> dict[str, Any]:
        return {"is_trusted": self._is_trusted}

    def begin(self) -> None:
        self._is_live = self._has_heard = False
        try:
            try_it(self.name)
            self._find()
            if self._has_kernels:
                self._heard()
            self._due_s = 0.0
            self._read()
        except OSError as error:
            self._listener.failed(reason(error))

    def turn(self) -> None:
        if time.monotonic() < self._due_s:
            return
        try:
            self._read()
        except OSError as error:
            self._listener.failed(reason(error))

    def stop(self) -> None:
        self._due_s = float("inf")
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # -- where it stands --

    def _find(self, is_read: bool = False) -> None:
        """Opens the file that holds the place, with those that are newer ahead of it. `is_read`: up to its end, so that
        nothing is lost where it is gone. Raises OSError."""
        self._ahead = [*_beside(self.name), Path(self.name)]
        if self._offset < 0:
            self._first()
            return
        for place in reversed(range(len(self._ahead))):
            self._open(self._ahead[place])
            if self._holds_place():
                del self._ahead[: place + 1]
                self._is_live, self._is_sure = False, True
                return
        if not is_read:
            what = f"the place where {self.name} was left is in no file: lines may be lost"
            self._listener.log.warning(what, "kernel-log-place")
        self._first()

    def _first(self) -> None:
        """Begins with what is of this boot. Raises OSError."""
        booted_s = time.time() - boottime_s()
        self._ahead = [path for path in self._ahead[:-1] if path.stat().st_mtime >= booted_s] + self._ahead[-1:]
        self._next(self._ahead.pop(0))
        size = os.fstat(self._descriptor).st_size
        if size - self._offset > _FIRST_MAX_BYTES:
            self._offset, self._is_cutting = size - _FIRST_MAX_BYTES, True
            self._tail = os.pread(self._descriptor, _TAIL_BYTES, self._offset - _TAIL_BYTES)

    def _next(self, path: Path) -> None:
        """Goes on at a file's beginning. Raises OSError."""
        self._open(path)
        self._offset, self._tail, self._is_cutting = 0, b"", False
        self._is_live = self._is_sure = False
        try:
            # A daemon that goes on behind what was cut off leaves a hole, of any size.
            self._offset = os.lseek(self._descriptor, 0, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # there is nothing else
                raise
        self._tail = b"\0" * min(self._offset, _TAIL_BYTES)

    def _open(self, path: Path) -> None:
        descriptor = _opened(path)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor

    def _holds_place(self) -> bool:
        return os.pread(self._descriptor, len(self._tail), self._offset - len(self._tail)) == self._tail

    def _is_left(self) -> bool:
        """Whether the daemon writes somewhere else by now. Raises OSError."""
        try:
            there = os.stat(self.name)  # noqa: PTH116 - the path may be anything
        except FileNotFoundError:
            return False  # it was renamed, and is not there anew yet
        if os.path.samestat(there, os.fstat(self._descriptor)):
            return False
        _check_kind(there)
        return there.st_size > 0

    # -- what it says --

    def _read(self) -> None:
        """Reads a batch, or finds out that there is none. Raises OSError."""
        is_left = not self._ahead and self._is_left()
        content = os.pread(self._descriptor, len(self._tail) + _BATCH_BYTES, self._offset - len(self._tail))
        if not content.startswith(self._tail):
            self._find()  # it was cut off, or written anew
            self._due_s = time.monotonic() + POLL_S
            return
        content = content[len(self._tail) :]
        is_drained = len(content) < _BATCH_BYTES
        self._take(content, is_drained and (is_left or bool(self._ahead)))
        if self._descriptor < 0:
            return
        if not is_drained:
            self._due_s = 0.0
        elif self._ahead:
            self._next(self._ahead.pop(0))
            self._due_s = 0.0
        elif is_left:
            self._find(is_read=True)
            self._due_s = 0.0
        else:
            self._is_live = self._is_sure = True
            self._due_s = time.monotonic() + POLL_S
            if not self._has_heard:
                self._listener.failed(_NONE_YET)

    def _take(self, content: bytes, is_whole: bool) -> None:
        """`is_whole`: nothing comes behind it, so that a last line without an end is one."""
        whole, newline, rest = content.rpartition(b"\n")
        if is_whole:
            whole, newline, rest = content, b"", b""
        is_cut = len(rest) >= _BATCH_BYTES
        read = content if is_cut else whole + newline
        if self._is_cutting and newline:
            whole = whole.partition(b"\n")[2]
        if read:
            self._offset += len(read)
            self._tail = (self._tail + read)[-_TAIL_BYTES:]
        self.garbage += is_cut and not self._is_cutting
        self._is_cutting = is_cut or (self._is_cutting and not newline)
        if lines := [] if is_cut else list(self._lines(whole)):
            self._listener.take(lines)

    def _lines(self, content: bytes) -> Iterator[Line]:
        from stepguard.agent.health.kernel_log.syslog import said  # patterns, once there is something to read

        now_s, wall_s = boottime_s(), time.time()
        for raw in content.split(b"\n"):
            if (one := said(raw, wall_s)) is None:
                continue
            self._has_kernels = True
            self._heard()
            at_s = now_s if self._is_live else self._when(one.at_s, now_s - wall_s)
            if at_s is not None:
                self._last_s, self._wall_s = min(at_s, now_s), one.at_s or self._wall_s
                yield Line(self._last_s, one.text, one.level, self._is_trusted)

    def _when(self, wall_s: float | None, offset_s: float) -> float | None:
        """When something was said that was there before; None for what is not to be told."""
        at_s = None if wall_s is None else wall_s + offset_s
        if self._last_s is None:
            return at_s if at_s is not None and at_s >= 0 else None  # of this boot
        if self._is_sure:
            return max(self._last_s, at_s or 0.0)
        is_new = wall_s is not None and (self._wall_s is None or wall_s >= self._wall_s)
        return at_s if is_new else None

    def _heard(self) -> None:
        if not self._has_heard:
            self._has_heard = True
            self._listener.heard()


def try_it(path: str) -> None:
    """Raises OSError where it cannot be read, as far as that can be told beforehand."""
    _check_kind(os.stat(path))  # noqa: PTH116 - the path may be anything
    os.close(_opened(path))


def _opened(path: str | Path) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        _check_kind(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise OSError(_NO_FILE)


def _beside(name: str) -> list[Path]:
    """What a file was called before it was rotated, the oldest first. Raises OSError."""
    own = Path(name)
    found = []
    with os.scandir(own.parent) as entries:
        for entry in entries:
            is_older = entry.name.startswith((f"{own.name}.", f"{own.name}-"))
            if is_older and not entry.name.endswith(_COMPRESSED) and entry.is_file(follow_symlinks=False):
                found.append((entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path)))
    return [path for _, path in sorted(found)[-_MAX_BESIDE:]]
