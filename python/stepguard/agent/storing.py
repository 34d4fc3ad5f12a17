# SPDX-License-Identifier: Apache-2.0
"""The thread that writes into the spool, so that the agent's loop never waits for the disk.

What waits is written together: all files, then one sync each, then one a directory. Syncs at the same time share the
commits of a journalling file system: 100 of them took 135 ms one after another, 16 ms four at a time (ext4). A message
gets its name before it is synced, so that file and name are one commit, and not two, which on a busy disk take twice as
long. A power cut in between leaves a part of it under its name: `records.wire.is_torn`.

Who waits for an answer waits for the write, after which an agent that is killed loses nothing, and not for the sync,
which follows at once: on a fast disk it takes twice as long as all else that a hook waits for, on a slow one fifty
times. What a sync cannot bring to the disk is in the job still, and stored once more.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from stepguard.agent.reserve import FILE_BYTES, Reserve, is_full
from stepguard.records.spool import sync_directory

_TOGETHER = 256
# So many of those that nobody waits for: 10^4 notes after an hour without an agent must not hold up a hook.
_BESIDE = 64
_SYNCS_AT_ONCE = 8
# Beyond the largest step's exits and command line.
_VITAL_MAX_BYTES = 256 << 10
# Others fill the disk too, and may be quicker.
_RESERVE_TRIES = 3
_Item = TypeVar("_Item")
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Job:
    """One file to come to be, `directory`/`name`, and what to do in the loop when it is safe, or cannot be.

    `written` is called before `done` when the file has its content, unsynced; `done` gets None or the error.
    `size_bytes` is what it adds to the spool. One that `is_vital` and small gets room from the reserve on a full disk.
    `is_new`: nothing has this name, and what a power cut leaves of it is recognized.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        content: bytes,
        done: Callable[[OSError | None], None],
        *,
        makes_directory: bool = True,
        is_vital: bool = True,
        is_new: bool = False,
        written: Callable[[], None] | None = None,
    ) -> None:
        self.directory = directory
        self.name = name
        self.size_bytes = len(content)
        self.done = done
        self.written = written
        self.makes_directory = makes_directory
        self.is_vital = is_vital and len(content) <= _VITAL_MAX_BYTES
        self._content = content
        self._descriptor = -1
        self._is_new = is_new
        self._path = self.directory / f".{self.name}.new"

    def _name_it(self) -> None:
        self._path = self._path.rename(self.directory / self.name)

    def write(self) -> None:
        """Raises OSError, and leaves nothing then."""
        self._path = self.directory / f".{self.name}.new"
        self._descriptor = os.open(self._path, _NEW, 0o600)
        try:
            view = memoryview(self._content)
            while view:
                view = view[os.write(self._descriptor, view) :]
            if self._is_new:
                self._name_it()
        except OSError:
            self._abandon()
            raise

    def sync(self) -> None:
        """Raises OSError, and leaves nothing then."""
        try:
            os.fsync(self._descriptor)
            if not self._is_new:
                self._name_it()
        except OSError:
            self._abandon()
            raise
        os.close(self._descriptor)

    def changes(self) -> list[Path]:
        """The directories that it changes."""
        return [self.directory]

    def _abandon(self) -> None:
        os.close(self._descriptor)
        with contextlib.suppress(OSError):
            self._path.unlink()


class Move(Job):
    """A file that is in the spool already, and synced, to another place in it."""

    def __init__(self, directory: Path, name: str, source: Path, done: Callable[[OSError | None], None]) -> None:
        super().__init__(directory, name, b"", done)
        self.source = source

    def write(self) -> None:
        """Nothing is to be written."""

    def sync(self) -> None:
        self.source.rename(self.directory / self.name)

    def changes(self) -> list[Path]:
        return [self.directory, self.source.parent]


class Refill(Job):
    """Makes the reserve whole again."""

    def __init__(self, reserve: Reserve, directory: Path) -> None:
        super().__init__(directory, "", b"", lambda _error: None, makes_directory=False, is_vital=False)
        self._reserve = reserve

    def write(self) -> None:
        self._reserve.fill()

    def sync(self) -> None:
        """Nothing is to be synced."""

    def changes(self) -> list[Path]:
        return []


