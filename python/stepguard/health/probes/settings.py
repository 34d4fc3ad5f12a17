# SPDX-License-Identifier: Apache-2.0
"""What a probe is told by whoever has it run."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepguard.config import Health

# Settings that are the administrator's: keys of [health].
_OF_SITE = (
    "services",
    "mounts",
    "ports",
    "filesystems",
    "memory_free_percent",
    "space_free_percent",
    "inodes_free_percent",
    "zombies",
    "unkillable_s",
)


@dataclass(frozen=True)
class Settings:
    """
    `deadline_s`     it is killed after this time; what hangs it should say so before
    `gpus`           only these: host indices, as in SLURM_JOB_GPUS, or UUIDs; None is all
    `gpus_expected`  how many GPUs the node has in Slurm; None where that is not known
    `dev`            where device files are
    `driver_gpus`    where NVIDIA's driver has a directory for each GPU that it took on, named by PCI address
    `root`           what /sys and /proc are under
    `state`          a directory of its own in which probes remember counters and results; None: they do not
    `ports`          ports of RDMA devices that must be up, as mlx5_0/1; none: all, and one never up may be unused
    `filesystems`    directories that must not be full; one that is not there is left out
    `services`       units of systemd that must be active
    `mounts`         what must be mounted, and answer
    `memory_free_percent`, `space_free_percent`, `inodes_free_percent`  less that is free is a warning
    `zombies`        so many are a warning
    `unkillable_s`   a process that was killed and waits for a device for so long is a fault
    `stress_s`       for how long processors and disks are loaded
    `diagnostic_level`  of dcgmi diag under stress: 2 takes minutes, 3 half an hour
    `max_age_s`      results of stress that are not older are told again
    """

    deadline_s: float = 30.0
    gpus: tuple[str, ...] | None = None
    gpus_expected: int | None = None
    dev: str = "/dev"
    driver_gpus: str = "/proc/driver/nvidia/gpus"
    root: str = "/"
    state: str | None = None
    ports: tuple[str, ...] = ()
    filesystems: tuple[str, ...] = ("/", "/tmp", "/dev/shm", "/var/spool/stepguard")
    services: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    memory_free_percent: float = 1.0
    space_free_percent: float = 5.0
    inodes_free_percent: float = 5.0
    zombies: int = 200
    unkillable_s: float = 60.0
    stress_s: float = 30.0
    diagnostic_level: int = 2
    max_age_s: float = 0.0

    @classmethod
    def of(cls, config: Health, deadline_s: float, state: str | None, gpus_expected: int | None = None) -> Settings:
        """Those of the configuration."""
        of_site: dict[str, Any] = {name: getattr(config, name) for name in _OF_SITE}
        return cls(deadline_s=deadline_s, state=state, gpus_expected=gpus_expected, **of_site)

    def to_text(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_text(cls, text: str) -> Settings:
        """Raises ValueError or TypeError when that is not the text of settings."""
        values: dict[str, Any] = json.loads(text)
        lists: dict[str, Any] = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return cls(**{**values, **lists})
