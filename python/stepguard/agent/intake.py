# SPDX-License-Identifier: Apache-2.0
"""Messages: who may send which, which attempt each belongs to, and that it is in the spool before anybody hears ok."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from stepguard.agent.attempts import ENDS, Attempt, Attempts
from stepguard.agent.log import Log
from stepguard.agent.message import BEGINNINGS, CLOSED, JOB_KINDS, Message, read
from stepguard.agent.notes import Note, Notes
from stepguard.agent.storing import Job, Move, Storing
from stepguard.agent.usage import Usage
from stepguard.records import spool, wire
from stepguard.records.batch import without_content
from stepguard.records.spool import COMPLETE, SpoolLayout

# A batch task tells its output once, and again after a requeue that Slurm forgot to count.
_OUTPUTS_MAX = 4
# What the disk does not take is kept in memory up to this.
_WAITING_MAX_BYTES = 4 << 20
# The finding of a record that lacks what was removed.
LOST = "spool-removed"
_LOST_TEXT = "the node's spool was removed during the job: of what was told here before, only what is archived is left"


class _Unstored(NamedTuple):
    """A message on its way into the spool: to this attempt, under this name."""

    attempt: Attempt
    message: Message
    name: str
    content: bytes


class Intake:
    """`settle` is called with each attempt that a message was added to."""

    def __init__(
        self, layout: SpoolLayout, storing: Storing, usage: Usage, log: Log, settle: Callable[[Attempt], None]
    ) -> None:
        self.attempts = Attempts()
        self.counters: Counter[str] = Counter()
        self._layout = layout
        self._storing = storing
        self._usage = usage
        self._log = log
        self._settle = settle
        self._sequence = 0
        self._waiting: list[_Unstored] = []

    def refusal(self, uid: int, message: Message) -> str:
        """Why this user may not send this message; "" when they may."""
        if message.kind not in JOB_KINDS:
            return f"unknown kind {message.kind[:40]}"
        if uid == 0:
            return ""
        if message.kind != "output":
            return f"only root may send {message.kind}"
        own = self.open_job_of(uid, message.job_id)
        if own is None:
            return f"job {message.job_id} is not yours, or not here, or over"
        return "that was said before" if own.output_count >= _OUTPUTS_MAX else ""

    def open_job_of(self, uid: int, job_id: int) -> Attempt | None:
        """The attempt of a user's job that runs here now, as root's messages said."""
        running = [a for a in self.attempts.of_job(job_id) if a.has_begun and not a.has_epilog and not a.closed]
        return running[-1] if running and running[-1].uid == uid else None

    def keep(
        self,
        uid: int,
        message: Message,
        fields: Mapping[str, bytes],
        content: bytes,
        kept: Callable[[OSError | None], None],
    ) -> Attempt:
        """Brings a message into the spool that was not refused. Returns what it was added to.

        `kept` is called once, when the message would outlive this agent, or cannot be stored. What the disk does not
        take after that is kept in memory and tried again.
        """
        lesser = wire.encode(without_content(fields)) if message.kind == "batch" else b""
        if lesser and not self._usage.takes_content(len(content)):
            content, lesser = lesser, b""
            self.counters["dropped_content"] += 1
        own = self.open_job_of(uid, message.job_id) if uid != 0 else None
        attempt = own or self._attempt_of(message)
        self._add(attempt, message, content, kept, lesser)
        return attempt

    def adopt(self, note: Note, notes: Notes) -> None:
        """Brings a note to its attempt; one whose message was taken all the same is deleted."""
        attempt = self._attempt_of(note.message)
        if note.message.identity in attempt.identities:
            note.path.unlink(missing_ok=True)
            return
        attempt.observe(note.message, time.monotonic())
        attempt.unstored += 1

        def moved(error: OSError | None) -> None:
            self._usage.settle(attempt.key, note.size_bytes, error is None)
            self._stored(attempt, note.message, error)
            if error is not None:
                notes.failed(note)

        self._usage.reserve(note.size_bytes)
        directory = self._layout.attempt(attempt.key)
        self._storing.put(Move(directory, self._new_name(note.message.kind), note.path, moved))

    def close(self, attempt: Attempt, why: str, boot_id: str) -> None:
        """Says that nothing more will come of this attempt, and why."""
        self._say(attempt, CLOSED, boot_id, {"why": why.encode()}, nobody_waits)

    def find(
        self, attempt: Attempt, code: str, text: str, boot_id: str, kept: Callable[[OSError | None], None]
    ) -> None:
        """Says what the agent itself has found, then calls `kept`."""
        text_bytes = text.encode(errors="surrogateescape")
        self._say(attempt, "finding", boot_id, {"code": code.encode(), "text": text_bytes}, kept)

    def note_losses(self, gone: Collection[str], boot_id: str, *, also_finishing: bool) -> list[str]:
        """Says of the open attempts among those that are gone from the spool that they were lost under it, in what is
        left of their records; returns them. One that is being finished may be the archiver's doing."""
        lost = [
            attempt
            for attempt in self.attempts
            if str(attempt.key) in gone and attempt.identities and not attempt.unstored
            if also_finishing or not attempt.is_finishing
        ]
        for attempt in lost:
            attempt.identities.clear()
            self.find(attempt, LOST, _LOST_TEXT, boot_id, nobody_waits)
        return [str(attempt.key) for attempt in lost]

    def tell(self, attempt: Attempt, kind: str, boot_id: str, fields: Mapping[str, bytes]) -> None:
        """Adds what the agent has seen of the node's devices, where there is room for more than what is needed."""
        if self._usage.takes_content(sum(map(len, fields.values()))):
            self._say(attempt, kind, boot_id, fields, nobody_waits)

    def _say(
        self,
        attempt: Attempt,
        kind: str,
        boot_id: str,
        more: Mapping[str, bytes],
        kept: Callable[[OSError | None], None],
    ) -> None:
        """Adds a message of our own."""
        said = {
            "kind": kind,
            "node": attempt.node,
            "time_ns": str(time.time_ns()),
            "boottime_ns": str(time.clock_gettime_ns(time.CLOCK_BOOTTIME)),
            "boot_id": boot_id,
            "job_id": str(attempt.key.job_id),
        }
        fields = {name: value.encode(errors="surrogateescape") for name, value in said.items()}
        fields.update(more)
        self._add(attempt, read(fields), wire.encode(fields), kept)

    def rebuild(self) -> None:
        """Learns from the spool what was taken in before this start. Raises OSError."""
        for key in self._layout.attempts():
            self.attempts.remember(key)
            directory = self._layout.attempt(key)
            for temporary in directory.glob(".*"):
                temporary.unlink(missing_ok=True)  # of an agent that was killed; nobody was told "ok"
            found = [one for one in spool.messages(directory) if not self._is_torn(one[2])]
            self._sequence = max([self._sequence, *(sequence for sequence, _, _ in found)])
            attempt = self.attempts.open(key)
            attempt.last_s = time.monotonic()
            is_complete = (directory / COMPLETE).exists()
            for _, kind, path in found:
                if kind in ENDS or not is_complete:
                    self._learn(attempt, path)
                attempt.had_begun |= kind in BEGINNINGS
            if is_complete:
                self.attempts.close(attempt)

    def _is_torn(self, path: Path) -> bool:
        """Whether a power cut has left a part of a message, which is deleted."""
        try:
            if not wire.is_torn(path):
                return False
            self._log.warning(f"{path} was cut short by a power cut: deleted")
            path.unlink()
        except OSError as error:
            self._log.error(f"{path} cannot be looked at: {error.strerror}", "torn")
            return False
        return True

    def _learn(self, attempt: Attempt, path: Path) -> None:
        try:
            message = read(wire.decode(path.read_bytes()))
        except FileNotFoundError:
            return  # an archiver that outlived its agent has just deleted it
        except (OSError, wire.MalformedMessage) as error:
            self._log.error(f"{path} is damaged: {error}", "damaged")
            return
        attempt.observe(message, time.monotonic())
        attempt.identities.add(message.identity)

    def _attempt_of(self, message: Message) -> Attempt:
        """The attempt that it belongs to, as it was if the archiver has not taken it yet."""
        key = self.attempts.key_of(message)
        if (attempt := self.attempts.get(key)) is not None:
            return attempt
        attempt = self.attempts.open(key)
        directory = self._layout.attempt(key)
        if message.kind in BEGINNINGS:
            with contextlib.suppress(OSError):
                (directory / COMPLETE).unlink()  # Slurm runs it once more, or it is marked again
        for _, _, path in spool.messages(directory):
            self._learn(attempt, path)
        return attempt

    def retry(self) -> None:
        """Tries once more to store what the disk did not take."""
        waiting, self._waiting = self._waiting, []
        for unstored in waiting:
            self._put(unstored, nobody_waits)

    @property
    def waiting_count(self) -> int:
        """Messages in memory that the disk did not take."""
        return len(self._waiting)

    def _add(
        self,
        attempt: Attempt,
        message: Message,
        content: bytes,
        kept: Callable[[OSError | None], None],
        lesser: bytes = b"",
    ) -> None:
        attempt.observe(message, time.monotonic())
        attempt.unstored += 1
        self._put(_Unstored(attempt, message, self._new_name(message.kind), content), kept, lesser)

    def _put(self, unstored: _Unstored, kept: Callable[[OSError | None], None], lesser: bytes = b"") -> None:
        """`lesser` is stored in its place where the disk does not take it."""
        attempt, message, name, content = unstored
        told = kept

        def written() -> None:
            nonlocal told
            told = nobody_waits
            kept(None)

        def stored(error: OSError | None) -> None:
            self._usage.settle(attempt.key, len(content), error is None)
            if lesser and error is not None:
                self.counters["dropped_content"] += 1
                self._put(unstored._replace(content=lesser), told)
            else:
                if error is None or not self._waits(unstored, error):
                    self._stored(attempt, message, error)
                told(error)

        self._usage.reserve(len(content))
        directory = self._layout.attempt(attempt.key)
        job = Job(directory, name, content, stored, is_vital=not lesser, is_new=True, written=written)
        self._storing.put(job, is_urgent=True)

    def _waits(self, unstored: _Unstored, error: OSError) -> bool:
        """Whether a message that could not be stored stays in memory, and its attempt open, until it can be."""
        if sum(len(one.content) for one in self._waiting) + len(unstored.content) > _WAITING_MAX_BYTES:
            return False
        self._waiting.append(unstored)
        self._tell(unstored.message, unstored.attempt, f"{error.strerror}: tried again, if the agent lives that long")
        return True

    def _new_name(self, kind: str) -> str:
        self._sequence += 1
        return spool.message_name(self._sequence, kind)

    def _stored(self, attempt: Attempt, message: Message, error: OSError | None) -> None:
        attempt.unstored -= 1
        if error is None:
            self.counters[message.kind] += 1
            attempt.identities.add(message.identity)
        else:
            self.counters["not_kept"] += 1
            self._tell(message, attempt, f"{error.strerror}")
        self._settle(attempt)

    def _tell(self, message: Message, attempt: Attempt, why: str) -> None:
        what = f"{message.kind} of job {attempt.key}"
        self._log.error(f"the spool {self._layout.root} does not take the {what}: {why}", "spool")


def nobody_waits(_error: OSError | None) -> None:
    """For what is kept without an answer: whoever sent it has been told, or will be by another."""
