# SPDX-License-Identifier: Apache-2.0
"""A kernel's log as the agent reads it, in a loop like the agent's, and what came of it."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepguard.agent.health.kernel_log import KernelLog, Line
from stepguard.agent.log import Log
from stepguard.config import Health

BOOT, OTHER_BOOT = "boot-1", "boot-2"
DEADLINE_S = 20.0


class Reader:
    """A kernel's log and what came of it."""

    def __init__(
        self,
        path: Path | str,
        cursor: dict[str, Any] | None = None,
        boot_id: str = BOOT,
        is_trusted: bool = True,
    ) -> None:
        readable, self._said = os.pipe2(os.O_NONBLOCK)
        self._readable = readable
        self.path = path
        self.lines: list[Line] = []
        self.batches: list[int] = []
        self.fails: list[str] = []
        self._selector = selectors.DefaultSelector()
        log = Log(self._said)
        config = Health(kernel_log=str(path), kernel_log_trusted=is_trusted)
        self.log = KernelLog(config, boot_id, self._selector, log, self._take, self.fails.append, cursor or {})

    def _take(self, lines: list[Line]) -> None:
        self.batches.append(len(lines))
        self.lines += lines

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.lines]

    def told(self, key: str) -> Any:
        """What the agent tells of it."""
        return self.log.document()[key]

    def said(self) -> str:
        """What the agent would have logged."""
        try:
            return os.read(self._readable, 1 << 16).decode()
        except BlockingIOError:
            return ""

    def turn(self) -> None:
        """Once around the loop."""
        self.log.turn()
        wait_s = min(0.1, max(0.0, self.log.due_s - time.monotonic()))
        for key, events in self._selector.select(wait_s):
            key.data(events)

    def until(self, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end_s, (self.texts[-5:], self.fails)
            self.turn()

    def drain(self) -> None:
        """Reads all that there is: looks on for longer than it ever pauses."""
        end_s = time.monotonic() + 0.5
        while time.monotonic() < end_s:
            self.turn()

    def close(self) -> None:
        self.log.stop()
        if self._readable >= 0:
            self._selector.close()
            os.close(self._readable)
            os.close(self._said)
            self._readable = -1


Read = Callable[..., Reader]
"""Makes one, which is closed when the test is over."""
