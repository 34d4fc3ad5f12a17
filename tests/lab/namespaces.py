# SPDX-License-Identifier: Apache-2.0
"""The namespaces of a site or a host, seen from this side by the process that holds them."""

from __future__ import annotations

import ctypes
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import LabError

_CLONE_NEWPID = 0x20000000  # <sched.h>
_LIBC = ctypes.CDLL(None, use_errno=True)
_KINDS = {"mount": "mnt", "net": "net", "uts": "uts", "ipc": "ipc"}  # nsenter's option, /proc's file


@dataclass
class Namespaces:
    """The namespaces made by a `unshare --fork` that lives. `holder` is its process id on this side."""

    holder: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """Children of ours that live in them; the PID namespace cannot end before we have waited for these."""

    def entry(self, *kinds: str) -> list[str]:
        """The command to put before one that is to run in these kinds of namespaces ("net"); all, if none is said.

        It replaces itself by the command. The PID namespace is not its matter: see `children`.
        """
        nsenter = shutil.which("nsenter", path="/usr/bin:/bin")
        if nsenter is None:
            raise LabError("nsenter is missing: apt-get install util-linux")
        return [nsenter, *(f"--{kind}=/proc/{self.holder}/ns/{_KINDS[kind]}" for kind in kinds or _KINDS)]

    @contextmanager
    def children(self) -> Iterator[None]:
        """The children that this thread starts meanwhile are born in the PID namespace."""
        own = os.open("/proc/thread-self/ns/pid", os.O_RDONLY)
        try:
            theirs = os.open(f"/proc/{self.holder}/ns/pid_for_children", os.O_RDONLY)
        except FileNotFoundError:
            os.close(own)
            raise LabError("the host is off") from None
        try:
            _setns(theirs)
            try:
                yield
            finally:
                _setns(own)
        finally:
            os.close(theirs)
            os.close(own)

    def kill(self, within: Sequence[Namespaces] = ()) -> None:
        """Kills all that runs inside; returns when it is gone. `within`: the namespaces made inside these."""
        # When the first process of a PID namespace ends, the kernel kills all others in it.
        first = int(Path(f"/proc/{self.holder}/task/{self.holder}/children").read_text().split()[0])
        fd = os.pidfd_open(first)
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            for namespaces in (self, *within):
                for popen in namespaces.started:
                    popen.wait(30)
            if not select.select([fd], [], [], 30)[0]:
                raise LabError(f"the namespaces of process {self.holder} do not end")
        except subprocess.TimeoutExpired as error:
            raise LabError(f"does not end after SIGKILL: {error.cmd}") from None
        finally:
            os.close(fd)

    def members(self) -> list[int]:
        """The process ids, on this side, of all processes in the PID namespace."""
        inside = _pid_namespace(self.holder, "pid_for_children")
        pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return [pid for pid in pids if inside is not None and _pid_namespace(pid, "pid") == inside]


def _pid_namespace(pid: int, kind: str) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/{kind}").stat().st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # ended, or not of this lab


def _setns(fd: int) -> None:
    # os.setns exists from Python 3.12 on.
    if _LIBC.setns(fd, _CLONE_NEWPID) != 0:
        raise LabError(f"setns: {os.strerror(ctypes.get_errno())}: the lab needs root")
