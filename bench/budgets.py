# SPDX-License-Identifier: Apache-2.0
"""What it must not cost more than: the design's section "What it must cost", and what was asked for later. The only
numbers of bench/ that were not measured."""

from __future__ import annotations

from dataclasses import dataclass

from bench.figures import Figure


@dataclass(frozen=True)
class Budget:
    """A bound on the median of a row: of its value, of what it is over its base, or of its ratio to that."""

    limit: float
    over_base: bool
    source: str
    ratio: bool = False

    def judged(self, value: Figure, over: Figure | None, ratio: Figure | None) -> Figure:
        """The figure that the budget bounds. Raises ValueError when the row has none."""
        chosen = ratio if self.ratio else over if self.over_base else value
        if chosen is None:
            raise ValueError("this budget needs a base")
        return chosen

    def met(self, value: Figure, over: Figure | None, ratio: Figure | None) -> bool:
        """Whether the median keeps within the budget."""
        return self.judged(value, over, ratio).median <= self.limit


_DESIGN = "design, section 7: "
_SPLICE = "issue 3 (splice), "
_HEALTH = "issue 5 (health), "
_SCRIPTS = "reading job scripts, Speed: "

SRUN_INSTRUCTIONS = Budget(60_000, True, _DESIGN + "srun without the option")
SBATCH_INSTRUCTIONS = Budget(120_000, True, _DESIGN + "sbatch without the option")
GUARDED_START_MS = Budget(80, True, _DESIGN + "srun with the option, first attempt")
RECOVERY_S = Budget(6, False, _DESIGN + "silent node death → all tasks of the next attempt running")
AFTER_DETECTION_S = Budget(0.6, False, _DESIGN + "of which after detection")
GPU_RECOVERY_S = Budget(2, False, _DESIGN + "GPU fault → the same")
SPLICE_S = Budget(7, False, _SPLICE + "Must hold: fault → the step runs again with the same ranks")
SPLICE_AFTER_DECISION_S = Budget(2, False, _SPLICE + "Speed: decision → all tasks of the new attempt running")
HUNDRED_NODES_S = Budget(10, False, _SPLICE + "Must hold: recovery of 100 nodes, by splice and by spare")
HOOKS_RATIO = Budget(1.05, False, _DESIGN + "prolog and epilog, whole job", ratio=True)
HOOKS_RPCS = Budget(0, False, _DESIGN + "RPCs to slurmctld from hooks")
AGENT_MIB = Budget(60, False, _DESIGN + "agent")
AGENT_IDLE_PERCENT = Budget(
    0.2, False, _HEALTH + "Speed: idle of a core with kernel log, events and a 60 s health cycle"
)
SNAPSHOT_MS = Budget(100, False, _HEALTH + "Speed: 8-GPU snapshot")
LINES_LOST = Budget(0, False, _HEALTH + "Must hold: 1,000 kernel lines a second: nothing lost")
LOOK_MS = Budget(2, False, _SCRIPTS + "the shim's pre-check of a 4 MiB script")
CHECKED_SCRIPT_MS = Budget(5, False, _SCRIPTS + "a script in one process, median over the corpus")
CHECK_SCRIPT_MS = Budget(150, False, _SCRIPTS + "check-script of one file from the shell")
