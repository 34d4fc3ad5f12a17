# SPDX-License-Identifier: Apache-2.0
"""Has a probe run in a child with a deadline, so that a driver that hangs stops nobody but that child.

report = probe("nvml")                            waits: for people

probes = Probes()                                 for a loop that waits for many things:
running = probes.start("nvml", settings)
… until `running` is readable or running.deadline_s is over …
report = running.take()                           None: not yet
running.close()
probes.close()
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
from stepguard.health import probe_request
from stepguard.health.model import Report, Status
from stepguard.health.probe_request import Request, Word
from stepguard.health.probes.document import from_bytes
from stepguard.health.probes.here import is_here
from stepguard.health.probes.program import memory_file, written
from stepguard.health.probes.settings import Settings
from stepguard.health.probes.table import entry
from stepguard.process import Child, spawn

if TYPE_CHECKING:
    import socket
    from types import TracebackType

# What a child may print: a write beyond it fails.
_OUTPUT_BYTES = 1 << 20
_ERRORS_BYTES = 64 << 10
_LINE_CHARS = 500
# The forkserver waits for nothing, so it is gone at once.
_END_S = 0.5
_TOLD_S = 5.0


class Running:
    """A probe that was started. `deadline_s` is a time of time.monotonic(). As a context manager it is closed."""

    def __init__(self, name: str, limit_s: float, word: int, output: int, errors: int) -> None:
        self.name = name
        self.deadline_s = time.monotonic() + limit_s
        self._limit_s = limit_s
        self._word = word
        self._output = output
        self._errors = errors
        self._report: Report | None = None

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def fileno(self) -> int:
        """Readable once the child has ended; open until `close`."""
        return self._word

    def take(self) -> Report | None:
        """The report; None while the child has time left. Never waits, and kills nothing: that does `close`."""
        if self._report is None:
            word = probe_request.hear(self._word) if _is_readable(self._word, 0) else None
            if word is None and time.monotonic() < self.deadline_s:
                return None
            self._report = self._reported(word)
        return self._report

    def said(self) -> str:
        """The last line that it wrote to its stderr so far: what it is at, of a long one."""
        return _last_line(self._errors)

    def close(self) -> None:
        """Has the child killed if it still runs, with all that it has started, and lets go of what this holds."""
        if self._word >= 0:
            for descriptor in (self._word, self._output, self._errors):
                os.close(descriptor)
            self._word = -1

    def _reported(self, word: Word | None) -> Report:
        try:
            # A thread that hangs in a driver can keep a child from ending that has told all.
            return from_bytes(written(self._output))
        except ValueError as error:
            missing = "" if word is None or word.status is None else f"no report: {error}"
            said = self.said() or missing
            return _unknown(self.name, f"{self._why(word)}{f': {said}' if said else ''}")

    def _why(self, word: Word | None) -> str:
        if word is None:
            return f"no answer within {self._limit_s:g} s"
        if word.lives is not None:
            return f"its last process still runs, or hangs and cannot be killed (pid {word.lives})"
        return word.error or f"it ended with status {word.status}"


class Probes:
    """The probes of this process, forked off by one forkserver, which is started for the first of them.

    One whose child cannot be killed is not started again while that child lives.
    """

    def __init__(self) -> None:
        self._forkserver: Child | None = None
        self._asking: socket.socket | None = None

    def start(self, name: str, settings: Settings) -> Running | Report:
        """Starts a probe; a Report where that cannot be, or need not: there is nothing for it to look at.

        Raises KeyError when there is no such probe.
        """
        known = entry(name)
        if not is_here(known, settings):
            return Report(name, Status.OK, known.nothing)
        try:
            return self._start(name, settings)
        except (OSError, ProcessError) as error:
            return _unknown(name, f"it cannot be started: {error}")

    def close(self) -> None:
        """Ends the forkserver, which kills what runs; the next probe starts another one."""
        if self._forkserver is None or self._asking is None:
            return
        self._asking.close()
        if not _is_readable(self._forkserver.pidfd, _END_S):
            self._forkserver.send_signal(signal.SIGKILL)  # somebody has stopped it, or its file system hangs
            _is_readable(self._forkserver.pidfd, _END_S)
        self._forkserver.poll()
        self._forkserver = self._asking = None

    def _start(self, name: str, settings: Settings) -> Running:
        with contextlib.ExitStack() as opened:
            output, errors = memory_file(_OUTPUT_BYTES), memory_file(_ERRORS_BYTES)
            heard, word = os.pipe2(os.O_CLOEXEC)
            for descriptor in (output, errors, heard):
                opened.callback(os.close, descriptor)
            try:
                self._ask(Request(name, settings.to_text(), output, errors, word))
            finally:
                os.close(word)
            opened.pop_all()
        return Running(name, settings.deadline_s, heard, output, errors)

    def _ask(self, request: Request) -> None:
        if self._forkserver is not None and self._forkserver.poll() is not None:
            self.close()
        try:
            probe_request.send(self._asking or self._begin(), request)
        except (ConnectionError, BlockingIOError):
            self.close()  # it has just ended, or takes nothing
            raise

    def _begin(self) -> socket.socket:
        asking, asked = probe_request.channel()
        with asked:
            argv = [sys.executable, "-I", "-m", "stepguard.health.forkserver"]
            try:
                self._forkserver = spawn(argv, stdin=asked.fileno(), stdout=2, new_session=True)
            except ProcessError:
                asking.close()
                raise
        self._asking = asking
        return asking


def probe(
    name: str,
    settings: Settings | None = None,
    told: Callable[[str], None] | None = None,
    probes: Probes | None = None,
) -> Report:
    """Runs a probe and waits for its report, at most for its deadline; `told` hears what it is at, every few seconds.

    `probes`: for several one after another. Raises KeyError when there is no such probe.
    """
    if probes is None:
        with contextlib.closing(Probes()) as own:
            return probe(name, settings, told, own)
    started = probes.start(name, settings or Settings(deadline_s=entry(name).deadline_s))
    if isinstance(started, Report):
        return started
    with started as running:
        while (report := running.take()) is None:
            left_s = max(0.001, running.deadline_s - time.monotonic())
            if not _is_readable(running.fileno(), left_s if told is None else min(_TOLD_S, left_s)) and told:
                told(running.said())
    return report


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
