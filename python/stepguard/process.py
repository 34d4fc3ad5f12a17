# SPDX-License-Identifier: Apache-2.0
"""The only place that starts programs.

Two ways: `run` for a short command whose output is read (`start`, to do something else until it has ended), and
`spawn` for a program that lives beside us. A spawned program starts with an empty signal mask and default
dispositions, whatever its parent blocks; a short command keeps the parent's mask, so that a Ctrl-C does not end our own
`scontrol` half way.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from stepguard.errors import ProcessError

if TYPE_CHECKING:
    from pathlib import Path  # 3 ms of import
    from types import TracebackType

_ALL_SIGNALS = sorted(set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})


class Completed(NamedTuple):
    """A program that ended: its exit status (negative: ended by that signal) and what it printed."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


class Running:
    """A short command that has been started. As a context manager it ends the command, if that has not ended."""

    def __init__(self, argv: Sequence[str], popen: subprocess.Popen[str], timeout_s: float) -> None:
        self.argv = tuple(argv)
        self._popen = popen
        self._timeout_s = timeout_s

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._popen.returncode is None:
            self._popen.kill()
        self._popen.__exit__(kind, error, at)

    def completed(self) -> Completed:
        """Waits for its end. Raises ProcessError when that does not come within the time, counted from this call."""
        try:
            stdout, stderr = self._popen.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired as expired:
            what = f"no answer within {self._timeout_s:g} s"
            raise ProcessError(what, self.argv[0], "is slurmctld up?") from expired
        return Completed(self.argv, self._popen.returncode, stdout, stderr)


class Child:
    """A program that lives beside us. `pidfd` is readable once it has ended; `status` is set by `poll`."""

    def __init__(self, argv: Sequence[str], pid: int) -> None:
        self.argv = tuple(argv)
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.status: int | None = None

    def poll(self) -> int | None:
        """The exit status if it has ended (negative: the signal that ended it), else None. Never blocks."""
        if self.status is None:
            pid, wait_status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.status = os.waitstatus_to_exitcode(wait_status)
                os.close(self.pidfd)
        return self.status

    def reap(self) -> int:
        """Waits for the end of a child that is sure to end (it was sent SIGKILL) and returns its status."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self.pidfd)
        return self.status

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the child has ended: its pid cannot be anybody else's until poll saw the end."""
        if self.status is None:
            os.kill(self.pid, number)


def run(
    argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, cwd: str | Path | None = None
) -> Completed:
    """Runs a program to its end and returns its output, undecodable bytes kept by surrogateescape.

    Raises ProcessError when it cannot be started or is not done after `timeout_s` seconds; it is killed then.
    """
    with start(argv, timeout_s=timeout_s, env=env, cwd=cwd) as running:
        return running.completed()


def start(
    argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None, cwd: str | Path | None = None
) -> Running:
    """Starts what `run` runs, with nothing on its stdin. Raises ProcessError when it cannot be started."""
    try:
        popen = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
        )
    except OSError as error:
        raise _cannot_start(argv, error) from error
    return Running(argv, popen, timeout_s)


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stdin: int = 0,
    stdout: int = 1,
    stderr: int = 2,
    new_session: bool = False,
) -> Child:
    """Starts a program beside us. `stdin`, `stdout` and `stderr` are descriptors of ours that it gets as 0, 1, 2.

    `new_session` puts it out of reach of the terminal's signals. Raises ProcessError when it cannot be started.
    """
    actions = [(os.POSIX_SPAWN_DUP2, fd, target) for target, fd in enumerate((stdin, stdout, stderr))]
    try:
        pid = os.posix_spawnp(
            argv[0],
            list(argv),
            dict(os.environ if env is None else env),
            file_actions=actions,
            setsid=new_session,
            setsigmask=[],
            setsigdef=_ALL_SIGNALS,
        )
    except OSError as error:
        raise _cannot_start(argv, error) from error
    return Child(argv, pid)


def in_memory(content: bytes) -> int:
    """A descriptor of a file in memory with this content, at its beginning: a question for a program that is spawned,
    or room for its answer. Raises OSError."""
    descriptor = os.memfd_create("stepguard", os.MFD_CLOEXEC)
    os.pwrite(descriptor, content, 0)
    return descriptor


def _cannot_start(argv: Sequence[str], error: OSError) -> ProcessError:
    return ProcessError(f"cannot start: {error.strerror}", argv[0], "is it installed and in PATH?")


def own_command() -> list[str]:
    """How to start this stepguard again, on any host that has it under the same path."""
    if sys.argv[0].endswith("/stepguard"):
        return [sys.executable, "-IS", sys.argv[0]]  # PREFIX/bin/stepguard, 5 ms faster
    return [sys.executable, "-I", "-m", "stepguard"]
