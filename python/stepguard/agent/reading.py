# SPDX-License-Identifier: Apache-2.0
"""Has jobs' files read by read_as, each in a process that is the job's owner, for its file system may hang.

A reader that does not end in time is killed; one that cannot be killed either (it waits for a file server) is left
alone, and what it was to read is recorded as not read. The hung ones are bounded too.

A user can stop their readers by a signal. So of the places that are free nobody gets more than half: one user has half
of all, and others find one all the same.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from stepguard.agent.log import Log
from stepguard.agent.sources import Source
from stepguard.errors import ProcessError
from stepguard.process import Child, spawn

_TOGETHER = 16
_HUNG_MAX = 32
# hooks/read_as.c: a JSON object of this size, blanks at its end, before the head and the tail.
_LINE_BYTES = 512
_NOT_WRITTEN = 3
_DEVICES = {"chr": "device", "blk": "device"}
_NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
JOURNAL_BYTES = 1 << 20


class Owner(NamedTuple):
    """Whose file it is."""

    uid: int
    gid: int


class Read(NamedTuple):
    """What came of a source: its .meta, and its .raw, None where there is none."""

    meta: dict[str, Any]
    raw: bytes | None = None


class _Reader(NamedTuple):
    child: Child
    uid: int
    source: Source
    file: int
    deadline_s: float
    done: Callable[[Read], None]


class _Order(NamedTuple):
    source: Source
    owner: Owner
    head_bytes: int
    tail_bytes: int
    done: Callable[[Read], None]


class Reading:
    """All readers of the node; `look` must be called now and then. `scratch` is a directory for nameless files."""

    def __init__(
        self, program: Path, scratch: Path, timeout_s: float, selector: selectors.BaseSelector, log: Log
    ) -> None:
        self._program = program
        self._scratch = scratch
        self._timeout_s = timeout_s
        self._selector = selector
        self._log = log
        self._orders: dict[int, deque[_Order]] = {}  # by uid; whose turn was last is last
        self._readers: dict[int, _Reader] = {}  # by pidfd
        self._hung: dict[int, _Reader] = {}

    @property
    def count(self) -> int:
        return sum(map(len, self._orders.values())) + len(self._readers)

    @property
    def hung_count(self) -> int:
        return len(self._hung)

    def read(self, source: Source, owner: Owner, sizes: tuple[int, int], done: Callable[[Read], None]) -> None:
        """Calls `done`, soon or at once. `sizes` are those of head and tail, in bytes."""
        self._orders.setdefault(owner.uid, deque()).append(_Order(source, owner, *sizes, done))
        self._start()

    def look(self) -> None:
        """Gives up what takes too long."""
        now_s = time.monotonic()
        for pidfd, reader in list(self._readers.items()):
            if reader.deadline_s <= now_s:
                reader.child.send_signal(signal.SIGKILL)
                del self._readers[pidfd]
                self._hung[pidfd] = reader
                os.close(reader.file)
                self._log.warning(f"{reader.source.path} could not be read within {self._timeout_s:g} s", "hung")
                reader.done(not_read(reader.source, f"it could not be read within {self._timeout_s:g} s"))
        self._start()

    def stop(self) -> None:
        """Kills all readers, and waits for none; nothing is said of what they read: the next agent has it read."""
        self._orders.clear()
        for pidfd, reader in self._readers.items():
            self._selector.unregister(pidfd)
            reader.child.send_signal(signal.SIGKILL)
        self._readers.clear()

    def _start(self) -> None:
        while (order := self._next()) is not None:
            if not _has_place(order.owner.uid, self._hung.values(), _HUNG_MAX):
                why = f"{len(self._hung)} readers of other files hang: is a file server away?"
                order.done(not_read(order.source, why))
                continue
            try:
                self._start_reader(order)
            except (OSError, ProcessError) as error:
                self._log.error(f"cannot read the output of jobs: {error}", "reader")
                order.done(not_read(order.source, f"it could not be read: {error}"))

    def _next(self) -> _Order | None:
        """The next user's first order; None where none of those who wait has a place."""
        uid = next((uid for uid in self._orders if _has_place(uid, self._readers.values(), _TOGETHER)), None)
        if uid is None:
            return None
        orders = self._orders.pop(uid)
        order = orders.popleft()
        if orders:
            self._orders[uid] = orders
        return order

    def _start_reader(self, order: _Order) -> None:
        words = [self._program, order.owner.uid, order.owner.gid, order.head_bytes, order.tail_bytes, order.source.path]
        devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        file = -1
        try:
            file = _nameless(self._scratch)
            child = spawn(list(map(str, words)), env={}, stdin=devnull, stdout=file, stderr=devnull, new_session=True)
        except (OSError, ProcessError):
            if file >= 0:
                os.close(file)
            raise
        finally:
            os.close(devnull)
        deadline_s = time.monotonic() + self._timeout_s
        self._readers[child.pidfd] = _Reader(child, order.owner.uid, order.source, file, deadline_s, order.done)
        self._selector.register(child.pidfd, selectors.EVENT_READ, lambda _: self._ended(child))

    def _ended(self, child: Child) -> None:
        pidfd = child.pidfd
        self._selector.unregister(pidfd)
        status = child.poll()
        if self._hung.pop(pidfd, None) is None:
            reader = self._readers.pop(pidfd)
            try:
                read = _result(reader.source, reader.file, status)
            except (OSError, ValueError) as error:
                read = not_read(reader.source, f"what was read is void: {error}")
            os.close(reader.file)
            reader.done(read)
        self._start()


