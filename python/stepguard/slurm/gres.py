# SPDX-License-Identifier: Apache-2.0
"""What a node's GRES say, as slurmctld shows them: `gpu:h100:8(S:0-1),mps:800` (22.05 to 26.05)."""

from __future__ import annotations

import re

# Which sockets they are near; it may hold commas.
_SOCKETS = re.compile(r"\([^)]*\)")
_GPUS = re.compile(r"gpu(?::([^:]+))?:(\d{1,4})")
# How Slurm names the types of MIG devices (gpu_nvml.c, profile_name): a100_1g.5gb; NVIDIA their profiles: 1g.10gb+me.
_MIG = re.compile(r"\d+g\.\d+gb")


def gpus(gres: str) -> int | None:
    """How many GPUs the node has; None where that is not told: no GPUs are Slurm's, or some are parts of one (MIG)."""
    count = 0
    for one in _SOCKETS.sub("", gres).split(","):
        if one.partition(":")[0] != "gpu":
            continue
        told = _GPUS.fullmatch(one)
        if told is None or _MIG.search(told[1] or ""):
            return None
        count += int(told[2])
    return count or None
