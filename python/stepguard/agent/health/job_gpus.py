# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a job has here: the host indices in its prolog's environment, by what NVML said at that time.

Under MIG, Slurm counts MIG devices, and its indices tell nothing. CUDA_VISIBLE_DEVICES does, where gres.conf has
AutoDetect=nvml: MIG-GPU-UUID/INSTANCE/COMPUTE, or the MIG device's own UUID (Slurm's src/plugins/gpu/nvml).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from stepguard.health.snapshot import job_gpus
from stepguard.records import spool, wire
from stepguard.records.spool import AttemptKey

_INDICES, _NAMES = "SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"
_REMEMBERED = 1000

Gpus = tuple[str, ...] | None
"""UUIDs, or None: not known, which is all of the node."""


class JobGpus:
    """`state` is what an earlier `state()` gave."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._by_index: dict[str, str] = {str(index): str(uuid) for index, uuid in state.get("by_index", {}).items()}
        self._mig: dict[str, str] = {str(device): str(uuid) for device, uuid in state.get("mig", {}).items()}
        self._of: dict[str, tuple[str, ...]] = {
            str(key): tuple(map(str, uuids)) for key, uuids in state.get("of", {}).items()
        }

    def state(self) -> dict[str, Any]:
        return {"by_index": self._by_index, "mig": self._mig, "of": self._of}

    def learn(self, gpus: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes in what NVML's probe has read, by UUID. A GPU that is lost keeps its index until the next boot."""
        self._mig |= {device: uuid for uuid, gpu in gpus.items() for device in gpu["mig"].get("devices", ())}
        if any(gpu["mig"]["mode"] for gpu in gpus.values()):
            self._by_index = {}
        else:
            self._by_index |= {str(gpu["index"]): uuid for uuid, gpu in gpus.items()}

    def begin(self, key: AttemptKey, environment: bytes) -> Gpus:
        """Takes in the environment of the attempt's prolog. Returns its GPUs."""
        told = wire.variables(environment, _INDICES, _NAMES)
        indices = job_gpus(told.get(_INDICES, ""))
        if indices is not None and all(index in self._by_index for index in indices):
            gpus = tuple(self._by_index[index] for index in indices)
        elif (named := self._named(told.get(_NAMES, "").split(","))) is not None:
            gpus = named
        else:
            return None
        self._of.pop(str(key), None)
        self._of[str(key)] = gpus
        if len(self._of) > _REMEMBERED:
            del self._of[next(iter(self._of))]
        return self._of[str(key)]

    def places(self, gpus: Collection[str]) -> list[str]:
        """What NVML's probe calls these GPUs when they tell no more than their index (see snapshot.same_gpus)."""
        return [f"GPU {index}" for index, uuid in self._by_index.items() if uuid in gpus]

    def _named(self, names: list[str]) -> Gpus:
        """The GPUs of devices by their UUIDs; None where one is not known, or is told by a number."""
        known = {*self._by_index.values(), *self._mig.values()}
        found = dict.fromkeys(
            self._mig.get(name) or name.removeprefix("MIG-").partition("/")[0] for name in names if name.strip()
        )
        return tuple(found) if found and found.keys() <= known else None

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
