# SPDX-License-Identifier: Apache-2.0
"""Finding the records of a job, with the rights of whoever asks.

The index says where they lie. What it does not know (the job's first node died before it could tell) is looked for day
by day: whoever may list the days sees all that is there, others try the names that it would have.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from stepguard.archive import local_cluster
from stepguard.archive.index_lines import Entry
from stepguard.archive.index_reading import look_up
from stepguard.archive.layout import MANIFEST, NODES, ClusterLayout, RecordName, clusters
from stepguard.archive.reading_record import Record
from stepguard.errors import StepguardError, UsageError
from stepguard.records import job_ids
from stepguard.records.job_ids import JobId
from stepguard.records.spool import AttemptKey

_PATH = re.compile(r"([0-9]{4})/([0-9]{2})/([0-9]{2})/([^/]+)", re.ASCII)
_DAYS_BACK = 400
# How many attempts are tried by their names where the days cannot be listed.
_TRIED_ATTEMPTS = 8
_ONE_DAY = datetime.timedelta(days=1)


class NoRecord(StepguardError):
    """There is no record of such a job that the caller may read."""


def find(archive: Path, job_id: str, attempt: int | None = None, cluster: str = "") -> list[Record]:
    """The records of a job, by part of the array or het job and then by attempt; all attempts unless one is named.

    `cluster` names the only one that is looked into. Raises UsageError for what is no job id and where two clusters
    have such a job, NoRecord, which says where it was looked for and what the likely reasons are.
    """
    job = job_ids.parse(job_id)
    found: dict[str, list[Record]] = {}
    unread = ""
    layouts = layouts_of(archive, cluster)
    for layout in layouts:
        records = _of_its_owner(layout, job, _from_index(layout, look_up(layout, job)))
        if not records and not job.array_task and not job.het_offset:
            records, why = _from_days(layout, int(job.number))
            unread = unread or why
        _note_later(records)
        if attempt is not None:
            records = [record for record in records if record.attempt == attempt]
        if records:
            found[layout.root.name] = records
    if len(found) > 1:
        raise UsageError(f"job {job_id} is in several clusters", ", ".join(found), "name one with --cluster")
    for records in found.values():
        return sorted(records, key=_order)
    what = f"no record of job {job_id}" + (f", attempt {attempt}" if attempt is not None else "")
    where = ", ".join(str(layout.root) for layout in layouts) or str(archive)
    raise NoRecord(what, where, unread or _UNKNOWN)


_CONFIGURED = "[archive] dir in the configuration says where it is"
_HIDDEN = "there is one, but it is another user's"
_UNFINISHED = "there is one, but it is being written: try again in a moment (or its first node was lost meanwhile)"
_UNKNOWN = (
    "its node may not have written it yet, it may be another user's, have been pruned, or be older than the archive"
)


def layouts_of(archive: Path, cluster: str = "") -> list[ClusterLayout]:
    """The clusters of an archive that are to be looked into. Raises StepguardError when there is none to be seen.

    Who may not list the archive sees the cluster that they are on.
    """
    try:
        if not archive.is_dir():
            raise StepguardError("no archive here", str(archive), _CONFIGURED)
        found = [] if cluster else clusters(archive)
    except PermissionError as error:
        if not os.access(archive, os.X_OK):
            raise StepguardError("the archive cannot be entered", str(archive), "it must be open to all") from error
        found = []
        cluster = os.environ.get("SLURM_CLUSTER_NAME") or local_cluster.name()
    if cluster:
        try:
            layout = ClusterLayout.of(archive, cluster)
        except ValueError as error:
            raise UsageError("not the name of a cluster", repr(cluster), "name one as Slurm does") from error
        found = [layout] if layout.root.is_dir() else []
    if not found:
        what = f"no records of cluster {cluster}" if cluster else "no records"
        raise StepguardError(what, str(archive), f"none may have been kept yet; {_CONFIGURED}")
    return found


def _from_index(layout: ClusterLayout, entries: Iterable[Entry]) -> list[Record]:
    records = []
    for entry in entries:
        match = _PATH.fullmatch(entry.path)
        name = RecordName.parse(match[4]) if match else None
        if match is None or name is None:
            continue
        try:
            day = datetime.date(int(match[1]), int(match[2]), int(match[3]))
        except ValueError:
            continue
        around = [layout.record(one, name) for one in (day, day - _ONE_DAY, day + _ONE_DAY)]
        directories = [path for path in around if path.is_dir()]
        if directories and _owner(directories) in (entry.uid, None):  # what is in the index is its user's word
            records.append(Record(layout.root.name, name, directories, entry))
    return records


def _of_its_owner(layout: ClusterLayout, job: JobId, records: list[Record]) -> list[Record]:
    """Less those of other users than the owner of the job with that number: who may write to a record can make it call
    itself a part of any job. A number that is another job's by now has several owners."""
    number = int(job.number)
    named = records
    if records and (job.array_task or job.het_offset):
        named = _from_index(layout, look_up(layout, JobId(job.number)))
    owners = {_owner(record.directories) for record in named if record.name.key.job_id == number}
    return [record for record in records if not owners or _owner(record.directories) in owners]


