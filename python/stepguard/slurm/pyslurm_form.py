# SPDX-License-Identifier: Apache-2.0
"""The protocol over pyslurm, as far as pyslurm 25.11 goes: nodes and steps without starting a process.

All else is left to the commands. pyslurm does not tell a job managed by --stepmgr and counts one thread a core; its
Job.cancel spares the batch script; its ids of array tasks stand for the whole array; requests have no time limit of
ours. A question that pyslurm fails to answer is asked again by the commands, so that errors are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyslurm

from stepguard.errors import SlurmRefused
from stepguard.slurm.commands import Commands
from stepguard.slurm.hostlist import expand
from stepguard.slurm.records import Node, Step
from stepguard.slurm.text import parse_release

# Slurm major.minor that this pyslurm was built for; the last number is pyslurm's own.
RELEASE = parse_release(pyslurm.__version__)[:2]


class PyslurmForm(Commands):
    """SlurmClient over pyslurm, with the commands underneath."""

    def nodes(self, names: Iterable[str]) -> list[Node]:
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return []
        try:
            found = pyslurm.Nodes.load()
        except pyslurm.RPCError:
            return super().nodes(wanted)
        for name in wanted:
            if name not in found:
                raise SlurmRefused("no such node", name, "see scontrol show node")
        return [_node(found[name]) for name in wanted]

    def all_nodes(self) -> list[Node]:
        try:
            return [_node(node) for node in pyslurm.Nodes.load().values()]
        except pyslurm.RPCError:
            return super().all_nodes()

    def steps(self, job_id: str) -> list[Step]:
        try:
            found = pyslurm.JobSteps.load(int(job_id))
        except (pyslurm.RPCError, KeyError, ValueError):
            # No step yet, or none any more; or an id as "70_3" that is no number.
            return super().steps(job_id)
        return [_step(job_id, step) for step in found.values()]


def _node(node: Any) -> Node:
    return Node(
        name=node.name,
        address=node.address or "",
        port=node.slurmd_port or 6818,
        states=frozenset(word.rstrip("*") for word in node.state.upper().split("+")),
        reason=" ".join((node.reason or "").split()),
        boot_time=node.boot_time or None,
        slurmd_start_time=node.slurmd_start_time or None,
        cpus=node.total_cpus or 0,
        partitions=tuple(node.partitions or []),
        reason_user=(node.reason_user or "") if node.reason else "",
        reason_time=(node.reason_time or None) if node.reason else None,
        comment=node.comment or "",
    )


def _step(job_id: str, step: Any) -> Step:
    # pyslurm splits the host list at its commas, those within brackets too.
    nodes = expand(",".join(step.allocated_nodes or []))
    return Step(
        job_id=job_id,
        id=str(step.id),
        name=step.name or "",
        state=step.state,
        nodes=tuple(nodes),
        srun_host=step.srun_host or "",
        srun_pid=step.srun_process_id or 0,
        num_tasks=step.ntasks or 0,
    )
