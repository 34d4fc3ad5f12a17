# SPDX-License-Identifier: Apache-2.0
"""Where the time between a fault and all ranks training again went: from the job's journal and what was seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Phase:
    """One stretch of that time; the phases of a recovery follow on one another without a gap."""

    name: str
    seconds: float
    what: str


def resumed(journal: Sequence[Record], fault_at: float, again_at: float, replaced: str, loaded: str) -> list[Phase]:
    """The phases when the step went on without a requeue. Times are Unix times on the one clock of the lab.

    `replaced` says how the node was replaced, `loaded` what the program needs to begin.
    """
    end = next(record for record in journal if record["event"] == "end")
    start = next(record for record in journal if record["event"] == "start" and record["attempt"] == 1)
    decide_s = end["decide_s"]
    return [
        Phase("detect", end["time"] - decide_s - fault_at, "stepguard knows that the node is bad"),
        Phase("decide", decide_s, "it has asked Slurm and the nodes, and has its verdict"),
        Phase("replace", start["time"] - end["time"], replaced),
        Phase("relaunch", again_at - start["time"], f"srun again, Python and {loaded} loaded, first step of all ranks"),
    ]


def requeued(journal: Sequence[Record], fault_at: float, again_at: float) -> list[Phase]:
    """The phases when the whole job had to go back into the queue."""
    lost = next(record for record in journal if record["event"] == "batch-host-lost")
    start = next(record for record in journal if record["event"] == "start" and record["attempt"] == 1)
    return [
        Phase("detect", lost["time"] - fault_at, f"{lost['seen_by']} knows that {lost['node']} is lost"),
        Phase("queue", start["time"] - lost["time"], "Slurm has let go of the lost node and started the job again"),
        Phase("relaunch", again_at - start["time"], "srun, Python and numpy loaded, first step of all ranks"),
    ]


def table(phases: Sequence[Phase]) -> str:
    """The phases and their sum, one a line."""
    total_s = sum(phase.seconds for phase in phases)
    rows = [f"  {phase.name:<9}{phase.seconds:7.2f} s  {phase.what}" for phase in phases]
    return "\n".join([*rows, f"  {'':<9}{total_s:7.2f} s  from the fault until all ranks train again"])
