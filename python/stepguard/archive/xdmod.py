# SPDX-License-Identifier: Apache-2.0
"""Job scripts in the layout that XDMoD's job viewer takes in: TARGET/YYYYMMDD/JOBID.savescript.

ingest_jobscripts.py of ubccr/supremm (2026-04) reads at most 64 KiB - 1 of a script, takes the number before
`.savescript` for Slurm's own job id (an array's task has one of its own, JobIDRaw), and looks for a job that has begun
or ended, as `timestamp_mode` of the resource says, at most a day off that date. A resource is a cluster.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import math
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from stepguard.archive.layout import MANIFEST, SCRIPT, ClusterLayout, RecordName, day_of
from stepguard.archive.plain_files import read_manifest, read_plain
from stepguard.records.manifest import Manifest
from stepguard.records.shape import MalformedRecord

SCRIPT_MAX_BYTES = 64 * 1024 - 1
DAY_OF = ("start", "end")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Exported:
    """How many scripts were written, and how many were there as they are; `unreadable` are files of records that were
    passed over, and why; `refused` days of the target, why nothing was written into them, and what to do."""

    written: int = 0
    unchanged: int = 0
    unreadable: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def pass_over(self, file: Path, error: Exception) -> None:
        what = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        self.unreadable.append(f"{file}: {what}")


class _Refused(Exception):
    """A day of the target that nothing is written into; says why, and what to do."""


def export(cluster: ClusterLayout, target: Path, timestamp: str, not_before_s: float | None = None) -> Exported:
    """Exports the redacted script of each batch job, of a requeued one that of its last attempt that day.

    Attempts that began before `not_before_s` are left alone. What is there already is written only where it differs.
    All that is made has the group of `target`. Raises OSError when the target is not there or cannot be written to.
    """
    done = Exported()
    chosen: dict[tuple[str, str], tuple[RecordName, Path]] = {}
    for name, path, manifest in _readable(cluster, not_before_s, done):
        time_s = manifest.start_s if timestamp == "start" else manifest.end_s
        if (day := _day(time_s)) is None:
            continue
        place = (day, str(name.key.job_id))
        if place not in chosen or (name.life, name.key.attempt) > (chosen[place][0].life, chosen[place][0].key.attempt):
            chosen[place] = (name, path)
    refused: dict[str, str] = {}
    with _Target(target) as directory:
        for (day, job_id), (_, path) in chosen.items():
            try:
                script = read_plain(path / SCRIPT, SCRIPT_MAX_BYTES)
            except FileNotFoundError:
                continue
            except OSError as error:
                done.pass_over(path / SCRIPT, error)
                continue
            try:
                is_new = directory.write(day, f"{job_id}.savescript", script)
            except _Refused as error:
                refused[day] = str(error)
                continue
            done.written += is_new
            done.unchanged += not is_new
    done.refused = list(refused.values())
    return done


def _readable(
    cluster: ClusterLayout, not_before_s: float | None, done: Exported
) -> Iterator[tuple[RecordName, Path, Manifest]]:
    first_day = datetime.date.min if not_before_s is None else day_of(not_before_s)
    for day, directory in cluster.days():
        if day < first_day:
            continue
        for name, path in cluster.records(directory):
            try:
                manifest = read_manifest(path / MANIFEST)
            except FileNotFoundError:
                continue
            except (OSError, MalformedRecord) as error:
                done.pass_over(path / MANIFEST, error)
                continue
            # Of one that does not tell when it began, its day counts.
            if not_before_s is None or manifest.start_s is None or manifest.start_s >= not_before_s:
                yield name, path, manifest


def _day(time_s: float | None) -> str | None:
    """YYYYMMDD of a time, in UTC; None without one that a calendar has."""
    if not isinstance(time_s, int | float) or not math.isfinite(time_s) or not 0 <= time_s < 253_402_300_800:
        return None
    return f"{datetime.datetime.fromtimestamp(time_s, datetime.UTC):%Y%m%d}"


class _Target:
    """The directory that is exported to. What is made in it has its group, and its days have its mode besides: the
    ingestion reads them as another user. It may belong to that user, so no link in it is followed; and a day that
    belongs to somebody else is not written into."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, _DIRECTORY)
        status = os.fstat(self._descriptor)
        self._owners = (os.geteuid(), status.st_uid)
        self._group_id, self._mode = status.st_gid, stat.S_IMODE(status.st_mode)

    def __enter__(self) -> _Target:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def write(self, day: str, name: str, content: bytes) -> bool:
        """Writes a file whole or not at all, unless it holds that already and has the group; whether it wrote. Raises
        _Refused."""
        directory = self._day(day)
        try:
            if self._holds(directory, name, content):
                return False
            new = f".{name}.{os.getpid()}.new"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new, dir_fd=directory)
            descriptor = os.open(new, _NEW, 0o600, dir_fd=directory)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchown(descriptor, -1, self._group_id)
                os.fchmod(descriptor, 0o640)
            os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            os.close(directory)
        return True

    def _day(self, day: str) -> int:
        try:
            os.mkdir(day, 0o700, dir_fd=self._descriptor)
        except FileExistsError:
            is_new = False
        else:
            is_new = True
        try:
            directory = os.open(day, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise self._refused(day, "a link, or no directory") from error
            raise
        status = os.fstat(directory)
        if status.st_uid not in self._owners:
            os.close(directory)
            raise self._refused(day, f"it belongs to uid {status.st_uid}")
        if is_new or (status.st_uid == os.geteuid() and status.st_gid != self._group_id):
            os.fchown(directory, -1, self._group_id)
            os.fchmod(directory, self._mode)
        return directory

    def _refused(self, day: str, why: str) -> _Refused:
        return _Refused(f"{self._path / day}: {why}: remove it, and the next export makes it anew")

    def _holds(self, directory: int, name: str, content: bytes) -> bool:
        try:
            descriptor = os.open(name, _READ, dir_fd=directory)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
                raise
            return False
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_gid != self._group_id:
                return False
            return file.read(len(content) + 1) == content