def _owner(directories: Iterable[Path]) -> int | None:
    """Whom a record's files belong to, which root alone can say; None where none is there yet that can be seen."""
    for directory in directories:
        with contextlib.suppress(OSError):
            return (directory / MANIFEST).lstat().st_uid
    for directory in directories:
        with contextlib.suppress(OSError):
            for part in (directory / NODES).iterdir():
                return part.lstat().st_uid
    return None


def _from_days(layout: ClusterLayout, number: int) -> tuple[list[Record], str]:
    """Records of a job that the index does not know, and why there are some that the caller cannot read, if so."""
    attempts: list[tuple[RecordName, datetime.date, list[Path]]] = []
    unread = ""
    for day, directory in _days(layout):
        for name, path in _named(layout, directory, number):
            if why := _unread(path):
                unread = why
            elif same := [one for one in attempts if one[0] == name and abs(one[1] - day) <= _ONE_DAY]:
                same[0][2].append(path)
            else:
                attempts.append((name, day, [path]))
    return [Record(layout.root.name, name, paths, None) for name, _, paths in attempts], unread


def _days(layout: ClusterLayout) -> Iterator[tuple[datetime.date, Path]]:
    """The latest days that have records."""
    try:
        yield from islice(layout.days(), _DAYS_BACK)
    except PermissionError:
        latest = datetime.datetime.now(datetime.UTC).date() + _ONE_DAY
        for back in range(_DAYS_BACK):
            directory = layout.day(day := latest - back * _ONE_DAY)
            if directory.is_dir():
                yield day, directory


def _named(layout: ClusterLayout, day: Path, number: int) -> Sequence[tuple[RecordName, Path]]:
    try:
        return [(name, path) for name, path in layout.records(day) if name.key.job_id == number]
    except PermissionError:
        names = [RecordName(AttemptKey(number, attempt)) for attempt in range(_TRIED_ATTEMPTS)]
        return [(name, path) for name in names if (path := day / str(name)).is_dir()]


def _note_later(records: Sequence[Record]) -> None:
    last: dict[tuple[int, int], int] = {}
    for record in records:
        job = (record.name.key.job_id, record.name.life)
        last[job] = max(last.get(job, 0), record.attempt)
    for record in records:
        record.has_later = record.attempt < last[(record.name.key.job_id, record.name.life)]


def _unread(record: Path) -> str:
    """Why the caller cannot read it, "" if they can. The manifest is written last, and is its owner's: until it is
    there, nothing tells users whose record that is, and root alone sees what nodes have told."""
    manifest = record / MANIFEST
    if manifest.exists():
        return "" if os.access(manifest, os.R_OK, effective_ids=True) else _HIDDEN
    try:
        return "" if any((record / NODES).iterdir()) else _UNFINISHED
    except (FileNotFoundError, PermissionError):
        return _UNFINISHED


def _order(record: Record) -> tuple[int, int, int, float]:
    part = re.split("[_+]", record.printed_id)
    number = int(part[1]) if len(part) == 2 and part[1].isascii() and part[1].isdigit() else -1
    return number, record.attempt, record.name.life, record.start_s or 0.0