def _has_place(uid: int, readers: Iterable[_Reader], places: int) -> bool:
    """Whether a user may have one more of the places, of which these readers have some."""
    taken = Counter(reader.uid for reader in readers)
    return taken[uid] < places - taken.total()


def _nameless(directory: Path) -> int:
    """A file in the spool that is gone with its last descriptor, however that comes about. Raises OSError."""
    path = directory / f".reading.{os.getpid()}"
    descriptor = os.open(path, _NEW, 0o600)
    path.unlink()
    return descriptor


def _result(source: Source, file: int, status: int | None) -> Read:
    """Raises OSError or ValueError when that cannot be what read_as writes."""
    if status == _NOT_WRITTEN:
        return not_read(source, "it could not be copied into the spool: its disk may be full")
    if status != 0:
        return not_read(source, f"the reader ended with status {status}")
    found = json.loads(os.pread(file, _LINE_BYTES, 0))
    found["what"] = _DEVICES.get(found["what"], found["what"])
    why = source.why
    if found["errno"]:
        error = _in_words(found["errno"])
        why = f"{error}; {why}" if why else error
    elif found["what"] == "regular" and source.identity not in ("", f"{found['dev']}:{found['ino']}"):
        why = "another file than the batch task wrote to has this name now"
    meta = {"source": source.path, **found, "why": why}
    kept_bytes = int(found["head_bytes"]) + int(found["tail_bytes"])
    is_empty = found["what"] == "regular" and not found["errno"] and found["size_bytes"] == 0
    return Read(meta, os.pread(file, kept_bytes, _LINE_BYTES) if kept_bytes or is_empty else None)


def _in_words(name: str) -> str:
    """ENOENT: No such file or directory (ENOENT)."""
    number = getattr(errno, name, None)
    return f"{os.strerror(number)} ({name})" if isinstance(number, int) else name


def not_read(source: Source, why: str) -> Read:
    """What is recorded of a source that was not read."""
    what = source.what if source.what != "regular" else "unreadable"
    return Read({"source": source.path, "what": what, "why": why, "head_bytes": 0, "tail_bytes": 0})


def program() -> Path:
    """PREFIX/libexec/stepguard/read_as, of the PREFIX whose venv runs us; $STEPGUARD_LIBEXEC where that is set."""
    with contextlib.suppress(KeyError):
        return Path(os.environ["STEPGUARD_LIBEXEC"]) / "read_as"
    return Path(sys.executable).parents[2] / "libexec/stepguard/read_as"
