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

from stepguard.archive.layout import MANIFEST, SCRIPT, ClusterLayout, RecordName
from stepguard.archive.plain_files import read_manifest, read_plain
from stepguard.records.manifest import MalformedRecord, Manifest

SCRIPT_MAX_BYTES = 64 * 1024 - 1
DAY_OF = ("start", "end")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass
class Exported:
    """How many scripts were written, and how many were there as they are; `unreadable` are files of records that were
    passed over, and why."""

    written: int = 0
    unchanged: int = 0
    unreadable: list[str] = field(default_factory=list)

    def pass_over(self, file: Path, error: Exception) -> None:
        what = error.strerror or str(error) if isinstance(error, OSError) else str(error)
        self.unreadable.append(f"{file}: {what}")


def export(cluster: ClusterLayout, target: Path, day_of: str, not_before: datetime.date | None = None) -> Exported:
    """Exports the redacted script of each batch job, of a requeued one that of its last attempt that day.

    Records of days before `not_before` are left alone. What is there already is written only where it differs. All that
    is made has the group of `target`. Raises OSError when the target is not there or cannot be written to.
    """
    done = Exported()
    chosen: dict[tuple[str, str], tuple[RecordName, Path]] = {}
    for name, path, manifest in _readable(cluster, not_before, done):
        time_s = manifest.start_s if day_of == "start" else manifest.end_s
        if (day := _day(time_s)) is None:
            continue
        place = (day, str(name.key.job_id))
        if place not in chosen or (name.life, name.key.attempt) > (chosen[place][0].life, chosen[place][0].key.attempt):
            chosen[place] = (name, path)
    with _Target(target) as directory:
        for (day, job_id), (_, path) in chosen.items():
            try:
                script = read_plain(path / SCRIPT, SCRIPT_MAX_BYTES)
            except FileNotFoundError:
                continue
            except OSError as error:
                done.pass_over(path / SCRIPT, error)
                continue
            if directory.write(day, f"{job_id}.savescript", script):
                done.written += 1
            else:
                done.unchanged += 1
    return done


def _readable(
    cluster: ClusterLayout, not_before: datetime.date | None, done: Exported
) -> Iterator[tuple[RecordName, Path, Manifest]]:
    for day, directory in cluster.days():
        if not_before is not None and day < not_before:
            continue
        for name, path in cluster.records(directory):
            try:
                manifest = read_manifest(path / MANIFEST)
            except FileNotFoundError:
                continue
            except (OSError, MalformedRecord) as error:
                done.pass_over(path / MANIFEST, error)
                continue
            yield name, path, manifest


def _day(time_s: float | None) -> str | None:
    """YYYYMMDD of a time, in UTC; None without one that a calendar has."""
    if not isinstance(time_s, int | float) or not math.isfinite(time_s) or not 0 <= time_s < 253_402_300_800:
        return None
    return f"{datetime.datetime.fromtimestamp(time_s, datetime.UTC):%Y%m%d}"


class _Target:
    """The directory that is exported to. What is made in it has its group, and its days have its mode besides: the
    ingestion reads them as another user. It may belong to that user, so no link in it is followed."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, _DIRECTORY)
        status = os.fstat(self._descriptor)
        self._group_id, self._mode = status.st_gid, stat.S_IMODE(status.st_mode)

    def __enter__(self) -> _Target:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def write(self, day: str, name: str, content: bytes) -> bool:
        """Writes a file whole or not at all, unless it holds that already and has the group; whether it wrote."""
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
        directory = os.open(day, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self._descriptor)
        status = os.fstat(directory)
        if is_new or (status.st_uid == os.geteuid() and status.st_gid != self._group_id):
            os.fchown(directory, -1, self._group_id)
            os.fchmod(directory, self._mode)
        return directory

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
