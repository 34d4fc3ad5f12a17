# SPDX-License-Identifier: Apache-2.0
"""A node's spool: where things lie, and how they get there so that a power cut loses nothing that was acknowledged.

SPOOL/lock                         held by the agent: one a node
SPOOL/notes/NAME.note              messages that C left without an agent
SPOOL/jobs/JOBID.ATTEMPT/SEQ.KIND  messages in the order of their arrival
SPOOL/jobs/JOBID.ATTEMPT/NAME.raw  what was read of an output, not redacted, with NAME.meta, what it was
SPOOL/jobs/JOBID.ATTEMPT/complete  nothing will be added: the archiver may delete the directory when it is done
SPOOL/archiver.json                what the archiver says of itself
SPOOL/health.json                  what the agent knows of the node's health, and how far it has read the kernel's log
SPOOL/node.json                    what the agent tells of the node to the cluster (node_state); none without trouble
SPOOL/probes                       what probes remember from one look to the next
SPOOL/checks                       the same of `stepguard health check`
SPOOL/reserve                      room that the agent holds for small messages

NAME is stdout, stderr or resumes. NAME.meta is a JSON object: `source`, the path; `what` and `why`, as in the
manifest's KeptFile; and where it was looked at, as hooks/read_as.c says it, errno, size_bytes, dev, ino, nlink,
mtime_ns, head_bytes, tail_bytes. NAME.raw is the head and then the tail, nothing else; none where nothing was kept.

A message may come late, when its attempt is complete or gone already. The agent then adds it, makes the directory anew
where it is gone, and marks it complete again. So the archiver deletes only what it has listed (`forget`), and merges
what it finds of an attempt into the record that there is.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_KEY = re.compile(r"([0-9]{1,10})\.([0-9]{1,10})", re.ASCII)
_MESSAGE = re.compile(r"([0-9]{6,12})\.([a-z][a-z_]{0,31})", re.ASCII)
COMPLETE = "complete"


class AttemptKey(NamedTuple):
    """Which attempt of which job: the raw job id, and how often it had been requeued before."""

    job_id: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.job_id}.{self.attempt}"

    @classmethod
    def parse(cls, name: str) -> AttemptKey | None:
        """The key that a directory is named by; None where it is another name."""
        match = _KEY.fullmatch(name)
        return cls(int(match[1]), int(match[2])) if match else None


class SpoolLayout(NamedTuple):
    """The paths of a spool."""

    root: Path

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def notes(self) -> Path:
        return self.root / "notes"

    @property
    def jobs(self) -> Path:
        return self.root / "jobs"

    @property
    def archiver_word(self) -> Path:
        return self.root / "archiver.json"

    @property
    def health(self) -> Path:
        return self.root / "health.json"

    @property
    def node_state(self) -> Path:
        return self.root / "node.json"

    @property
    def probes(self) -> Path:
        return self.root / "probes"

    @property
    def checks(self) -> Path:
        return self.root / "checks"

    @property
    def reserve(self) -> Path:
        return self.root / "reserve"

    @property
    def fingerprint_key(self) -> Path:
        return self.root / "fingerprint.key"

    def attempt(self, key: AttemptKey) -> Path:
        return self.jobs / str(key)

    def attempts(self) -> list[AttemptKey]:
        """All attempts that have a directory, in order."""
        try:
            names = [path.name for path in self.jobs.iterdir()]
        except FileNotFoundError:
            return []
        return sorted(key for name in names if (key := AttemptKey.parse(name)) is not None)


def message_name(sequence: int, kind: str) -> str:
    """The name of a message's file."""
    return f"{sequence:06}.{kind}"


def messages(directory: Path) -> list[tuple[int, str, Path]]:
    """Sequence number, kind and path of an attempt's messages, in order; none where the directory is gone."""
    try:
        names = [path.name for path in directory.iterdir()]
    except FileNotFoundError:
        return []
    found = [(int(match[1]), match[2], directory / name) for name in names if (match := _MESSAGE.fullmatch(name))]
    return sorted(found)


def forget(directory: Path, names: Iterable[str]) -> bool:
    """Deletes of an attempt what is archived, and nothing that came since. Returns whether the directory is gone.

    `names` are the files that it had when it was read. The mark goes last: where this is cut short, the rest is still
    complete, and is archived again. Raises OSError.
    """
    for name in set(names) - {COMPLETE}:
        (directory / name).unlink(missing_ok=True)
    (directory / COMPLETE).unlink(missing_ok=True)
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        # The agent may have marked it before the mark was deleted above.
        (directory / COMPLETE).touch(mode=0o600)
        return False
    return True


def write_synced(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Writes a file under a temporary name, syncs, renames, and syncs the directory. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Makes what was created, renamed or deleted in a directory survive a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
