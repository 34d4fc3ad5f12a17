# SPDX-License-Identifier: Apache-2.0
"""Job scripts in the layout that XDMoD's job viewer takes in: TARGET/YYYYMMDD/JOBID.savescript.

ingest_jobscripts.py of ubccr/supremm (2026-04) reads at most 64 KiB - 1 of a script, takes the number before
`.savescript` for Slurm's own job id (an array's task has one of its own, JobIDRaw), and looks for a job that has begun
or ended, as `timestamp_mode` of the resource says, at most a day off that date. A resource is a cluster.
"""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stepguard.archive.layout import MANIFEST, SCRIPT, ClusterLayout, RecordName
from stepguard.archive.plain_files import read_manifest, read_plain
from stepguard.records.manifest import MalformedRecord, Manifest

SCRIPT_MAX_BYTES = 64 * 1024 - 1
DAY_OF = ("start", "end")


@dataclass
class Exported:
    """How many scripts were written, and how many were there as they are; `unreadable` are records passed over."""

    written: int = 0
    unchanged: int = 0
    unreadable: int = 0


def export(cluster: ClusterLayout, target: Path, day_of: str, not_before: datetime.date | None = None) -> Exported:
    """Exports the redacted script of each batch job, of a requeued one that of its last attempt that day.

    Records of days before `not_before` are left alone. What is there already is written only where it differs. Raises
    OSError when the target cannot be written to.
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
    for (day, job_id), (_, path) in chosen.items():
        try:
            script = read_plain(path / SCRIPT, SCRIPT_MAX_BYTES)
        except FileNotFoundError:
            continue
        except OSError:
            done.unreadable += 1
            continue
        if _write(target / day, f"{job_id}.savescript", script):
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
            except (OSError, MalformedRecord):
                done.unreadable += 1
                continue
            yield name, path, manifest


def _day(time_s: float | None) -> str | None:
    """YYYYMMDD of a time, in UTC; None without one that a calendar has."""
    if not isinstance(time_s, int | float) or not math.isfinite(time_s) or not 0 <= time_s < 253_402_300_800:
        return None
    return f"{datetime.datetime.fromtimestamp(time_s, datetime.UTC):%Y%m%d}"


def _write(directory: Path, name: str, content: bytes) -> bool:
    """Writes a file whole or not at all, unless it holds that already; whether it wrote."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    try:
        if path.read_bytes() == content:
            return False
    except FileNotFoundError:
        pass
    new = directory / f".{name}.{os.getpid()}.new"
    new.unlink(missing_ok=True)
    # The ingestion reads them as another user, who may be in a group with this right; nobody else.
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    new.rename(path)
    return True
