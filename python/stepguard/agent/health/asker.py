# SPDX-License-Identifier: Apache-2.0
"""A process of its own for what needs slurmctld, which may take long to answer: `stepguard health VERB`, a question on
its stdin, one JSON object as its answer. The loop waits for none."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stepguard.config import Config
from stepguard.errors import ProcessError
from stepguard.process import Child, in_memory, own_command, spawn

_ANSWER_BYTES = 1 << 16

Told = Callable[[Mapping[str, Any], str], None]
"""Gets the answer, and why there is none; one of the two is empty."""


class Asker:
    """One question at a time. `limit_s`: one that is not answered by then is given up."""

    def __init__(self, config: Config, selector: selectors.BaseSelector, limit_s: float, told: Told) -> None:
        self._config = config
        self._selector = selector
        self._limit_s = limit_s
        self._told = told
        self._child: Child | None = None
        self._answer = -1
        self._until_s = 0.0

    @property
    def is_asking(self) -> bool:
        return self._child is not None

    def ask(self, words: Sequence[str], question: Mapping[str, Any] | None = None) -> None:
        """Starts `stepguard health WORDS…`. What it says on stderr stands in the agent's log."""
        environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        if self._config.path is not None:
            environment["STEPGUARD_CONFIG"] = str(self._config.path)
        asked = -1
        try:
            asked = in_memory(json.dumps(question or {}).encode())
            self._answer = in_memory(b"")
            argv = [*own_command(), "health", *words]
            self._child = spawn(argv, env=environment, stdin=asked, stdout=self._answer, stderr=2, new_session=True)
        except (OSError, ProcessError) as error:
            self.stop()
            self._told({}, f"it cannot be started: {error}")
            return
        finally:
            if asked >= 0:
                os.close(asked)
        self._until_s = time.monotonic() + self._limit_s
        self._selector.register(self._child.pidfd, selectors.EVENT_READ, lambda _: self._ended())

    def look(self) -> None:
        """With each tick of the agent: gives up what takes too long."""
        if self._child is not None and time.monotonic() > self._until_s:
            self.stop()
            self._told({}, f"no answer within {self._limit_s:g} s")

    def stop(self) -> None:
        """Kills what runs, and tells nobody."""
        if self._child is not None:
            self._selector.unregister(self._child.pidfd)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.poll()
            self._child = None
        if self._answer >= 0:
            os.close(self._answer)
            self._answer = -1

    def _ended(self) -> None:
        assert self._child is not None
        content, child = os.pread(self._answer, _ANSWER_BYTES, 0), self._child
        self._selector.unregister(child.pidfd)
        status = child.poll()
        self._child = None
        self.stop()
        try:
            said = json.loads(content)
        except (ValueError, RecursionError):
            said = None
        if isinstance(said, dict):
            self._told(said, "")
        else:
            self._told({}, f"it ended with status {status}")
