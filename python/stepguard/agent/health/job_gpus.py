# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a job has here: the host indices in its prolog's environment, by what NVML said at that time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepguard.health.snapshot import job_gpus
from stepguard.records import spool, wire
from stepguard.records.spool import AttemptKey

_VARIABLE = "SLURM_JOB_GPUS"
_REMEMBERED = 1000

Gpus = tuple[str, ...] | None
"""UUIDs, or None: not known, which is all of the node."""


class JobGpus:
    """`state` is what an earlier `state()` gave."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._by_index: dict[str, str] = {str(index): str(uuid) for index, uuid in state.get("by_index", {}).items()}
        self._of: dict[str, tuple[str, ...]] = {
            str(key): tuple(map(str, uuids)) for key, uuids in state.get("of", {}).items()
        }

    def state(self) -> dict[str, Any]:
        return {"by_index": self._by_index, "of": self._of}

    def learn(self, gpus: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes in what NVML's probe has read, by UUID. A GPU that is lost keeps its index until the next boot; with
        MIG, Slurm counts MIG devices, and its indices tell nothing."""
        if any(gpu["mig"]["mode"] for gpu in gpus.values()):
            self._by_index = {}
        else:
            self._by_index |= {str(gpu["index"]): uuid for uuid, gpu in gpus.items()}

    def begin(self, key: AttemptKey, environment: bytes) -> Gpus:
        """Takes in the environment of the attempt's prolog. Returns its GPUs."""
        indices = job_gpus(wire.variables(environment, _VARIABLE).get(_VARIABLE, ""))
        if indices is None or any(index not in self._by_index for index in indices):
            return None
        self._of.pop(str(key), None)
        self._of[str(key)] = tuple(self._by_index[index] for index in indices)
        if len(self._of) > _REMEMBERED:
            del self._of[next(iter(self._of))]
        return self._of[str(key)]

    def of(self, key: AttemptKey, directory: Path) -> Gpus:
        """The GPUs of an attempt whose messages are in this directory."""
        if (known := self._of.get(str(key))) is not None:
            return known
        for _, kind, path in spool.messages(directory):
            if kind == "prolog":
                try:
                    return self.begin(key, wire.decode(path.read_bytes()).get("environment", b""))
                except (OSError, wire.MalformedMessage):
                    return None
        return None
