# SPDX-License-Identifier: Apache-2.0
"""Which attempts in the spool are to be archived now.

Looked at every second: one stat of SPOOL/jobs while nothing comes or goes, and one of each attempt that runs.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

from stepguard.records.spool import COMPLETE, AttemptKey, SpoolLayout

# A job that is over within this time is written once, and not twice.
EARLY_S = 2.0
# The steps of a running job appear in its record this often at most.
AGAIN_S = 60.0
# The record of a running job of which there is no news is written again this often: one that has not changed for long
# is of a node that has gone (retention).
BEAT_S = 1800.0
# What waits for the records of other nodes is looked at again this often.
WAIT_S = 5.0
_RETRY_MIN_S, _RETRY_MAX_S = 1.0, 300.0
# Tries after which an attempt is no longer expected to succeed.
SET_ASIDE_TRIES = 5


@dataclass
class Seen:
    """An attempt in the spool. Times are those of CLOCK_MONOTONIC: `since_s` is when it was seen first, `beat_s` when
    it is to be written again without any news. `archived_ns` is the directory's time when it was read for the archive,
    `failures` are those in a row."""

    directory: Path
    since_s: float = 0.0
    changed_ns: int = -1
    archived_ns: int = -1
    is_complete: bool = False
    next_s: float = 0.0
    beat_s: float = math.inf
    failures: int = 0


class Due:
    """All attempts in the spool, and when their turn is."""

    def __init__(self, layout: SpoolLayout) -> None:
        self._layout = layout
        self._jobs_changed_ns = -1
        self._seen: dict[AttemptKey, Seen] = {}

    def look(self) -> list[tuple[AttemptKey, Seen]]:
        """Those whose turn it is, complete ones first, for they free the spool. Raises OSError."""
        now_s = time.monotonic()
        self._find(now_s)
        due = []
        for key, seen in list(self._seen.items()):
            if not seen.is_complete and not self._changed(key, seen):
                continue
            has_news = seen.is_complete or seen.changed_ns != seen.archived_ns or seen.beat_s <= now_s
            if has_news and seen.next_s <= now_s:
                due.append((key, seen))
        return sorted(due, key=lambda one: (not one[1].is_complete, one[1].failures, one[0]))

    @property
    def backlog(self) -> int:
        return sum(seen.is_complete for seen in self._seen.values())

    @property
    def set_aside(self) -> list[str]:
        return [str(key) for key, seen in self._seen.items() if seen.failures >= SET_ASIDE_TRIES]

    def done(self, key: AttemptKey, is_gone: bool) -> None:
        """It is in the archive. What remains of it in the spool is looked at again."""
        seen = self._seen[key]
        if is_gone:
            del self._seen[key]
            return
        seen.failures = 0
        seen.archived_ns = seen.changed_ns
        seen.is_complete = False
        seen.next_s = time.monotonic() + AGAIN_S
        seen.beat_s = time.monotonic() + BEAT_S

    def wait(self, key: AttemptKey) -> float:
        """Others have to be archived before it; returns for how long it has been in the spool."""
        seen = self._seen[key]
        seen.next_s = time.monotonic() + WAIT_S
        return time.monotonic() - seen.since_s

    def failed(self, key: AttemptKey) -> int:
        """It could not be archived, and others may; returns how often that was."""
        seen = self._seen[key]
        seen.failures += 1
        seen.next_s = time.monotonic() + min(_RETRY_MIN_S * 2 ** (seen.failures - 1), _RETRY_MAX_S)
        return seen.failures

    def _find(self, now_s: float) -> None:
        try:
            changed_ns = self._layout.jobs.stat().st_mtime_ns
        except FileNotFoundError:
            return  # there is no agent yet
        if changed_ns == self._jobs_changed_ns and not _is_fresh(changed_ns):
            return
        self._jobs_changed_ns = changed_ns
        there = self._layout.attempts()
        for key in self._seen.keys() - set(there):
            del self._seen[key]
        for key in there:
            if key not in self._seen:
                self._seen[key] = Seen(self._layout.attempt(key), now_s, next_s=now_s + EARLY_S)

    def _changed(self, key: AttemptKey, seen: Seen) -> bool:
        """Looks at an attempt that was not complete; whether it is still there."""
        try:
            changed_ns = seen.directory.stat().st_mtime_ns
        except FileNotFoundError:
            del self._seen[key]
            return False
        if changed_ns != seen.changed_ns or _is_fresh(changed_ns):
            seen.changed_ns = changed_ns
            if (seen.directory / COMPLETE).exists():
                seen.is_complete = True
                seen.next_s = 0.0
        return True


def _is_fresh(changed_ns: int) -> bool:
    """Whether more may change without changing that time: it counts the kernel's ticks, and file systems' seconds."""
    return abs(time.time_ns() - changed_ns) < 2_000_000_000
