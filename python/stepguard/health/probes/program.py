# SPDX-License-Identifier: Apache-2.0
"""Other people's tools, run by a probe: for a bounded time, with bounded output."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from stepguard.health.tools.kind import MAX_CHARS
from stepguard.process import spawn

_ERRORS_BYTES = 64 << 10
_PROGRESS_S = 5.0
# A killed program is gone at once, unless it waits for a device (state D).
_DEATH_S = 0.5
# Where tools lie that are not in the PATH of a service.
_MORE = ("/usr/sbin", "/sbin", "/usr/local/bin", "/opt/amazon/efa/bin", "/opt/rocm/bin")


class Output(NamedTuple):
    """What a program printed, and its exit status (negative: ended by that signal); None when it had to be killed."""

    status: int | None
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        """Both, as a person sees them."""
        return self.stdout + self.stderr


def find(name: str) -> str | None:
    """The path of a program; None where it is not installed."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_MORE)))


def run(argv: Sequence[str], timeout_s: float, progress: Callable[[float], None] | None = None) -> Output:
    """Runs a program, and kills it after that time; `progress` is told every so often for how many seconds it runs.

    What it prints beyond what any reader takes is an error of writing for it. Raises ProcessError when it cannot be
    started.
    """
    started_s = time.monotonic()
    devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    output, errors = memory_file(MAX_CHARS), memory_file(_ERRORS_BYTES)
    try:
        child = spawn(argv, stdin=devnull, stdout=output, stderr=errors)
        waiting = select.poll()
        waiting.register(child.pidfd, select.POLLIN)
        while not waiting.poll(1000 * max(0.0, min(_PROGRESS_S, started_s + timeout_s - time.monotonic()))):
            ran_s = time.monotonic() - started_s
            if ran_s >= timeout_s:
                child.send_signal(signal.SIGKILL)
                waiting.poll(1000 * _DEATH_S)
                child.poll()
                return Output(None, *(written(one).decode(errors="replace") for one in (output, errors)))
            if progress is not None:
                progress(ran_s)
        status = child.poll()
        return Output(status, *(written(one).decode(errors="replace") for one in (output, errors)))
    finally:
        for descriptor in (devnull, output, errors):
            os.close(descriptor)


def memory_file(size: int) -> int:
    """A file in memory that the kernel lets nobody make larger."""
    descriptor = os.memfd_create("probe", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
    return descriptor


def written(descriptor: int) -> bytes:
    """What was written to it: its offset is moved by whoever has the same open file."""
    return os.pread(descriptor, os.lseek(descriptor, 0, os.SEEK_CUR), 0)
