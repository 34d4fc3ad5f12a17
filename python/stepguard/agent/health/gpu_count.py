# SPDX-License-Identifier: Apache-2.0
"""How many GPUs the node has in Slurm's configuration. slurmctld is asked for it once after each start of the agent
(`stepguard health count-gpus`)."""

from __future__ import annotations

import selectors
import time
from collections.abc import Mapping
from typing import Any

from stepguard.agent.health.asker import Asker
from stepguard.agent.log import Log
from stepguard.config import Config

# Where there is no answer: slurmctld is away, or does not know a node of this name.
_AGAIN_S = 600.0
_LIMIT_S = 120.0


class GpuCount:
    """`expected` is None where it is not known. `state` is what an earlier `state()` gave: it holds until the answer.

    It is asked for where the node has, or had, GPUs of NVIDIA's: with others of that name in Slurm NVML does not count.
    """

    def __init__(self, config: Config, state: Mapping[str, Any], selector: selectors.BaseSelector, log: Log) -> None:
        self._log = log
        self._asker = Asker(config, selector, _LIMIT_S, self._told)
        told = state.get("expected")
        self.expected: int | None = told if isinstance(told, int) else None
        self._is_wanted = self.expected is not None
        self._asked = ""
        self._due_s = 0.0
        self._has_changed = False

    def state(self) -> dict[str, Any]:
        return {"expected": self.expected}

    def learn(self, gpus: Mapping[str, object]) -> None:
        """Takes in the GPUs that NVML knows."""
        self._is_wanted |= bool(gpus)

    def look(self, node: str) -> bool:
        """Asks where it is time; `node` is Slurm's name of this node. Returns whether what is known has changed."""
        self._asker.look()
        now_s = time.monotonic()
        if self._is_wanted and not self._asker.is_asking and (now_s >= self._due_s or node != self._asked):
            self._asked, self._due_s = node, now_s + _AGAIN_S
            self._asker.ask(["count-gpus", node])
        has_changed, self._has_changed = self._has_changed, False
        return has_changed

    def stop(self) -> None:
        """Kills what runs, and does not wait."""
        self._asker.stop()

    def _told(self, said: Mapping[str, Any], why: str) -> None:
        expected, error = said.get("gpus"), why or said.get("error", "it does not tell")
        if error:
            self._log.warning(f"how many GPUs {self._asked} has in slurm.conf is not known: {error}", "gpu-count")
            return
        self._due_s = float("inf")
        self._has_changed = expected != self.expected
        self.expected = expected if isinstance(expected, int) else None
