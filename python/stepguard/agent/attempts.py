# SPDX-License-Identifier: Apache-2.0
"""The attempts of jobs that are not complete yet on this node: which a message belongs to, and when one is over.

Slurm counts a requeue before it runs the epilogs of the attempt that ends, and starts the next attempt when they are
over (22.05 to 26.05). So an epilog names its own attempt or the one after.

Pure: it knows messages and times, no files. Times are seconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from stepguard.agent.message import BEGINNINGS, CLOSED, HEALTH, LOOKED, Message
from stepguard.records.spool import AttemptKey

# A slurmstepd may tell the end of its step a moment after the epilog; one that was killed never does.
STEP_END_GRACE_S = 5.0
LATE_GRACE_S = 5.0
# Sites may use the plugin without the hooks: then the last step's end is the end, as far as anybody can tell.
NO_HOOKS_S = 60.0
SUPERSEDED_S = 60.0
NO_EPILOG_S = 600.0
_REMEMBERED_JOBS = 10_000
ENDS = ("epilog", CLOSED)


class Past(NamedTuple):
    """What is remembered of an attempt that is complete."""

    end_boot_id: str = ""
    end_boottime_ns: int = 0
    had_begun: bool = False
    had_epilog: bool = False


@dataclass
class Attempt:
    """One attempt of a job on this node, as its messages told."""

    key: AttemptKey
    uid: int | None = None
    gid: int | None = None
    node: str = ""
    boot_id: str = ""
    has_prolog: bool = False
    has_batch: bool = False
    has_epilog: bool = False
    has_begun: bool = False
    closed: bool = False
    # The same, from before it was complete and opened again, too.
    had_begun: bool = False
    had_epilog: bool = False
    open_steps: set[str] = field(default_factory=set)
    # Of its first beginning; 0 where nothing told of one.
    begin_boottime_ns: int = 0
    # Whether the node's devices were looked at for its beginning and for its end, or are to be.
    is_looked_at: bool = False
    is_looked_at_again: bool = False
    output_count: int = 0
    identities: set[int] = field(default_factory=set)
    last_s: float = 0.0
    # Messages that were taken in and are not in the spool yet: what they tell is known, but cannot be read there.
    unstored: int = 0
    # The look for its end has not been told yet: it waits for that.
    awaits_look: bool = False
    # It is over, and its outputs are being read or it is being marked: messages are added, but it is not ended twice.
    is_finishing: bool = False
    # Not ended before this: it could not be marked.
    not_before_s: float = 0.0
    end_boot_id: str = ""
    end_boottime_ns: int = 0

    def observe(self, message: Message, now_s: float) -> None:
        """Takes in what one of its messages says."""
        self.last_s = now_s
        if message.kind != "output":  # a user's word
            self.boot_id = message.boot_id or self.boot_id
            self.node = message.node or self.node
        if message.kind in BEGINNINGS:
            self.has_begun = self.had_begun = True
            self.begin_boottime_ns = self.begin_boottime_ns or message.boottime_ns
        if message.kind in ("prolog", "batch", "epilog"):
            self.uid = message.uid if message.uid is not None else self.uid
            self.gid = message.gid if message.gid is not None else self.gid
        is_after_end = message.boot_id != self.end_boot_id or message.boottime_ns > self.end_boottime_ns
        if message.kind in BEGINNINGS and is_after_end:
            # Slurm may have lost its state, and run the attempt once more
            self.has_epilog = self.had_epilog = self.closed = False
        elif message.kind in BEGINNINGS and self.end_boottime_ns:
            self.closed = True  # a note that is found only now
        if message.kind == "prolog":
            self.has_prolog = True
        elif message.kind == "batch":
            self.has_batch = True
            self.open_steps.add("batch")
        elif message.kind == "step_start":
            self.open_steps.add(message.step_id)
        elif message.kind == "step_end":
            self.open_steps.discard(message.step_id)
        elif message.kind == "epilog":
            self.has_epilog = self.had_epilog = True
        elif message.kind == "output":
            self.output_count += 1
        elif message.kind in (LOOKED, HEALTH):
            self.is_looked_at = True
            self.is_looked_at_again |= message.kind == HEALTH
        elif message.kind == CLOSED:
            self.closed = True
            self.open_steps.clear()
        if message.kind in ENDS:
            self.end_boot_id, self.end_boottime_ns = message.boot_id, message.boottime_ns

    def is_doubtful(self, now_s: float) -> bool:
        """Whether steps of it have been silent for long, and no epilog will come: there are no hooks, or this is what a
        late note of an attempt has opened again; or its batch step, with which it ends, is among them."""
        may_tell = self.has_prolog and not self.has_batch
        is_open = bool(self.open_steps) and not (self.has_epilog or self.closed or may_tell)
        return is_open and now_s - self.last_s >= NO_EPILOG_S

    def over(self, now_s: float, boot_id: str, newest: int, has_slurmstepd: Callable[[int], bool]) -> str | None:
        """None while more may come; "" when it is over as it should be; else why it is taken to be over.

        `boot_id` is the node's now, `newest` the newest attempt of the job that is known here. Where it is doubtful,
        `has_slurmstepd` is asked.
        """
        silence_s = now_s - self.last_s
        if self.has_epilog or self.closed:
            return "" if not self.open_steps or silence_s >= STEP_END_GRACE_S else None
        if self.boot_id and self.boot_id != boot_id:
            return "reboot"
        if not self.has_begun:
            return "" if silence_s >= LATE_GRACE_S else None
        if self.key.attempt < newest and silence_s >= SUPERSEDED_S:
            return "superseded"
        if self.open_steps:
            is_gone = self.is_doubtful(now_s) and not has_slurmstepd(self.key.job_id)
            return "no-slurmstepd" if is_gone else None
        if not self.has_prolog:
            return "" if silence_s >= NO_HOOKS_S else None
        return "no-epilog" if self.has_batch and silence_s >= NO_EPILOG_S else None


class Attempts:
    """All that are open on this node, and which attempt of a job came last."""

    def __init__(self) -> None:
        self._jobs: dict[int, dict[AttemptKey, Attempt]] = {}
        self._newest: dict[int, int] = {}
        self._past: dict[AttemptKey, Past] = {}

    def __iter__(self) -> Iterator[Attempt]:
        return iter([attempt for attempts in self._jobs.values() for attempt in attempts.values()])

    def __len__(self) -> int:
        return sum(map(len, self._jobs.values()))

    def get(self, key: AttemptKey) -> Attempt | None:
        return self._jobs.get(key.job_id, {}).get(key)

    def open(self, key: AttemptKey) -> Attempt:
        """The attempt of this key, opened where it is not."""
        if (attempt := self.get(key)) is None:
            attempt = self._jobs.setdefault(key.job_id, {})[key] = Attempt(key)
            past = self._past.get(key, Past())
            attempt.end_boot_id, attempt.end_boottime_ns, attempt.had_begun, attempt.had_epilog = past
            self.remember(key)
        return attempt

    def close(self, attempt: Attempt) -> None:
        """It is complete. Its end is remembered: a note from before that may be found only now."""
        self._past.pop(attempt.key, None)
        self._past[attempt.key] = _past_of(attempt)
        if len(self._past) > _REMEMBERED_JOBS:
            del self._past[next(iter(self._past))]
        of_job = self._jobs.get(attempt.key.job_id, {})
        of_job.pop(attempt.key, None)
        if not of_job:
            self._jobs.pop(attempt.key.job_id, None)

    def remember(self, key: AttemptKey) -> None:
        """There was such an attempt; of as many jobs as matter, late messages find it without naming it."""
        newest = max(key.attempt, self._newest.pop(key.job_id, 0))
        self._newest[key.job_id] = newest
        if len(self._newest) > _REMEMBERED_JOBS:
            del self._newest[next(iter(self._newest))]

    def newest(self, job_id: int) -> int:
        return self._newest.get(job_id, 0)

    def of_job(self, job_id: int) -> list[Attempt]:
        """Oldest first."""
        return [attempt for _, attempt in sorted(self._jobs.get(job_id, {}).items())]

    def key_of(self, message: Message) -> AttemptKey:
        """Which attempt a message belongs to."""
        attempts = self.of_job(message.job_id)
        if message.kind == "prolog":
            chosen = message.restarts or 0
        elif message.kind == "epilog":
            chosen = self._ended_by(message, attempts)
        else:
            chosen = self._around(message, attempts)
        return AttemptKey(message.job_id, chosen)

    def _ended_by(self, message: Message, attempts: list[Attempt]) -> int:
        """An epilog ends the attempt that is open. Where none is, it may be known here once more, as a note; else it is
        that of the attempt before the one that it names, if that one has not begun here. Of nodes where an attempt ran
        no step, and where nothing told of it, that may be wrong: the archiver, who sees all nodes, looks again."""
        said = message.restarts
        numbers = {a.key.attempt for a in attempts} | {self.newest(message.job_id)}
        numbers |= set() if said is None else {said, max(said - 1, 0)}
        for number in numbers:
            past = self._known(AttemptKey(message.job_id, number))
            if message.boottime_ns and past[:2] == (message.boot_id, message.boottime_ns):
                return number
        without = [a.key.attempt for a in attempts if not a.had_epilog and (said is None or a.key.attempt <= said)]
        if without:
            return without[-1]
        if not said:
            return self.newest(message.job_id) if said is None else 0
        named, before = (self._known(AttemptKey(message.job_id, number)) for number in (said, said - 1))
        # A slurmd runs one epilog for each attempt; one that has just booted does not know of any.
        is_another = before.had_epilog and before.end_boot_id == message.boot_id
        return said if named.had_begun or is_another else said - 1

    def _known(self, key: AttemptKey) -> Past:
        attempt = self.get(key)
        return _past_of(attempt) if attempt else self._past.get(key, Past())

    def _around(self, message: Message, attempts: list[Attempt]) -> int:
        """slurmd's word on the attempt is better than the job's environment: that may be another job's."""
        started = [a for a in attempts if a.has_prolog and not a.is_finishing]
        has_another_script = message.kind == "batch" and bool(started) and started[-1].has_batch
        if message.restarts is not None and (not started or has_another_script):
            return message.restarts
        if started or attempts:
            return (started or attempts)[-1].key.attempt
        return 0 if message.kind == "batch" else self.newest(message.job_id)


def _past_of(attempt: Attempt) -> Past:
    return Past(attempt.end_boot_id, attempt.end_boottime_ns, attempt.had_begun, attempt.had_epilog)
