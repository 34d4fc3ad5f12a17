# SPDX-License-Identifier: Apache-2.0
"""A place in a log file: the bytes before it, which a line's time makes the only such ones.

So one rule finds it again, whatever was done to the file: it is in the file itself, or in one that stands beside it
under a longer name (kern.log.1, kern.log-20261130) and holds these bytes there, renamed or copied. In a file that was
edited the last of its lines is looked for, wherever it is now.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stepguard.agent.health.kernel_log.log_years import last_year
from stepguard.agent.health.kernel_log.source import check_not_of_proc

BATCH_BYTES = 1 << 18
# Some lines, so that one of them is still there when others are taken out.
_TAIL_BYTES = 1 << 10
# Of a file that has never been read, only so much of the end.
_FIRST_MAX_BYTES = 64 << 20
_MAX_BESIDE = 64
_MAX_OFFSET = 1 << 62
# Shorter than a time, a host and a tag: no line that is the only such one.
_LINE_MIN_BYTES = 24
_HEAD_BYTES = 256
_COMPRESSED = (".gz", ".xz", ".zst", ".bz2", ".lz4", ".Z")
_NO_FILE = "it is no file that lines can be read from"


class Place(NamedTuple):
    """`tail` are the last of the `offset` bytes before it. `is_cutting`: it is within a line that is left out, as there
    is more of it than of any."""

    offset: int
    tail: bytes
    is_cutting: bool

    @classmethod
    def of(cls, cursor: Mapping[str, Any]) -> Place:
        """That of a cursor; START where it has none. Raises ValueError or TypeError where it is none."""
        offset, tail = int(cursor.get("offset", 0)), bytes.fromhex(cursor.get("tail", ""))
        if not 0 <= offset < _MAX_OFFSET or not min(offset, 1) <= len(tail) <= min(offset, _TAIL_BYTES):
            raise ValueError(f"no place in a file: {offset}")
        return cls(offset, tail, bool(cursor.get("is_cutting", False)))

    def cursor(self) -> dict[str, Any]:
        return {"offset": self.offset, "tail": self.tail.hex(), "is_cutting": self.is_cutting}

    def read(self, descriptor: int) -> bytes | None:
        """What comes next, a batch at most; None in a file that does not hold it. Raises OSError."""
        content = os.pread(descriptor, len(self.tail) + BATCH_BYTES, self.offset - len(self.tail))
        return content[len(self.tail) :] if content.startswith(self.tail) else None

    def is_in(self, descriptor: int) -> bool:
        """Whether a file holds it. Raises OSError."""
        return os.pread(descriptor, len(self.tail), self.offset - len(self.tail)) == self.tail

    def taken(self, content: bytes, is_whole: bool) -> tuple[Place, bytes]:
        """The place behind what can be taken of this, and the whole lines in it. `is_whole`: nothing comes behind it,
        so that a last line without an end is one."""
        whole, newline, rest = (content, b"", b"") if is_whole else content.rpartition(b"\n")
        is_cut = len(rest) >= BATCH_BYTES
        read = content if is_cut else whole + newline
        if not read:
            return self, b""
        lines = whole.partition(b"\n")[2] if self.is_cutting and newline else whole
        tail = (self.tail + read)[-_TAIL_BYTES:]
        is_cutting = is_cut or (self.is_cutting and not newline)
        return Place(self.offset + len(read), tail, is_cutting), b"" if is_cut else lines

    def found_in(self, descriptor: int) -> Place | None:
        """Where the last of its lines is that is still in a file, which was edited. Raises OSError."""
        if self.is_cutting:
            return None
        is_first_whole = len(self.tail) == self.offset
        for line in reversed(self.tail.split(b"\n")[0 if is_first_whole else 1 :]):
            if len(line) >= _LINE_MIN_BYTES and (offset := _behind(descriptor, line + b"\n")):
                begin = max(0, offset - _TAIL_BYTES)
                return Place(offset, os.pread(descriptor, offset - begin, begin), False)
        return None


START = Place(0, b"", False)


def beginning(descriptor: int, is_first: bool = False) -> Place:
    """Of a file, or not far from its end where it has never been read. Raises OSError."""
    try:
        # A daemon that goes on behind what was cut off leaves a hole, of any size.
        offset = os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # there is nothing else
            raise
        return START
    if not is_first:
        return Place(offset, b"\0" * min(offset, _TAIL_BYTES), False)
    size = os.fstat(descriptor).st_size
    is_cutting = size - offset > _FIRST_MAX_BYTES
    begin = size - _FIRST_MAX_BYTES if is_cutting else offset
    offset = last_year(descriptor, begin)
    tail = os.pread(descriptor, min(offset, _TAIL_BYTES), max(0, offset - _TAIL_BYTES))
    return Place(offset, tail, is_cutting and offset == begin)


def head(path: Path) -> bytes:
    """How a file begins; nothing where that tells it from no other. Raises OSError."""
    descriptor = opened(path)
    try:
        found = os.pread(descriptor, _HEAD_BYTES, beginning(descriptor).offset)
    finally:
        os.close(descriptor)
    return found if found.strip(b"\0") else b""


def opened(path: str | Path) -> int:
    """A descriptor. Raises OSError, by the kind of file it is too."""
    check_kind(os.stat(path))  # noqa: PTH116 - the path may be anything
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        check_kind(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def check_kind(status: os.stat_result) -> None:
    """Raises OSError where nobody can read lines from it."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(_NO_FILE)
    check_not_of_proc(status)


def beside(name: str) -> list[Path]:
    """What a file was called before it was rotated, the oldest first; also where a link leads. Raises OSError."""
    found: dict[tuple[int, int], tuple[int, str]] = {}
    for own in {Path(name), Path(os.path.realpath(name))}:
        for entry, status in _regular(own.parent, own.name):
            found[status.st_dev, status.st_ino] = (status.st_mtime_ns, entry)
    return [Path(path) for _, path in sorted(found.values())[-_MAX_BESIDE:]]


def _behind(descriptor: int, line: bytes) -> int:
    """Where the last such line of a file ends; 0 for none. Raises OSError."""
    end = size = os.fstat(descriptor).st_size
    first = max(0, size - _FIRST_MAX_BYTES)
    while end > first:
        begin = max(first, end - BATCH_BYTES)
        content = os.pread(descriptor, end - begin + len(line), begin)
        if (at := content.rfind(b"\n" + line)) >= 0:
            return begin + at + 1 + len(line)
        end = begin
    return len(line) if os.pread(descriptor, len(line), 0) == line else 0


def _regular(directory: Path, name: str) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(directory) as entries:
        for entry in entries:
            is_older = entry.name.startswith((f"{name}.", f"{name}-"))
            if is_older and not entry.name.endswith(_COMPRESSED) and entry.is_file(follow_symlinks=False):
                yield entry.path, entry.stat(follow_symlinks=False)
