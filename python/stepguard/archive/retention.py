# SPDX-License-Identifier: Apache-2.0
"""Which records have become too old or too many, and their deletion beside nodes that write.

Only an attempt that has ended goes, and none that a node wrote to within the last hour. One that does not say that it
has ended has, once no node has written to it for seven days, or for `abandoned_s`: the record of a job that runs is
written every half an hour (due), and comes again with the next news where it was deleted.

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
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from stepguard.archive.index_rebuild import forget
from stepguard.archive.layout import ClusterLayout, clusters
from stepguard.archive.ownership import OWNER_ONLY, Ownership
from stepguard.archive.sizes import KEPT_KIB
from stepguard.archive.stored import DAY_S, Stored, cluster_bytes, look_at

FRESH_S = 3600.0
# A node that is down, or whose agent is, says nothing of a job that may run: for so long it is not taken for gone.
ABANDONED_MIN_S = 7 * 86400.0
FRESH, UNFINISHED, CHANGED = "fresh", "unfinished", "changed"
_PRUNED = "pruned"


@dataclass(frozen=True)
class Rules:
    """How long after their end records stay, and how large the archive may be; None for no such bound. `abandoned_s` is
    for those that never ended, `kept_kib` how much is kept of outputs."""

    keep_s: float | None = None
    max_bytes: int | None = None
    abandoned_s: float | None = None
    kept_kib: int = KEPT_KIB

    def silence_s(self, too_many: bool) -> float:
        """After how long without a word of any node an attempt that never ended is taken for ended."""
        if self.abandoned_s is not None and not too_many:
            return self.abandoned_s
        return ABANDONED_MIN_S if too_many else max(self.keep_s or 0.0, ABANDONED_MIN_S)


class Spared(NamedTuple):
    """A record that would have to go, and why it does not: one of the words above."""

    record: Stored
    why: str


@dataclass
class Plan:
    """What is to go, the oldest first, what is spared, and how much there is. Sizes are what files take on the disk."""

    doomed: list[Stored] = field(default_factory=list)
    spared: list[Spared] = field(default_factory=list)
    records: int = 0
    total_bytes: int = 0
    freed_bytes: int = 0


@dataclass
class Outcome:
    """What became of a plan: records deleted, records spared for somebody wrote to them, scripts deleted."""

    deleted: list[Stored] = field(default_factory=list)
    spared: list[Spared] = field(default_factory=list)
    scripts: int = 0


def plan(archive: Path, rules: Rules, now_s: float) -> Plan:
    """What these rules say. Raises OSError when the archive cannot be read."""
    found = Plan()
    records = [record for cluster in clusters(archive) for record in _records_of(cluster, rules, now_s)]
    found.records = len(records)
    if rules.max_bytes is not None:
        found.total_bytes = sum(cluster_bytes(cluster, rules.kept_kib) for cluster in clusters(archive))
    names_gone: Counter[int] = Counter()
    for record in sorted(records, key=lambda record: record.idle_since_s):
        too_many = rules.max_bytes is not None and found.total_bytes - found.freed_bytes > rules.max_bytes
        if not (too_many or _is_too_old(record, rules, now_s)):
            continue
        if why := _spared(record, rules.silence_s(too_many), now_s):
            found.spared.append(Spared(record, why))
            continue
        found.doomed.append(record)
        found.freed_bytes += record.own_bytes
        if record.script is not None:
            names_gone[record.script.inode] += 1
            # One name is the store's.
            if names_gone[record.script.inode] == record.script.names - 1:
                found.freed_bytes += record.script.size_bytes
    return found


def _is_too_old(record: Stored, rules: Rules, now_s: float) -> bool:
    if record.end_s is None and rules.abandoned_s is not None and record.written_s < now_s - rules.abandoned_s:
        return True
    since_s = record.begin_s if record.end_s is None else record.end_s
    return rules.keep_s is not None and since_s < now_s - rules.keep_s


def _spared(record: Stored, silence_s: float, now_s: float) -> str:
    """Why a record stays though it would have to go; "" where it does not."""
    if record.end_s is None and record.written_s > now_s - silence_s:
        return UNFINISHED
    return FRESH if record.written_s > now_s - FRESH_S else ""


def carry_out(chosen: Plan, archive: Path, now_s: float, owners: Ownership = OWNER_ONLY) -> Outcome:
    """Deletes what the plan says, takes it out of the index, and deletes scripts that no record has. Raises OSError
    when the archive cannot be changed."""
    done = Outcome()
    for record in chosen.doomed:
        if _delete(record):
            done.deleted.append(record)
        else:
            done.spared.append(Spared(record, CHANGED))
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


def _records_of(cluster: ClusterLayout, rules: Rules, now_s: float) -> Iterator[Stored]:
    """Its records; not those of days that the rules cannot reach yet."""
    ages_s = [age_s for age_s in (rules.keep_s, rules.abandoned_s) if age_s is not None]
    youngest_s = math.inf if rules.max_bytes is not None else now_s - min(ages_s, default=math.inf)
    for day, directory in cluster.days():
        begin_s = datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp()
        # An attempt ends after it has begun; a day of tolerance, for the day was made by the node's clock.
        if begin_s - DAY_S > youngest_s:
            continue
        for _, path in cluster.records(directory):
            if (record := look_at(cluster, path, begin_s, rules.kept_kib)) is not None:
                yield record


def _delete(record: Stored) -> bool:
    """Deletes a record unless it has changed since it was chosen; whether it did."""
    before = look_at(record.cluster, record.path, record.begin_s)
    if before is None or before.written_s != record.written_s:
        return False
    pruned = record.cluster.root / _PRUNED
    pruned.mkdir(mode=0o700, exist_ok=True)
    aside = pruned / f"{'-'.join(record.path.parts[-4:])}.{os.getpid()}"
    try:
        record.path.rename(aside)
    except FileNotFoundError:
        return False
    now = look_at(record.cluster, aside, record.begin_s)
    # The directories' times do not count any more: some file systems change that of one that is renamed.
    if now is not None and now.files != before.files:
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
                # Its owner can set the other time.
                if status.st_nlink == 1 and status.st_ctime < now_s - FRESH_S:
                    script.unlink()
                    deleted += 1
    return deleted


def _children(directory: Path) -> list[Path]:
    """What a directory holds; nothing where it is not there."""
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
