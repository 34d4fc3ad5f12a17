# SPDX-License-Identifier: Apache-2.0
"""Directories and files of the archive, written so that a power cut leaves the old file or the new one.

All directories are root's (Ownership says with which modes), and one that somebody else may write to is refused. So no
name in them can be anybody's trap; they are opened one below the other all the same, without following links.
The files belong to the jobs' owners, who may write anything into them: what is read back is bounded, and only data.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from stepguard.archive.ownership import Ownership, put_right

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# A link that cannot be made, but a copy can: too many of them, another file system, a file system without.
_NO_LINK = (errno.EMLINK, errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP)


@dataclass(frozen=True)
class Writer:
    """Who writes: `node` is part of the names of temporary files, so that no two nodes share one.

    `kept_from` are the users whom files could not be given to, for their quota on the archive's file system is used up.
    These stay root's, for the record to be whole; regroup gives them away later. (Root passes over quotas where it has
    CAP_SYS_RESOURCE, which the unit does not leave it, and on file servers that let it.)
    """

    node: str
    ownership: Ownership
    kept_from: set[int] = field(default_factory=set)


class Directory:
    """An open directory of the archive. A context manager; its methods raise OSError."""

    def __init__(self, descriptor: int, path: Path, writer: Writer) -> None:
        self.descriptor = descriptor
        self.path = path
        self.writer = writer
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            os.close(descriptor)
            raise PermissionError(errno.EPERM, "others than root may write to this directory", str(path))

    @classmethod
    def top(cls, path: Path, writer: Writer) -> Directory:
        """The archive itself. It is not made: where it is missing, its file system may not be mounted."""
        return cls(os.open(path, _DIRECTORY), path, writer)

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.descriptor)

    def has(self, name: str) -> bool:
        """Whether anything has that name there."""
        try:
            os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def existing(self, name: str) -> Directory | None:
        """The directory of that name; None where there is none. One that is older than the administrators' group is
        given to it."""
        try:
            descriptor = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        found = Directory(descriptor, self.path / name, self.writer)
        if self.writer.ownership.group_id != -1:
            with contextlib.ExitStack() as opened:
                opened.enter_context(found)
                found.put_right()
                opened.pop_all()
        return found

    def put_right(self) -> bool:
        """Gives the directory the group and mode that it should have; whether it had others."""
        return put_right(self.descriptor, self.writer.ownership.group_id, self.writer.ownership.directory_mode)

    def put_file_right(self, name: str) -> bool:
        """The same for a file; nothing is done where there is none, or no regular one."""
        try:
            descriptor = os.open(name, _READ, dir_fd=self.descriptor)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
                raise
            return False
        try:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            ownership = self.writer.ownership
            return is_file and put_right(descriptor, ownership.group_id, ownership.file_mode)
        finally:
            os.close(descriptor)

    def made(self, name: str) -> Directory:
        """The directory of that name, made where there is none."""
        if (found := self.existing(name)) is not None:
            return found
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self.descriptor)
        descriptor = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=self.descriptor)
        found = Directory(descriptor, self.path / name, self.writer)
        found.put_right()
        self.sync()
        return found

    def below(self, *names: str, make: bool = False) -> Directory | None:
        """The directory at the end of such a path; None where there is none and none is to be made."""
        with contextlib.ExitStack() as opened:
            directory = self
            for name in names:
                below = directory.made(name) if make else directory.existing(name)
                if below is None:
                    return None
                directory = opened.enter_context(below)
            return Directory(os.dup(directory.descriptor), directory.path, self.writer)

    def remove(self, name: str) -> bool:
        """Removes a directory that is empty; whether it did."""
        try:
            os.rmdir(name, dir_fd=self.descriptor)
        except OSError:
            return False
        return True

    def names(self) -> list[str]:
        """What it holds, in order."""
        return sorted(os.listdir(self.descriptor))  # noqa: PTH208  (pathlib knows no descriptors)

    def owner_of(self, name: str) -> int | None:
        """Whom a file belongs to; None where there is no such file."""
        try:
            status = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return status.st_uid if stat.S_ISREG(status.st_mode) else None

    def read(self, name: str, max_bytes: int) -> bytes | None:
        """A file's content; None where there is no such file, no regular one, or more than that in it."""
        try:
            descriptor = os.open(name, _READ, dir_fd=self.descriptor)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO):
                return None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # before fdopen(), which leaves a directory open
            os.close(descriptor)
            return None
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(max_bytes + 1)
        return content if len(content) <= max_bytes else None

    def write(self, name: str, content: bytes, uid: int) -> None:
        """Puts a file of this owner into place. It is durable once the directory has been synced."""
        temporary = f".{name}.{self.writer.node}.new"
        with contextlib.suppress(FileNotFoundError):  # of an archiver that was killed
            os.unlink(temporary, dir_fd=self.descriptor)
        descriptor = os.open(temporary, _WRITE, 0o600, dir_fd=self.descriptor)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                self._give(descriptor, uid)
                os.fchmod(descriptor, self.writer.ownership.file_mode)
                os.fsync(descriptor)
            os.rename(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=self.descriptor)
            raise

    def give_file(self, name: str, uid: int) -> bool:
        """Gives a file that stayed root's to its owner; whether it did. Raises OSError."""
        descriptor = os.open(name, _READ, dir_fd=self.descriptor)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or uid == status.st_uid:
                return False
            os.fchown(descriptor, uid, -1)
            return True
        finally:
            os.close(descriptor)

    def _give(self, descriptor: int, uid: int) -> None:
        try:
            os.fchown(descriptor, uid, self.writer.ownership.group_id)
        except OSError as error:
            if error.errno != errno.EDQUOT:
                raise
            self.writer.kept_from.add(uid)
            os.fchown(descriptor, -1, self.writer.ownership.group_id)

    def link(self, source: Directory, source_name: str, name: str) -> bool:
        """Gives a file of another directory a name in this one; whether it did, for a link is not always possible."""
        temporary = f".{name}.{self.writer.node}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=self.descriptor)
        if self._same(source, source_name, name):
            return True  # rename(2) would do nothing, and leave both names
        try:
            os.link(source_name, temporary, src_dir_fd=source.descriptor, dst_dir_fd=self.descriptor)
        except OSError as error:
            if error.errno not in (*_NO_LINK, errno.ENOENT):
                raise
            return False
        os.rename(temporary, name, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        return True

    def sync(self) -> None:
        """Makes names that were added or removed survive a power cut."""
        os.fsync(self.descriptor)

    def _same(self, source: Directory, source_name: str, name: str) -> bool:
        try:
            one = os.stat(source_name, dir_fd=source.descriptor, follow_symlinks=False)
            other = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(one, other)


def write_script(cluster: Directory, record: Directory, name: str, content: bytes, sha256: str, uid: int) -> None:
    """Puts a script into a record: as a link to the one copy of the user's that is stored, else as a copy of its own.

    A stored copy that is not what it should be any more, for its owner or the disk has changed it, is stored anew: the
    records that have the old one keep it. Raises OSError.
    """
    with cluster.made("scripts") as scripts, scripts.made(str(uid)) as mine:
        # A script that nobody links to is pruned in time, so it may be gone between two looks at it.
        for _ in range(2):
            if mine.owner_of(sha256) != uid or mine.read(sha256, len(content)) != content:
                mine.write(sha256, content, uid)
                mine.sync()
            elif mine.writer.ownership.group_id != -1:
                mine.put_file_right(sha256)
            if record.link(mine, sha256, name):
                return
    record.write(name, content, uid)
