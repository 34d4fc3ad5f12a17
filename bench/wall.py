# SPDX-License-Identifier: Apache-2.0
"""Wall time of a plain srun, allocation and all, with the plugin loaded and without: the option is absent."""

from __future__ import annotations

from collections.abc import Iterable

from bench.paired import Variant, run_rounds
from bench.site import PLUGSTACK, Site
from bench.table import Row

_PART = "wall time, option absent"


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part; slurmstepd reads plugstack.conf anew for each step, so its side is in it."""
    srun = ["srun", "-N1", "true"]
    plugstacks = {"empty plugstack": "", "empty again": "", "stepguard": PLUGSTACK}
    with site.lab(2, plugstack="") as lab:
        variants = [Variant(name, srun, plugstack=plugstack) for name, plugstack in plugstacks.items()]
        taken = run_rounds(lab, variants, site.rounds(60, 5))
    base, *_ = figures = [taken.wall_ms(name) for name in plugstacks]
    for name, value in zip(plugstacks, figures, strict=True):
        yield Row(_PART, f"srun -N1 true: {name}", "ms", value, None if value is base else base)
