# SPDX-License-Identifier: Apache-2.0
"""The only place that starts programs.

Two ways: `run` for a short command whose output is read, and `spawn` for a program that lives beside us. A
spawned program starts with an empty signal mask and default dispositions, whatever its parent blocks; a short
command keeps the parent's mask, so that a Ctrl-C does not end our own `scontrol` half way.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stepguard.errors import ProcessError

_ALL_SIGNALS = sorted(set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})


class Completed(NamedTuple):
    """A program that ended: its exit status (negative: ended by that signal) and what it printed."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


@dataclass
class Child:
    """A program that lives beside us. `pidfd` is readable once it has ended; `status` is set by `poll`."""

    argv: tuple[str, ...]
    pid: int
    pidfd: int
    status: int | None = None

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
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    text_in: str = "",
) -> Completed:
    """Runs a program to its end and returns its output, undecodable bytes kept by surrogateescape.

    Raises ProcessError when it cannot be started or is not done after `timeout_s` seconds; it is killed then.
    """
    try:
        done = subprocess.run(
            list(argv),
            input=text_in,
            capture_output=True,
            env=env,
            cwd=cwd,
            timeout=timeout_s,
            text=True,
            encoding="utf-8",
            errors="surrogateescape",
            check=False,
        )
    except subprocess.TimeoutExpired as expired:
        raise ProcessError(f"no answer within {timeout_s:g} s", argv[0], "is slurmctld up?") from expired
    except OSError as error:
        raise ProcessError(f"cannot start: {error.strerror}", argv[0], "is it installed and in PATH?") from error
    return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)


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
        raise ProcessError(f"cannot start: {error.strerror}", argv[0], "is it installed and in PATH?") from error
    return Child(tuple(argv), pid, os.pidfd_open(pid))
