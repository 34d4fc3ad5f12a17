# SPDX-License-Identifier: Apache-2.0
"""Messages that were left in the spool while no agent answered: found, judged, and moved to their attempts."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stepguard.agent.log import Log
from stepguard.agent.message import JOB_KINDS, Message, read
from stepguard.records import wire
from stepguard.records.wire import MalformedMessage

_MAX_BYTES = wire.HEADER_SIZE_BYTES + wire.BODY_MAX_BYTES
# A sender needs milliseconds from the temporary name to the last one.
_ABANDONED_S = 3600.0
# One that could not be taken (the disk) is tried again after this.
_AGAIN_S = 10.0


class Note(NamedTuple):
    """A message in a file of the notes' directory."""

    path: Path
    message: Message
    size_bytes: int


class Notes:
    """The directory of the notes."""

    def __init__(self, directory: Path, boot_id: str, log: Log) -> None:
        self._directory = directory
        self._boot_id = boot_id
        self._log = log
        self._changed_ns = 0
        self._look_again_s = 0.0
        self._taken: set[str] = set()

    def found(self) -> list[Note]:
        """Notes that were not handed out before, in the order of their making. Cheap while there is nothing new.

        Raises OSError when the directory cannot be read; one that was removed has none.
        """
        try:
            changed_ns = self._directory.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        now_s = time.monotonic()
        if changed_ns == self._changed_ns and not 0 < self._look_again_s <= now_s:
            return []
        # The time of a change is as coarse as the kernel's tick: what has just changed may change again unseen.
        has_settled = time.time_ns() - changed_ns > 1_000_000_000
        self._changed_ns, self._look_again_s = changed_ns if has_settled else 0, 0.0
        names = set(os.listdir(self._directory))  # noqa: PTH208 - names are enough, of 10^4
        self._taken &= names
        fresh = [self._directory / name for name in sorted(names - self._taken)]
        notes = list(self._readable(fresh))
        self._taken.update(note.path.name for note in notes)
        return self._in_order(notes)

    def failed(self, note: Note) -> None:
        """It is still there, and will be handed out again."""
        self._taken.discard(note.path.name)
        self._look_again_s = time.monotonic() + _AGAIN_S

    def count(self) -> int:
        """Raises OSError as above."""
        with contextlib.suppress(FileNotFoundError):
            return sum(name.endswith(".note") for name in os.listdir(self._directory))  # noqa: PTH208
        return 0

    def _in_order(self, notes: list[Note]) -> list[Note]:
        """By the clock that never steps; it begins again with each boot, whose order the other clock must tell."""
        boots: dict[str, int] = {}
        for note in notes:
            boot_id, time_ns = note.message.boot_id, note.message.time_ns
            boots[boot_id] = min(time_ns, boots.get(boot_id, time_ns))
        return sorted(
            notes,
            key=lambda note: (
                note.message.boot_id == self._boot_id,
                boots[note.message.boot_id],
                note.message.boot_id,
                note.message.boottime_ns,
            ),
        )

    def _readable(self, paths: list[Path]) -> Iterator[Note]:
        for path in paths:
            try:
                if path.suffix == ".note":
                    content = _content(path)
                    message = read(wire.decode(content))
                    if message.kind == "health_check":
                        path.unlink()  # tells nothing of a job
                        continue
                    if message.kind not in JOB_KINDS:
                        raise MalformedMessage(f"kind {message.kind} is not kept")
                    yield Note(path, message, len(content))
                elif time.time() - path.lstat().st_mtime > _ABANDONED_S:
                    self._delete(path, "was never finished")
            except MalformedMessage as error:
                self._delete(path, f"is no message: {error}")
            except FileNotFoundError:
                continue  # a sender's temporary name, which has become a last one
            except OSError as error:
                self._log.error(f"cannot read the note {path}: {error.strerror}", "note")
                self._look_again_s = time.monotonic() + _AGAIN_S

    def _delete(self, path: Path, why: str) -> None:
        self._log.warning(f"the note {path} {why}: it is deleted", "bad note")
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._log.error(f"cannot delete the note {path}: {error.strerror}", "delete note")


def _content(path: Path) -> bytes:
    """Raises OSError, or MalformedMessage when that is no regular file or too large."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # before fdopen(), which leaves a directory open
        os.close(descriptor)
        raise MalformedMessage("not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise MalformedMessage("too large")
    return content
