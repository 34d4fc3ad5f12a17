# SPDX-License-Identifier: Apache-2.0
"""All probes. Their modules are imported by the child that runs them, and nowhere else."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """`deadline_s`: what a probe may take where nobody says how long."""

    module: str
    deadline_s: float


PROBES = {
    # Without persistence mode the driver starts each GPU anew when NVML opens it, which takes seconds a GPU.
    "nvml": Entry("stepguard.health.probes.nvml", 30.0),
}
