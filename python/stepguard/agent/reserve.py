# SPDX-License-Identifier: Apache-2.0
"""Room on the spool's disk that is held for what makes a record: who, where, when and how it ended.

A file that holds blocks and no data. When the disk is full it is cut short, piece by piece, for the messages of jobs
that need some hundred bytes each; scripts, environments and output get nothing of it. It is made again when there is
room. An agent that is killed leaves it to the next one.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from stepguard.agent.log import Log

# Of [agent] spool_max_mib; 16 MiB by default, for the messages of some 500 jobs.
_SHARE = 64
# A small file system is not to be filled by it.
_DISK_SHARE = 8
# What a small message takes at most beside its own size: its last block, its directory's, what their places take.
FILE_BYTES = 12 << 10
_PIECE_BYTES = 64 << 10


def is_full(error: OSError | None) -> bool:
    """Whether it says that the disk is full."""
    return error is not None and error.errno in (errno.ENOSPC, errno.EDQUOT)


class Reserve:
    """The file. `give_up` and `fill` are for the thread that writes into the spool, `look` for the loop."""

    def __init__(self, path: Path, spool_max_bytes: int, log: Log) -> None:
        self._path = path
        self._wanted_bytes = spool_max_bytes // _SHARE
        self._log = log
        self._held_bytes = 0
        with contextlib.suppress(FileNotFoundError):
            self._held_bytes = path.stat().st_size
        self._is_whole = False
        # How often it gave something up, and how often of these was told.
        self._given_count = self._told_count = 0
        self._is_short = False

    def give_up(self, needed_bytes: int) -> bool:
        """Frees as much, if it has so much; whether it freed anything."""
        if self._held_bytes == 0:
            return False
        left_bytes = max(self._held_bytes - max(needed_bytes, _PIECE_BYTES), 0)
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                os.ftruncate(descriptor, left_bytes)
                os.fsync(descriptor)  # journals free blocks when they commit
            finally:
                os.close(descriptor)
        except OSError:
            left_bytes = 0  # whatever it was, it is no reserve
        self._held_bytes, self._is_whole = left_bytes, False
        self._given_count += 1
        return True

    def fill(self) -> None:
        """Makes it whole where the disk has room for it and for others. Raises OSError."""
        if not self._path.exists():  # removed
            self._held_bytes = 0
        disk = os.statvfs(self._path.parent)
        wanted_bytes = min(self._wanted_bytes, disk.f_blocks * disk.f_frsize // _DISK_SHARE)
        if self._held_bytes >= wanted_bytes or disk.f_bavail * disk.f_frsize < 2 * wanted_bytes:
            return
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, wanted_bytes)
        except OSError:
            os.ftruncate(descriptor, self._held_bytes)
            raise
        finally:
            os.close(descriptor)
        self._held_bytes, self._is_whole = wanted_bytes, True

    def look(self) -> None:
        """Tells what has become of it since the last look."""
        where, held_kib = f"the disk of the spool {self._path.parent}", self._held_bytes >> 10
        if self._given_count != self._told_count:
            self._told_count = self._given_count
            self._is_short = True
            left = f"its reserve has {held_kib} KiB left" if held_kib else "its reserve is used up"
            self._log.error(
                f"{where} is full: only small messages are kept, no scripts, environments and output; {left}", "reserve"
            )
        elif self._is_short and self._is_whole:
            self._is_short = False
            self._log.info(f"{where} has room again")
