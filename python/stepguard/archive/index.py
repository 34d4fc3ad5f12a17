# SPDX-License-Identifier: Apache-2.0
"""The index beside the records: how a user finds their own without being able to list anybody's.

DIR/CLUSTER/index/UID/NODE.tsv      a line whenever a record that NODE leads begins, ends or changes; the last counts
DIR/CLUSTER/index/UID/+rebuilt.tsv  what these lack, and which records are gone (index_rebuild)
DIR/CLUSTER/index/UID/nodes         the nodes that have a file there, a line each: for its user, who cannot list them

Each NODE.tsv has one writer, the archiver of its node, which appends one line by one write(2): no lock, and safe on
NFS. Any line may be lost, by a power cut or a full disk: a rebuild finds its record again. Several nodes append to
`nodes`; a name that is lost there comes again with that node's next line.

All directories are root's, so no name in them can be anybody's trap, nor in anybody's way. The files are their user's,
so that the kernel decides who reads them, and may hold anything. A directory that is the user's own, as earlier
archives had them, is made root's; what is found there and is none of our files is moved aside, and looked at by nobody.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from stepguard.archive.index_bounds import (
    NODES_FILE,
    READ_MAX_BYTES,
    SUFFIX,
    Tell,
    files_in,
    nodes_in,
    say_nothing,
    shares,
    tell_left_out,
)
from stepguard.archive.index_lines import Entry, is_gone, is_line, line_of, line_of_row, told_by
from stepguard.archive.layout import INDEX, is_safe_name
from stepguard.archive.ownership import OWNER_ONLY, Ownership, put_right

REBUILT = f"+rebuilt{SUFFIX}"  # no node's name begins like this
_LOOKED_AT_BYTES = 64 << 10
_EXISTING = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Nothing, a link, a directory, a socket. All else (a file server that has trouble) must not make us replace a file.
_NO_FILE = (errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.ENXIO)
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def append(
    cluster_dir: Path, node: str, entry: Entry, ownership: Ownership = OWNER_ONLY, *, sync: bool = False
) -> None:
    """Says what is now true of a record; to be called by NODE's archiver, after the record itself is written.

    A line that an earlier write left torn is ended first. `sync` makes it survive a power cut. Raises OSError; the
    record is safe all the same.
    """
    with UserIndex(cluster_dir, entry.uid, ownership) as index:
        index.append(node, line_of(entry, time.time()), sync)


class UserIndex:
    """One user's directory of the index, made where there is none. A context manager; raises OSError."""

    def __init__(self, cluster_dir: Path, uid: int, ownership: Ownership) -> None:
        self.uid = uid
        self._ownership = ownership
        index = _made(cluster_dir / INDEX, ownership)
        try:
            self._directory = _made(cluster_dir / INDEX / str(uid), ownership, index)
        finally:
            os.close(index)

    def __enter__(self) -> UserIndex:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._directory)

    def append(self, node: str, line: bytes, sync: bool) -> None:
        """Adds a line to the node's file; rewrites that when a third of it has become superfluous."""
        if not is_safe_name(node):
            raise OSError(f"not the name of a node: {node!r}")
        if not is_line(line):
            raise OSError(f"not a line of the index: {line[:200]!r}")
        self._append(f"{node}{SUFFIX}", line, sync)
        if node not in nodes_in(self.content(NODES_FILE) or b""):
            self._append(NODES_FILE, f"{node}\n".encode("ascii"), sync)

    def _append(self, name: str, line: bytes, sync: bool) -> None:
        descriptor = self._own_file(name)
        if descriptor is None:
            self.replace(name, line)
            return
        try:
            size_bytes = os.fstat(descriptor).st_size
            torn = size_bytes > 0 and os.pread(descriptor, 1, size_bytes - 1) != b"\n"
            added = b"\n" * torn + line
            if os.write(descriptor, added) != len(added):
                raise OSError(f"only a part of a line of index/{self.uid}/{name} could be written: is the disk full?")
            if sync:
                os.fsync(descriptor)
            if name.endswith(SUFFIX) and _passes_a_power_of_two(size_bytes, size_bytes + len(added)):
                self._compact(name, descriptor)
        finally:
            os.close(descriptor)

    def list_nodes(self) -> None:
        """Makes `nodes` say which there are."""
        names = [name.removesuffix(SUFFIX) for name in sorted(files_in(self._directory)) if name != REBUILT]
        if names and set(names) != nodes_in(self.content(NODES_FILE) or b""):
            self.replace(NODES_FILE, "".join(f"{name}\n" for name in names).encode("ascii", errors="replace"))

    def replace(self, name: str, content: bytes) -> None:
        """Puts a whole new file into place, synced."""
        temporary = f".{name}.{socket.gethostname()}.{os.getpid()}.{time.monotonic_ns()}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600, dir_fd=self._directory)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                os.fchown(descriptor, self.uid, self._ownership.group_id)
                os.fchmod(descriptor, self._ownership.file_mode)
                file.flush()
                os.fsync(descriptor)
            try:
                os.rename(temporary, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
            except IsADirectoryError:
                _move_aside(self._directory, name)
                os.rename(temporary, name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except OSError:
            os.unlink(temporary, dir_fd=self._directory)
            raise
        os.fsync(self._directory)

    def remove(self, name: str) -> None:
        """Deletes a file, if it is there."""
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            os.unlink(name, dir_fd=self._directory)

    def contents(self, tell: Tell = say_nothing) -> Iterator[tuple[str, bytes]]:
        """Name and content of all its files; one that cannot be read is left out, and what is too much is told."""
        sizes = files_in(self._directory)
        tell_left_out(self.uid, sizes, tell)
        for name, at_most_bytes in sorted(shares(sizes).items()):
            if (content := self.content(name, at_most_bytes)) is not None:
                yield name, content

    def content(self, name: str, at_most_bytes: int = READ_MAX_BYTES) -> bytes | None:
        """What one of its files holds at its end; None where there is no such file that may be read."""
        descriptor = self._own_file(name)
        if descriptor is None:
            return None
        try:
            return _end_of(descriptor, at_most_bytes)
        finally:
            os.close(descriptor)

    def _own_file(self, name: str) -> int | None:
        """A regular file that belongs to the user; None where that is something else."""
        try:
            descriptor = os.open(name, _EXISTING, dir_fd=self._directory)
        except OSError as error:
            if error.errno not in _NO_FILE:
                raise
            return None
        try:
            status = os.fstat(descriptor)
            is_own = stat.S_ISREG(status.st_mode) and status.st_uid == self.uid
            if is_own:
                put_right(descriptor, self._ownership.group_id, self._ownership.file_mode)
        except OSError:
            os.close(descriptor)
            raise
        if is_own:
            return descriptor
        os.close(descriptor)
        return None

    def _compact(self, name: str, descriptor: int) -> None:
        content = _end_of(descriptor, READ_MAX_BYTES)
        gone = told_by(self.content(REBUILT) or b"").gone
        rows = told_by(content).rows.values()
        needed = b"".join(line_of_row(row) for row in rows if not is_gone(row, gone))
        if 3 * len(needed) <= 2 * len(content):
            self.replace(name, needed)


def _made(path: Path, ownership: Ownership, parent: int | None = None) -> int:
    """A directory of root's, made where there is none, open. `parent` is that of a user's directory."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    try:
        descriptor = os.open(path, _DIRECTORY)
    except NotADirectoryError:  # also for a link
        if parent is None:
            raise
        _move_aside(parent, path.name)
        path.mkdir(mode=0o700)
        descriptor = os.open(path, _DIRECTORY)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            os.fchown(descriptor, os.geteuid(), -1)
        put_right(descriptor, ownership.group_id, ownership.directory_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _move_aside(directory: int, name: str) -> None:
    """Gives what is in the way another name, that nobody reads; what it holds may be much, and is not looked at."""
    aside = f".{name}.{time.time_ns()}.aside"
    os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)


def _end_of(descriptor: int, at_most_bytes: int) -> bytes:
    chunks = []
    end = os.fstat(descriptor).st_size
    at = max(end - at_most_bytes, 0)
    while at < end and (chunk := os.pread(descriptor, min(1 << 20, end - at), at)):
        chunks.append(chunk)
        at += len(chunk)
    return b"".join(chunks)


def _passes_a_power_of_two(before_bytes: int, after_bytes: int) -> bool:
    """Seldom enough to look at the whole file, often enough that it stays below three times of what it needs."""
    return after_bytes >= _LOOKED_AT_BYTES and before_bytes.bit_length() < after_bytes.bit_length()
