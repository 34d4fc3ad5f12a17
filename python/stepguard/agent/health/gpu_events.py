# SPDX-License-Identifier: Apache-2.0
"""Keeps the process running that NVML tells of events: a driver that hangs stops only that."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from stepguard.agent.log import Log
from stepguard.errors import ProcessError
from stepguard.process import Child, spawn

_MODULE = "stepguard.health.gpu_events_child"
XID = 8  # nvmlEventTypeXidCriticalError
# Where there is nothing to watch, or it hangs: a driver may be loaded later.
_SELDOM_S = 600.0
# Where it has watched, or not begun by a fault.
_SOON_S = 60.0
# Without persistence mode the driver starts each GPU anew when NVML opens it, which takes seconds a GPU.
_BEGIN_S = 120.0
_PIECE_BYTES, _LINE_MAX_BYTES = 1 << 12, 1 << 16


class GpuEvents:
    """`take` gets an event: its type, its data and the PCI address of the GPU, "" where that is not told."""

    def __init__(self, selector: selectors.BaseSelector, log: Log, take: Callable[[int, int, str], None]) -> None:
        self._selector = selector
        self._log = log
        self._take = take
        self._child: Child | None = None
        self._killed: Child | None = None
        self._stdin = self._stdout = -1
        self._rest = b""
        self._watching = 0
        self._why = ""
        self._started_s = self._start_at_s = 0.0

    def look(self) -> None:
        """Starts it where it is time, and ends one that does not begin."""
        now_s = time.monotonic()
        if self._killed is not None and self._killed.poll() is not None:
            self._killed = None
        if self._child is not None:
            if not self._watching and now_s - self._started_s > _BEGIN_S:
                self._end(f"no answer within {_BEGIN_S:g} s", _SELDOM_S)
        elif now_s >= self._start_at_s:
            if self._killed is not None:
                self._why = f"its last process hangs and cannot be killed (pid {self._killed.pid})"
                self._start_at_s = now_s + _SOON_S
            else:
                self._start(now_s)

    def document(self) -> dict[str, Any]:
        """What is told of it."""
        return {"pid": self._child.pid if self._child else None, "watching": self._watching, "why": self._why}

    def stop(self) -> None:
        """Kills it, and does not wait."""
        if self._child is not None:
            self._end("the agent ends", 0)

    def _start(self, now_s: float) -> None:
        opened = list[int]()
        try:
            child_stdin, self._stdin = os.pipe2(os.O_CLOEXEC)
            opened = [child_stdin, self._stdin]
            self._stdout, child_stdout = os.pipe2(os.O_CLOEXEC)
            opened += [self._stdout, child_stdout]
            os.set_blocking(self._stdout, False)
            argv = [sys.executable, "-I", "-m", _MODULE]
            self._child = spawn(argv, stdin=child_stdin, stdout=child_stdout, stderr=2, new_session=True)
        except (OSError, ProcessError) as error:
            for descriptor in opened:
                os.close(descriptor)
            self._log.error(f"NVML's events are not heard: {error}", "gpu-events")
            self._later(str(error), _SOON_S)
            return
        os.close(child_stdin)
        os.close(child_stdout)
        self._rest, self._watching, self._why, self._started_s = b"", 0, "", now_s
        self._selector.register(self._stdout, selectors.EVENT_READ, lambda _: self._readable())

    def _readable(self) -> None:
        try:
            piece = os.read(self._stdout, _PIECE_BYTES)
        except BlockingIOError:
            return
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._said(line)
        if not piece or len(self._rest) > _LINE_MAX_BYTES:
            self._end(self._why or "it ended", _SELDOM_S if self._why else _SOON_S)

    def _said(self, line: bytes) -> None:
        try:
            said = json.loads(line)
            if "watching" in said:
                self._watching = int(said["watching"])
            elif "absent" in said:
                self._why = str(said["absent"])
            else:
                self._take(int(said["type"]), int(said["data"]), str(said["device"]))
        except (ValueError, KeyError, TypeError):
            self._log.error(f"the process for NVML's events says {line[:200]!r}", "gpu-events-said")

    def _end(self, why: str, again_s: float) -> None:
        assert self._child is not None
        if self._watching and why == "it ended":
            self._log.warning(f"NVML's events are not heard for {again_s:g} s: their process has ended", "gpu-events")
        self._selector.unregister(self._stdout)
        os.close(self._stdout)
        os.close(self._stdin)
        with contextlib.suppress(ProcessLookupError):
            self._child.send_signal(signal.SIGKILL)
        self._killed, self._child, self._watching = self._child, None, 0
        self._later(why, again_s)

    def _later(self, why: str, again_s: float) -> None:
        self._why = why
        self._start_at_s = time.monotonic() + again_s
