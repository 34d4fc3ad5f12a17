# SPDX-License-Identifier: Apache-2.0
"""What a probe is told by whoever has it run."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """
    `deadline_s`     it is killed after this time; what hangs it should say so before
    `gpus`           only these: host indices, as in SLURM_JOB_GPUS, or UUIDs; None is all
    `gpus_expected`  how many GPUs gres.conf gives the node; None where that is not known
    `dev`            where device files are
    `driver_gpus`    where NVIDIA's driver has a directory for each GPU that it took on, named by PCI address
    """

    deadline_s: float = 30.0
    gpus: tuple[str, ...] | None = None
    gpus_expected: int | None = None
    dev: str = "/dev"
    driver_gpus: str = "/proc/driver/nvidia/gpus"

    def to_text(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Settings:
        """Raises ValueError or TypeError when that is not the text of settings."""
        values = json.loads(text)
        if values.get("gpus") is not None:
            values["gpus"] = tuple(values["gpus"])
        return cls(**values)
