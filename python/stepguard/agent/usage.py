# SPDX-License-Identifier: Apache-2.0
"""How full the spool is. Counted once at start, then kept up to date: a spool with a long backlog is dear to walk."""

from __future__ import annotations

import os
import time
from pathlib import Path

from stepguard.agent.log import Log
from stepguard.records.spool import AttemptKey, SpoolLayout

OUTPUT_SHARE = 0.8
CONTENT_SHARE = 0.9
# Below this all is well again, and the next refusal is told again.
_BACK_SHARE = 0.7
_LOST = {OUTPUT_SHARE: "output of jobs", CONTENT_SHARE: "scripts, environments and output of jobs"}
_WHY = "does the archive take nothing?"


class Usage:
    """Bytes in the spool by attempt; `bound_bytes` is [agent] spool_max_mib.

    What is decided to be stored counts from then on (`reserve`), or many at once would all find room; `settle` says
    what came of it.
    """

    def __init__(self, layout: SpoolLayout, bound_bytes: int, log: Log) -> None:
        self.bound_bytes = bound_bytes
        self._stored_bytes = self._reserved_bytes = 0
        self._layout = layout
        self._log = log
        self._attempts = {str(key): directory_bytes(layout.attempt(key)) for key in layout.attempts()}
        self._changed_ns = 0
        self._share_said = 0.0
        self._sum_up()

    @property
    def used_bytes(self) -> int:
        """What is in the spool, and what is on its way there."""
        return self._stored_bytes + self._reserved_bytes

    @property
    def not_kept(self) -> str:
        """What had no room lately, and has none until much has gone; "" for nothing."""
        return _LOST.get(self._share_said, "")

    def reserve(self, size_bytes: int) -> None:
        """Something is to be stored."""
        self._reserved_bytes += size_bytes

    def settle(self, key: AttemptKey, size_bytes: int, is_stored: bool) -> None:
        """What was reserved has come to an attempt, or will not."""
        self._reserved_bytes -= size_bytes
        if is_stored:
            self._attempts[str(key)] = self._attempts.get(str(key), 0) + size_bytes
            self._stored_bytes += size_bytes

    def look(self) -> set[str]:
        """Takes off what the archiver has deleted, and returns it, JOBID.ATTEMPT; cheap while it deletes nothing.
        Raises OSError."""
        changed_ns = self._layout.jobs.stat().st_mtime_ns
        if changed_ns == self._changed_ns:
            return set()
        # The time of a change is as coarse as the kernel's tick: what has just changed may change again unseen.
        self._changed_ns = changed_ns if time.time_ns() - changed_ns > 1_000_000_000 else 0
        there = set(os.listdir(self._layout.jobs))  # noqa: PTH208 - names are enough, of 10^4
        gone = self._attempts.keys() - there
        self._attempts = {name: size for name, size in self._attempts.items() if name in there}
        self._sum_up()
        return gone

    def takes_output(self, size_bytes: int = 0) -> bool:
        """Whether an output of this size may still be kept."""
        return self._takes(size_bytes, OUTPUT_SHARE)

    def takes_content(self, size_bytes: int) -> bool:
        """Whether a script and an environment of this size may still be kept."""
        return self._takes(size_bytes, CONTENT_SHARE)

    def _takes(self, size_bytes: int, share: float) -> bool:
        takes = self.used_bytes + size_bytes <= share * self.bound_bytes
        if not takes and share > self._share_said:
            self._share_said = share
            wanted = (self.used_bytes + size_bytes) / self.bound_bytes
            self._log.error(
                f"{self._fullness()} of {self.bound_bytes >> 20} MiB, {wanted:.1%} with what is to be stored: above "
                f"{share:.0%} no more {_LOST[share]} can be kept: {_WHY}"
            )
        return takes

    def _sum_up(self) -> None:
        self._stored_bytes = sum(self._attempts.values())
        if self._share_said and self.used_bytes < _BACK_SHARE * self.bound_bytes:
            self._share_said = 0.0
            self._log.info(f"{self._fullness()}: everything is kept again")

    def _fullness(self) -> str:
        return f"the spool {self._layout.root} is {self.used_bytes / self.bound_bytes:.1%} full"


def directory_bytes(directory: Path) -> int:
    """What the files of a directory take; 0 where it is gone."""
    try:
        with os.scandir(directory) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
    except FileNotFoundError:
        return 0
