# SPDX-License-Identifier: Apache-2.0
"""Records as they lie in the archive: how old they are and what they take, by what only root can have made so.

A record belongs to its owner, who may write anything into its files, touch them and let them grow. So its age is told
by the day that it lies under and by the times of its directories, which change whenever a node writes to it. What its
manifest says of the end counts between these two; of one that cannot be read, the day. No file counts for more bytes
than it can have from us.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stepguard.archive.layout import INDEX, MANIFEST, SCRIPT, ClusterLayout
from stepguard.archive.plain_files import read_manifest
from stepguard.archive.sizes import KEPT_KIB, limit_bytes
from stepguard.records.shape import MalformedRecord

DAY_S = 86400.0
_BLOCK_BYTES = 512  # what st_blocks counts (stat(2))


class SharedFile(NamedTuple):
    """A script that has a name in the store and one in each record of it."""

    inode: int
    names: int
    size_bytes: int


@dataclass(frozen=True)
class Stored:
    """A record as it lies there, of the user `uid`.

    `begin_s` is the beginning of its day. `end_s` is None while it does not say that it has ended. `written_s` is when
    a node wrote to it last, `files` are the names and inodes that it left: each write of a node makes a new one.
    `own_bytes` is what it takes on the disk without its script.
    """

    cluster: ClusterLayout
    path: Path
    uid: int
    begin_s: float
    end_s: float | None
    written_s: float
    files: frozenset[tuple[str, int]]
    own_bytes: int
    script: SharedFile | None

    @property
    def idle_since_s(self) -> float:
        """Since when it has only been kept."""
        return self.written_s if self.end_s is None else self.end_s


def look_at(cluster: ClusterLayout, path: Path, begin_s: float, kept_kib: int = KEPT_KIB) -> Stored | None:
    """A record as it lies there now; None where it is gone."""
    written_s, own_bytes, uid, script = 0.0, 0, 0, None
    files = set()
    try:
        for name, status in _tree(path):
            size_bytes = _disk_bytes(name, status, kept_kib)
            if stat.S_ISDIR(status.st_mode):
                written_s = max(written_s, status.st_mtime)
            else:
                files.add((name, status.st_ino))
                uid = status.st_uid
            if name == SCRIPT and status.st_nlink > 1:
                script = SharedFile(status.st_ino, status.st_nlink, size_bytes)
            else:
                own_bytes += size_bytes
    except FileNotFoundError:
        return None
    end_s = _end_s(path / MANIFEST, begin_s, written_s)
    return Stored(cluster, path, uid, begin_s, end_s, written_s, frozenset(files), own_bytes, script)


def _disk_bytes(name: str, status: os.stat_result, kept_kib: int) -> int:
    size_bytes = status.st_blocks * _BLOCK_BYTES
    return size_bytes if stat.S_ISDIR(status.st_mode) else min(size_bytes, limit_bytes(name, kept_kib))


def _end_s(path: Path, begin_s: float, written_s: float) -> float | None:
    """When the attempt has ended; None when the manifest does not say so, or is not there. Its owner may have spoiled
    it, but makes it end neither before its day nor after a node wrote to it last."""
    try:
        manifest = read_manifest(path)
    except FileNotFoundError:
        return None
    except (OSError, MalformedRecord):
        return min(begin_s + DAY_S, written_s)
    if manifest.state not in ("ended", "lost"):
        return None
    return written_s if manifest.end_s is None else min(max(manifest.end_s, begin_s), written_s)


def cluster_bytes(cluster: ClusterLayout, kept_kib: int) -> int:
    """What a cluster's records and scripts take on the disk, each file once. The index is small, and its directories
    are the users' own: they may hold anything."""
    seen: set[int] = set()
    total = 0
    for entry in sorted(cluster.root.iterdir()):
        for name, status in _tree(entry) if entry.name != INDEX and entry.is_dir() else ():
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                if status.st_ino in seen:
                    continue
                seen.add(status.st_ino)
            total += _disk_bytes(name, status, kept_kib)
    return total


def _tree(path: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Name and status of a directory and of all in it, less what goes meanwhile. Raises FileNotFoundError without it.
    Only root makes directories in there, so it is not deep."""
    yield path.name, path.lstat()
    with os.scandir(path) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _tree(Path(entry.path))
                else:
                    yield entry.name, entry.stat(follow_symlinks=False)
