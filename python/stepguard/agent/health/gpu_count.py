# SPDX-License-Identifier: Apache-2.0
"""How many GPUs the node has in Slurm's configuration. slurmctld is asked for it once after each start of the agent, by
a process of its own, `stepguard health count-gpus`, for it may take long to answer."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
from collections.abc import Mapping
from typing import Any

from stepguard.agent.log import Log
from stepguard.config import Config
from stepguard.errors import ProcessError
from stepguard.process import Child, own_command, spawn

# Where there is no answer: slurmctld is away, or does not know a node of this name.
_AGAIN_S = 600.0
_LIMIT_S = 120.0
_ANSWER_BYTES = 1 << 12


class GpuCount:
    """`expected` is None where it is not known. `state` is what an earlier `state()` gave: it holds until the answer.

    It is asked for where the node has, or had, GPUs of NVIDIA's: with others of that name in Slurm NVML does not count.
    """

    def __init__(self, config: Config, state: Mapping[str, Any], selector: selectors.BaseSelector, log: Log) -> None:
        self._config = config
        self._selector = selector
        self._log = log
        told = state.get("expected")
        self.expected: int | None = told if isinstance(told, int) else None
        self._is_wanted = self.expected is not None
        self._asked = ""
        self._due_s = 0.0
        self._child: Child | None = None
        self._answer = -1
        self._started_s = 0.0
        self._has_changed = False

    def state(self) -> dict[str, Any]:
        return {"expected": self.expected}

    def learn(self, gpus: Mapping[str, object]) -> None:
        """Takes in the GPUs that NVML knows."""
        self._is_wanted |= bool(gpus)

    def look(self, node: str) -> bool:
        """Asks where it is time; `node` is Slurm's name of this node. Returns whether what is known has changed."""
        now_s = time.monotonic()
        if self._child is not None:
            if now_s - self._started_s > _LIMIT_S:
                self._failed(f"no answer within {_LIMIT_S:g} s")
        elif self._is_wanted and (now_s >= self._due_s or node != self._asked):
            self._start(node, now_s)
        has_changed, self._has_changed = self._has_changed, False
        return has_changed

    def stop(self) -> None:
        """Kills what runs, and does not wait."""
        self._end()

    def _start(self, node: str, now_s: float) -> None:
        self._asked, self._started_s, self._due_s = node, now_s, now_s + _AGAIN_S
        environment = {name: value for name, value in os.environ.items() if name != "NOTIFY_SOCKET"}
        if self._config.path is not None:
            environment["STEPGUARD_CONFIG"] = str(self._config.path)
        devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._answer = os.memfd_create("count-gpus", os.MFD_CLOEXEC)
            argv = [*own_command(), "health", "count-gpus", node]
            self._child = spawn(
                argv, env=environment, stdin=devnull, stdout=self._answer, stderr=devnull, new_session=True
            )
        except (OSError, ProcessError) as error:
            self._failed(f"it cannot be started: {error}")
            return
        finally:
            os.close(devnull)
        self._selector.register(self._child.pidfd, selectors.EVENT_READ, lambda _: self._ended())

    def _ended(self) -> None:
        assert self._child is not None
        content = os.pread(self._answer, _ANSWER_BYTES, 0)
        self._end()
        try:
            said = json.loads(content)
            expected, error = said["gpus"], said["error"]
        except (ValueError, KeyError, TypeError):
            expected, error = None, "it does not tell"
        if error:
            self._failed(str(error))
            return
        self._due_s = float("inf")
        self._has_changed = expected != self.expected
        self.expected = expected

    def _failed(self, why: str) -> None:
        self._end()
        self._log.warning(f"how many GPUs {self._asked} has in slurm.conf is not known: {why}", "gpu-count")

    def _end(self) -> None:
        if self._child is not None:
            self._selector.unregister(self._child.pidfd)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.poll()
            self._child = None
        if self._answer >= 0:
            os.close(self._answer)
            self._answer = -1