class Storing:
    """`wakeup` is readable when there is something to say; `finished` then calls back. No other thread may call its
    methods.

    A fault of the thread ends the agent, by `finished`: whoever starts it again has an agent that stores.
    """

    def __init__(self, reserve: Reserve) -> None:
        self._reserve = reserve
        self.wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._urgent: deque[Job] = deque()
        self._others: deque[Job] = deque()
        self._said: deque[Callable[[], None]] = deque()
        self._something = threading.Semaphore(0)
        self._fault: BaseException | None = None
        self.pending = 0
        threading.Thread(target=self._work, name="storing", daemon=True).start()

    def put(self, job: Job, *, is_urgent: bool = False) -> None:
        """Jobs of the same urgency are done in the order of their coming, and urgent ones before others."""
        self.pending += 1
        (self._urgent if is_urgent else self._others).append(job)
        self._something.release()

    def finished(self) -> None:
        """Calls back for all that is written or done. Raises RuntimeError when nothing is stored any more."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.wakeup)
        fault = self._fault  # what was written before it is said
        while self._said:
            self._said.popleft()()
        if fault is not None:
            raise RuntimeError("nothing is written into the spool any more") from fault

    def _done(self, job: Job, error: OSError | None) -> None:
        self.pending -= 1
        job.done(error)

    def _work(self) -> None:
        try:
            while True:
                self._something.acquire()
                for job, error in self._stored(self._waiting()):
                    self._said.append(functools.partial(self._done, job, error))
                os.eventfd_write(self.wakeup, 1)
        except BaseException as fault:  # noqa: BLE001 - the boundary of the thread; the loop raises it
            self._fault = fault
            os.eventfd_write(self.wakeup, 1)

    def _waiting(self) -> list[Job]:
        """What waits, as much as is written together; one was acquired."""
        jobs = [self._next()]
        limit = _TOGETHER if self._urgent else _BESIDE
        while len(jobs) < limit and self._something.acquire(blocking=False):
            jobs.append(self._next())
        return jobs

    def _written(self, jobs: list[Job]) -> None:
        """They have their content; each is said so once."""
        callbacks = [job.written for job in jobs if job.written is not None]
        for job in jobs:
            job.written = None
        if callbacks:
            self._said.extend(callbacks)
            os.eventfd_write(self.wakeup, 1)

    def _stored(self, jobs: list[Job]) -> list[tuple[Job, OSError | None]]:
        results = dict(_store(jobs, self._written))
        for _ in range(_RESERVE_TRIES):
            short = [job for job, error in results.items() if job.is_vital and is_full(error)]
            if not short or not self._reserve.give_up(sum(job.size_bytes + FILE_BYTES for job in short)):
                break
            results.update(_store(short, self._written))
        return list(results.items())

    def _next(self) -> Job:
        return self._urgent.popleft() if self._urgent else self._others.popleft()


def _store(jobs: list[Job], written: Callable[[list[Job]], None]) -> list[tuple[Job, OSError | None]]:
    errors: dict[Job, OSError] = {}
    changed: dict[Path, list[Job]] = {}
    created: set[Path] = set()

    def attempted(act: Callable[[Job], None]) -> Callable[[Job], None]:
        def attempt(job: Job) -> None:
            try:
                act(job)
            except OSError as error:
                errors[job] = error

        return attempt

    def write(job: Job) -> None:
        if job.makes_directory and not job.directory.is_dir():
            make(job.directory)
        try:
            job.write()
        except FileNotFoundError:
            if not job.makes_directory:
                raise
            make(job.directory)  # the archiver has just deleted it
            job.write()

    def make(directory: Path) -> None:
        directory.mkdir(mode=0o700, exist_ok=True)
        created.add(directory)

    def sync_changed(directory: Path) -> None:
        try:
            sync_directory(directory)
        except FileNotFoundError:
            return  # archived meanwhile: what was in it is safe
        except OSError as error:
            errors.update(dict.fromkeys(changed[directory], error))

    for job in jobs:
        attempted(write)(job)
    unsynced = [job for job in jobs if job not in errors]
    written(unsynced)
    _at_once(attempted(lambda job: job.sync()), unsynced)
    for job in unsynced:
        if job not in errors:
            for directory in [*job.changes(), *([job.directory.parent] if job.directory in created else [])]:
                changed.setdefault(directory, []).append(job)
    _at_once(sync_changed, list(changed))
    return [(job, errors.get(job)) for job in jobs]


def _at_once(act: Callable[[_Item], None], items: list[_Item]) -> None:
    """Acts on all, some of them at the same time. Raises what `act` raised, whichever thread that was in."""
    left = iter(items)
    turn = threading.Lock()
    faults: list[BaseException] = []

    def work() -> None:
        try:
            while not faults:
                with turn:
                    item = next(left, None)
                if item is None:
                    return
                act(item)
        except BaseException as fault:  # noqa: BLE001 - the boundary of a thread; raised below
            faults.append(fault)

    helpers: list[threading.Thread] = []
    for _ in range(min(len(items), _SYNCS_AT_ONCE) - 1):
        helper = threading.Thread(target=work, name="syncing", daemon=True)
        try:
            helper.start()
        except RuntimeError:  # the node, or our control group, has no thread to spare: fewer at once
            break
        helpers.append(helper)
    work()
    for helper in helpers:
        helper.join()
    if faults:
        raise faults[0]
