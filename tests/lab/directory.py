# SPDX-License-Identifier: Apache-2.0
"""The one directory that all files of a lab live in.

lock             locked (flock) as long as the lab's owner or its first process lives
etc/             what the hosts read: passwd, group, hosts, munge.key, slurm/
home/USER        the users' homes        } on every host, and on this side, under this same path
shared/          writable for everybody  }
log/             the daemons' logs
output/          the output of every program started
host/            empty: where each host mounts its own file system
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lab.errors import LabError

_PREFIX = "stepguard-lab-"


class Directory:
    """A lab's temporary directory, from its making to `remove`."""

    def __init__(self) -> None:
        remove_stale()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        self.path.chmod(0o755)
        self.lock_fd = os.open(self.path / "lock.new", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self.lock_fd, fcntl.LOCK_EX)
        # Under its name it has never been unlocked: nobody takes the lab for a dead one.
        (self.path / "lock.new").rename(self.path / "lock")
        for name, mode in (("etc", 0o755), ("home", 0o755), ("host", 0o755), ("output", 0o700)):
            self.make(name, mode)
        for name in ("shared", "log"):
            self.make(name, 0o1777)
        self.make("etc/slurm", 0o755)
        self._outputs = 0

    def make(self, name: str, mode: int) -> Path:
        """Makes a directory in it with exactly this mode."""
        path = self.path / name
        path.mkdir()
        path.chmod(mode)
        return path

    def write(self, name: str, text: str, *, uid: int = 0, gid: int = 0, mode: int = 0o644) -> Path:
        """Writes a file in it, whole or not at all, for readers on any host."""
        path = self.path / name
        new = path.with_name(path.name + ".new")
        new.write_text(text, errors="surrogateescape")
        os.chown(new, uid, gid)
        new.chmod(mode)
        return new.rename(path)

    def next_output(self, label: str) -> Path:
        """A name, not used before, for the output of a program."""
        self._outputs += 1
        return self.path / "output" / f"{self._outputs:05d}-{label}"

    def remove(self) -> None:
        """Removes it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists():
            raise LabError(f"cannot remove {self.path}")
        os.close(self.lock_fd)


def living() -> list[Path]:
    """The directories of the labs that live."""
    return [path for path, alive in _labs() if alive]


def remove_stale() -> None:
    """Removes the directories of labs that are dead."""
    for path, alive in _labs():
        if not alive:
            shutil.rmtree(path, ignore_errors=True)


def _labs() -> Iterator[tuple[Path, bool]]:
    """Each lab's directory, and whether the lab lives: somebody holds its lock."""
    for path in sorted(Path(tempfile.gettempdir()).resolve().glob(_PREFIX + "*")):
        try:
            fd = os.open(path / "lock", os.O_RDWR)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue  # being made or removed this very moment, or not ours
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield path, True
        else:
            yield path, False
        finally:
            os.close(fd)
