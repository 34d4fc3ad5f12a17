# SPDX-License-Identifier: Apache-2.0
"""The agent's own places: a spool that is root's alone and held by one agent, a socket in a directory of root's."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import struct
from pathlib import Path

from stepguard.errors import StepguardError
from stepguard.places import parents_problem
from stepguard.records.spool import SpoolLayout

# Short: whoever connects waits for all that are before it here, and a user may fill it. Beyond it callers wait in the
# kernel, each in turn, hooks until their deadline.
_BACKLOG = 128
# sun_path of unix(7), less its NUL.
SOCKET_PATH_MAX = 107
_ANOTHER = "one is enough; to have this one, stop that first"
_SPOOL = "[agent] spool names a directory of root's on a local disk"
_SOCKET = "[agent] socket names a path in a directory of root's"


class AnotherAgentError(StepguardError):
    """One is enough."""


def make_spool(layout: SpoolLayout) -> None:
    """Makes of the spool's directories those that are missing.

    Raises StepguardError when that cannot be, or others than root could read, write or exchange them.
    """
    try:
        if problem := parents_problem(layout.root):
            raise StepguardError("the spool is not root's alone", str(layout.root), problem)
        for directory in (layout.root, layout.notes, layout.jobs):
            directory.mkdir(mode=0o700, parents=directory is layout.root, exist_ok=True)
            if problem := directory_problem(directory, 0o077):
                raise StepguardError("the spool is not root's alone", str(directory), problem)
    except OSError as error:
        where = f"{error.filename or layout.root}: {error.strerror}"
        raise StepguardError("cannot use the spool", where, _SPOOL) from error


def lock_spool(layout: SpoolLayout) -> int:
    """Locks it. The lock is held while the returned descriptor is open.

    Raises AnotherAgentError when another agent holds it, StepguardError when there can be no lock.
    """
    try:
        descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StepguardError("cannot use the spool", f"{layout.root}: {error.strerror}", _SPOOL) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise AnotherAgentError("another agent is running", f"pid {pid} holds {layout.lock}", _ANOTHER) from None
    with contextlib.suppress(OSError):  # a full disk: the lock holds without a number in it
        length = os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        os.ftruncate(descriptor, length)
    return descriptor


def listen(path: Path) -> socket.socket:
    """The agent's socket, for everybody to connect to. Nobody finds it before it is ready.

    Raises AnotherAgentError when another agent answers there, StepguardError when its directory is not root's.
    """
    _make_directory(path.parent)
    if (pid := answering_pid(path)) is not None:
        raise AnotherAgentError("another agent is running", f"pid {pid} listens at {path}", _ANOTHER)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    temporary = path.with_name(f".{os.getpid()}")
    try:
        temporary.unlink(missing_ok=True)
        listener.bind(str(temporary))
        temporary.chmod(0o666)
        listener.listen(_BACKLOG)
        temporary.rename(path)
    except OSError as error:
        listener.close()
        temporary.unlink(missing_ok=True)
        raise StepguardError("cannot listen", f"{path}: {error.strerror or error}", _SOCKET) from error
    return listener


def answering_pid(path: Path) -> int | None:
    """Who listens at a socket; None where nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return 0  # somebody does, and is too busy to say so
        except OSError:
            return None
        return int(struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])


def _make_directory(directory: Path) -> None:
    try:
        problem = parents_problem(directory)
        if not problem and not directory.exists():
            directory.mkdir(mode=0o755, parents=True)
            directory.chmod(0o755)  # whatever the umask
        problem = problem or directory_problem(directory, 0o022)
    except OSError as error:
        raise StepguardError("cannot use the socket's directory", f"{directory}: {error.strerror}", _SOCKET) from error
    if problem:
        raise StepguardError("the socket's directory is not root's alone to write", str(directory), problem)


def directory_problem(directory: Path, forbidden: int) -> str:
    """What is wrong with a directory that must be root's, without the `forbidden` bits; "" for nothing.

    Raises OSError when it cannot be looked at.
    """
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a directory"
    if status.st_uid != 0:
        return f"it belongs to uid {status.st_uid}: chown root"
    mode = stat.S_IMODE(status.st_mode)
    if mode & forbidden and mode & stat.S_ISVTX:
        return f"it is everybody's (mode {mode:04o}): name a directory below it, as {directory}/stepguard"
    if mode & forbidden:
        return f"its mode is {mode:04o}: chmod {mode & ~forbidden:04o}"
    return ""
