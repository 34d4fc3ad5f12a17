# SPDX-License-Identifier: Apache-2.0
"""Where things lie in the archive. Only numbers, checked names and days ever become a path.

DIR/CLUSTER/YYYY/MM/DD/JOBID.ATTEMPT/   one record; manifest.json script env.json stdout.zst stderr.zst resumes.jsonl
                                        findings.jsonl nodes/NODE.json
DIR/CLUSTER/scripts/UID/SHA256          each script once a user, hard-linked into the records
DIR/CLUSTER/index/                      can be built again from the records
DIR/CLUSTER/health/NODE.json            what a node that had trouble tells of its health (records/node_state.py)

The day is the UTC day of the attempt's start. JOBID.ATTEMPT~2 is another job of that number, from another life of the
cluster: job ids begin anew when slurmctld has lost its state.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stepguard.records.spool import AttemptKey

MANIFEST = "manifest.json"
SCRIPT = "script"
ENVIRONMENT = "env.json"
STDOUT = "stdout.zst"
STDERR = "stderr.zst"
RESUMES = "resumes.jsonl"
FINDINGS = "findings.jsonl"
NODES = "nodes"
SCRIPTS = "scripts"
INDEX = "index"
HEALTH = "health"

_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}", re.ASCII)
_RECORD = re.compile(r"([0-9]{1,10}\.[0-9]{1,10})(?:~([0-9]{1,4}))?", re.ASCII)


def is_safe_name(text: str) -> bool:
    """Whether a cluster's or a node's name may become part of a path."""
    return bool(_SAFE.fullmatch(text))


class RecordName(NamedTuple):
    """The name of a record's directory. `life` counts the jobs that have had this number on one day, from 1."""

    key: AttemptKey
    life: int = 1

    def __str__(self) -> str:
        return str(self.key) if self.life == 1 else f"{self.key}~{self.life}"

    @classmethod
    def parse(cls, name: str) -> RecordName | None:
        """None where that is another name."""
        match = _RECORD.fullmatch(name)
        key = AttemptKey.parse(match[1]) if match else None
        return cls(key, int(match[2] or 1)) if match and key else None


def day_of(time_s: float) -> datetime.date:
    """The UTC day of a time; of one that no calendar has, 1970-01-01."""
    try:
        return datetime.datetime.fromtimestamp(time_s, datetime.UTC).date()
    except (OverflowError, OSError, ValueError):
        return datetime.date(1970, 1, 1)


@dataclass(frozen=True)
class ClusterLayout:
    """The paths of one cluster in the archive."""

    root: Path

    @classmethod
    def of(cls, archive: Path, cluster: str) -> ClusterLayout:
        """Raises ValueError for a name that may not become part of a path."""
        if not is_safe_name(cluster):
            raise ValueError(f"not the name of a cluster: {cluster!r}")
        return cls(archive / cluster)

    @property
    def index(self) -> Path:
        return self.root / INDEX

    @property
    def health(self) -> Path:
        return self.root / HEALTH

    @property
    def scripts(self) -> Path:
        return self.root / SCRIPTS

    def day(self, day: datetime.date) -> Path:
        return self.root / f"{day.year:04}" / f"{day.month:02}" / f"{day.day:02}"

    def record(self, day: datetime.date, name: RecordName) -> Path:
        return self.day(day) / str(name)

    def days(self) -> Iterator[tuple[datetime.date, Path]]:
        """All days that have a directory, the latest first."""
        for year in _numbered(self.root, 4):
            for month in _numbered(year, 2):
                for day in _numbered(month, 2):
                    try:
                        date = datetime.date(int(year.name), int(month.name), int(day.name))
                    except ValueError:
                        continue
                    yield date, day

    def records(self, day: Path) -> list[tuple[RecordName, Path]]:
        """The records in a day's directory, in order."""
        found = [(name, path) for path in _entries(day) if (name := RecordName.parse(path.name)) is not None]
        return sorted(found)


def clusters(archive: Path) -> list[ClusterLayout]:
    """The clusters that have records in an archive."""
    found = [path for path in _entries(archive) if is_safe_name(path.name) and path.is_dir() and not path.is_symlink()]
    return [ClusterLayout(path) for path in sorted(found)]


def _numbered(directory: Path, digits: int) -> list[Path]:
    named = [path for path in _entries(directory) if re.fullmatch(f"[0-9]{{{digits}}}", path.name)]
    return sorted(named, reverse=True)


def _entries(directory: Path) -> list[Path]:
    """What a directory holds; nothing where it is gone."""
    try:
        return list(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
