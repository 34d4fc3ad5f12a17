# SPDX-License-Identifier: Apache-2.0
"""Which records have become too old or too many, and their deletion beside nodes that write.

Only an attempt that has ended goes, and none that anybody wrote to within the last hour. One that never says that it
has ended (its node never came back) stays, unless `abandoned_s` says for how long nobody must have written to it. The
record of a job that runs is written every half an hour (due), and comes again with the next news where it was deleted.

What makes deletion safe beside writers, on NFS too, without a lock:
- A record is first renamed to CLUSTER/pruned/, looked at again there, and put back when something in it has changed
  since it was chosen. Only then it is deleted. Who comes to write to it finds no record, and makes one. Who has it open
  and writes into it at that very instant, months after its end, loses what would have gone a moment later.
- A script of the store goes when no record links to it, and only an hour after it was written: its writer links it at
  once. Who links to one this very moment has the file itself, whatever becomes of its name in the store; or is told
  that there is none, and stores it again.
- What an interrupted run left in CLUSTER/pruned/ is deleted by the next.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import shutil
import stat
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stepguard.archive.index_rebuild import forget
from stepguard.archive.layout import INDEX, MANIFEST, SCRIPT, ClusterLayout, clusters
from stepguard.archive.ownership import OWNER_ONLY, Ownership
from stepguard.archive.plain_files import read_manifest
from stepguard.records.manifest import MalformedRecord

FRESH_S = 3600.0
# A node that is down, or whose agent is, says nothing of a job that may run: for so long it is not taken for gone.
ABANDONED_MIN_S = 7 * 86400.0
_DAY_S = 86400.0
_BLOCK_BYTES = 512  # what st_blocks counts (stat(2))
_PRUNED = "pruned"


@dataclass(frozen=True)
class Rules:
    """How long after their end records stay, and how large the archive may be; None for no such bound."""

    keep_s: float | None = None
    max_bytes: int | None = None
    abandoned_s: float | None = None


class SharedFile(NamedTuple):
    """A script that has a name in the store and one in each record of it."""

    inode: int
    names: int
    size_bytes: int


@dataclass(frozen=True)
class Stored:
    """A record as it lies there, of the user `uid`.

    `end_s` is None while it does not say that it has ended; `changed_s` is when anything in it was written last,
    `file_changed_s` when a file was; `own_bytes` what it takes on the disk without its script.
    """

    cluster: ClusterLayout
    path: Path
    uid: int
    end_s: float | None
    changed_s: float
    file_changed_s: float
    own_bytes: int
    script: SharedFile | None

    @property
    def idle_since_s(self) -> float:
        """Since when it has only been kept."""
        return self.changed_s if self.end_s is None else self.end_s


@dataclass
class Plan:
    """What is to go, the oldest first, and how much there is. Sizes are what files take on the disk."""

    doomed: list[Stored] = field(default_factory=list)
    records: int = 0
    unfinished: int = 0
    total_bytes: int = 0
    freed_bytes: int = 0


@dataclass
class Outcome:
    """What became of a plan: records deleted, records spared for somebody wrote to them, scripts deleted."""

    deleted: list[Stored] = field(default_factory=list)
    spared: list[Stored] = field(default_factory=list)
    scripts: int = 0


def plan(archive: Path, rules: Rules, now_s: float) -> Plan:
    """What these rules say. Raises OSError when the archive cannot be read."""
    found = Plan()
    records = [record for cluster in clusters(archive) for record in _records_of(cluster, rules, now_s)]
    found.records = len(records)
    found.unfinished = sum(record.end_s is None for record in records)
    if rules.max_bytes is not None:
        found.total_bytes = sum(_tree_bytes(cluster) for cluster in clusters(archive))
    names_gone: Counter[int] = Counter()
    for record in sorted(records, key=lambda record: record.idle_since_s):
        bound_s = rules.abandoned_s if record.end_s is None else rules.keep_s
        too_old = bound_s is not None and record.idle_since_s < now_s - bound_s
        too_many = rules.max_bytes is not None and found.total_bytes - found.freed_bytes > rules.max_bytes
        fresh = max(record.changed_s, record.idle_since_s) > now_s - FRESH_S
        if fresh or not (too_old or (too_many and record.end_s is not None)):
            continue
        found.doomed.append(record)
        found.freed_bytes += record.own_bytes
        if record.script is not None:
            names_gone[record.script.inode] += 1
            # One name is the store's.
            if names_gone[record.script.inode] == record.script.names - 1:
                found.freed_bytes += record.script.size_bytes
    return found


def carry_out(chosen: Plan, archive: Path, now_s: float, owners: Ownership = OWNER_ONLY) -> Outcome:
    """Deletes what the plan says, takes it out of the index, and deletes scripts that no record has. Raises OSError
    when the archive cannot be changed."""
    done = Outcome()
    for record in chosen.doomed:
        (done.deleted if _delete(record) else done.spared).append(record)
    for cluster in clusters(archive):
        gone: dict[int, list[str]] = {}
        for record in done.deleted:
            if record.cluster == cluster:
                gone.setdefault(record.uid, []).append(str(record.path.relative_to(cluster.root)))
        forget(cluster.root, gone, owners)
        for left_over in _children(cluster.root / _PRUNED):
            shutil.rmtree(left_over, ignore_errors=True)
        done.scripts += _delete_scripts(cluster, now_s)
    return done


def look_at(cluster: ClusterLayout, path: Path) -> Stored | None:
    """A record as it lies there now; None where it is gone."""
    changed_s, file_changed_s, own_bytes, uid, script = 0.0, 0.0, 0, 0, None
    try:
        for name, status in _tree(path):
            changed_s = max(changed_s, status.st_mtime)
            size_bytes = status.st_blocks * _BLOCK_BYTES
            if not stat.S_ISDIR(status.st_mode):
                file_changed_s, uid = max(file_changed_s, status.st_mtime), status.st_uid
            if name == SCRIPT and status.st_nlink > 1:
                script = SharedFile(status.st_ino, status.st_nlink, size_bytes)
            else:
                own_bytes += size_bytes
    except FileNotFoundError:
        return None
    end_s = _end_s(path / MANIFEST, changed_s)
    return Stored(cluster, path, uid, end_s, changed_s, file_changed_s, own_bytes, script)


def _records_of(cluster: ClusterLayout, rules: Rules, now_s: float) -> Iterator[Stored]:
    """Its records; not those of days that the rules cannot reach yet."""
    ages_s = [age_s for age_s in (rules.keep_s, rules.abandoned_s) if age_s is not None]
    youngest_s = math.inf if rules.max_bytes is not None else now_s - min(ages_s, default=math.inf)
    for day, directory in cluster.days():
        begin_s = datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp()
        # An attempt ends after it has begun; a day of tolerance, for the day was made by the node's clock.
        if begin_s - _DAY_S > youngest_s:
            continue
        for _, path in cluster.records(directory):
            if (record := look_at(cluster, path)) is not None:
                yield record


def _end_s(path: Path, changed_s: float) -> float | None:
    """When the attempt has ended; None when the manifest does not say so, or is not there."""
    try:
        manifest = read_manifest(path)
    except (FileNotFoundError, MalformedRecord):
        return None
    if manifest.state not in ("ended", "lost"):
        return None
    known = isinstance(manifest.end_s, int | float) and math.isfinite(manifest.end_s)
    return float(manifest.end_s or 0) if known else changed_s


def _delete(record: Stored) -> bool:
    """Deletes a record unless it has changed since it was chosen; whether it did."""
    pruned = record.cluster.root / _PRUNED
    pruned.mkdir(mode=0o700, exist_ok=True)
    aside = pruned / f"{'-'.join(record.path.parts[-4:])}.{os.getpid()}"
    try:
        record.path.rename(aside)
    except FileNotFoundError:
        return False
    now = look_at(record.cluster, aside)
    # Of directories the time does not count: some file systems change that of one that is renamed.
    if now is not None and now.file_changed_s != record.file_changed_s:
        # Where its writer has made it again meanwhile, both cannot be kept: what it has written now is newer.
        with contextlib.suppress(OSError):
            aside.rename(record.path)
            return False
    shutil.rmtree(aside, ignore_errors=True)
    for directory in record.path.parents[:3]:
        try:
            directory.rmdir()
        except OSError:  # not empty, or somebody else's deed
            break
    return True


def _delete_scripts(cluster: ClusterLayout, now_s: float) -> int:
    """Deletes the scripts that no record links to; how many."""
    deleted = 0
    for user in _children(cluster.scripts):
        for script in _children(user):
            with contextlib.suppress(FileNotFoundError):
                status = script.lstat()
                if status.st_nlink == 1 and status.st_mtime < now_s - FRESH_S:
                    script.unlink()
                    deleted += 1
    return deleted


def _tree_bytes(cluster: ClusterLayout) -> int:
    """What a cluster's records and scripts take on the disk, each file once. The index is small, and its directories
    are the users' own: they may hold anything."""
    seen: set[int] = set()
    total = 0
    for entry in _children(cluster.root):
        for _, status in _tree(entry) if entry.name != INDEX and entry.is_dir() else ():
            if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
                if status.st_ino in seen:
                    continue
                seen.add(status.st_ino)
            total += status.st_blocks * _BLOCK_BYTES
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


def _children(directory: Path) -> list[Path]:
    """What a directory holds; nothing where it is not there."""
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
