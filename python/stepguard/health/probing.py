# SPDX-License-Identifier: Apache-2.0
"""Has a probe run in a child with a deadline, so that a driver that hangs stops nobody but that child.

report = probe("nvml")                            waits: for people

probes = Probes()                                 for a loop that waits for many things:
running = probes.start("nvml", settings)
… until `running` is readable or running.deadline_s is over …
report = running.take()                           None: not yet
running.close()
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from stepguard.errors import ProcessError
from stepguard.health.model import Report, Status
from stepguard.health.probes.document import from_bytes
from stepguard.health.probes.here import is_here
from stepguard.health.probes.program import memory_file, written
from stepguard.health.probes.settings import Settings
from stepguard.health.probes.table import entry
from stepguard.process import Child, spawn

if TYPE_CHECKING:
    from types import TracebackType

# What a child may print: a write beyond it fails.
_OUTPUT_BYTES = 1 << 20
_ERRORS_BYTES = 64 << 10
_LINE_CHARS = 500
# A killed child is gone at once, unless it waits for a device (state D).
_DEATH_S = 0.5
_TOLD_S = 5.0


class Running:
    """A probe that was started. `deadline_s` is a time of time.monotonic(). As a context manager it is closed."""

    def __init__(self, name: str, limit_s: float, child: Child, output: int, errors: int) -> None:
        self.name = name
        self.child = child
        self.deadline_s = time.monotonic() + limit_s
        self._limit_s = limit_s
        self._ended = os.dup(child.pidfd)  # child.poll closes its own
        self._output = output
        self._errors = errors
        self._report: Report | None = None

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def fileno(self) -> int:
        """Readable once the child has ended; open until `close`."""
        return self._ended

    def take(self) -> Report | None:
        """The report; None while the child has time left. Never waits: a child that is over its time is killed."""
        if self._report is None:
            ended = self._has_ended()
            if not ended and time.monotonic() < self.deadline_s:
                return None
            self._kill()
            self._report = self._reported(ended)
        return self._report

    def said(self) -> str:
        """The last line that it wrote to its stderr so far: what it is at, of a long one."""
        return _last_line(self._errors)

    def close(self) -> None:
        """Kills the child if it still runs, and lets go of what this holds."""
        if self._ended >= 0:
            self._kill()
            for descriptor in (self._ended, self._output, self._errors):
                os.close(descriptor)
            self._ended = -1

    def _has_ended(self) -> bool:
        return _is_readable(self._ended, 0)

    def _kill(self) -> None:
        # What it started too; its number is nobody else's before poll has seen its end.
        if self.child.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)
            self.child.poll()

    def _reported(self, ended: bool) -> Report:
        try:
            # A thread that hangs in a driver can keep a child from ending that has told all.
            return from_bytes(written(self._output))
        except ValueError as error:
            said = self.said()
            if not ended:
                return _unknown(self.name, f"no answer within {self._limit_s:g} s{f': {said}' if said else ''}")
            return _unknown(self.name, f"it ended with status {self.child.status}: {said or f'no report: {error}'}")


class Probes:
    """The probes of this process. One whose child cannot be killed is not started again while that child lives."""

    def __init__(self) -> None:
        self._children: dict[str, Child] = {}

    def start(self, name: str, settings: Settings) -> Running | Report:
        """Starts a probe; a Report where that cannot be, or need not: there is nothing for it to look at.

        Raises KeyError when there is no such probe.
        """
        known = entry(name)
        if not is_here(known, settings.root):
            return Report(name, Status.OK, known.nothing)
        before = self._children.get(name)
        if before is not None and before.poll() is None:
            return _unknown(name, f"its last process still runs, or hangs and cannot be killed (pid {before.pid})")
        try:
            running = _start(name, settings)
        except (OSError, ProcessError) as error:
            return _unknown(name, f"it cannot be started: {error}")
        self._children[name] = running.child
        return running


def probe(name: str, settings: Settings | None = None, told: Callable[[str], None] | None = None) -> Report:
    """Runs a probe and waits for its report, at most for its deadline; `told` hears what it is at, every few seconds.

    Raises KeyError when there is no such probe.
    """
    started = Probes().start(name, settings or Settings(deadline_s=entry(name).deadline_s))
    if isinstance(started, Report):
        return started
    with started as running:
        while (report := running.take()) is None:
            left_s = max(0.001, running.deadline_s - time.monotonic())
            if not _is_readable(running.fileno(), left_s if told is None else min(_TOLD_S, left_s)) and told:
                told(running.said())
        if running.child.status is None:
            _is_readable(running.fileno(), _DEATH_S)
            running.child.poll()
    return report


def _start(name: str, settings: Settings) -> Running:
    argv = [sys.executable, "-I", "-m", "stepguard.health.probe_child", name, settings.to_text()]
    devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    opened = [devnull]
    try:
        for size in (_OUTPUT_BYTES, _ERRORS_BYTES):
            opened.append(memory_file(size))
        child = spawn(argv, stdin=devnull, stdout=opened[1], stderr=opened[2], new_session=True)
    except BaseException:
        for descriptor in opened[1:]:
            os.close(descriptor)
        raise
    finally:
        os.close(devnull)
    return Running(name, settings.deadline_s, child, opened[1], opened[2])


def _is_readable(descriptor: int, timeout_s: float) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(timeout_s * 1000))


def _last_line(errors: int) -> str:
    lines = written(errors).decode(errors="replace").split("\n")
    line = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return "".join(char if char.isprintable() else "?" for char in line[:_LINE_CHARS])


def _unknown(name: str, reason: str) -> Report:
    return Report(name, Status.UNKNOWN, reason)
