# SPDX-License-Identifier: Apache-2.0
"""The environment of the next attempt: what sbatch and salloc told the script about the job, true again.

Slurm changes a job's record when the job is resized, never the environment of what already runs in it, and srun
takes -N and -n from that environment. Tried on 22.05.8, 24.11.5 and 26.05.5.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepguard.slurm.hostlist import fold
from stepguard.slurm.records import Job
from stepguard.slurm.text import cpus_per_node

# What carries our option from sbatch, salloc or an outer srun to the sruns inside ends so, behind several prefixes.
_OWN_OPTION = "_SLURM_SPANK_OPTION_stepguard_auto_resume"
# sbatch and salloc set these with -n, --ntasks-per-node and --ntasks-per-gpu only; srun reads them as -n.
_NUM_TASKS = ("SLURM_NTASKS", "SLURM_NPROCS")


def rebuilt(environment: Mapping[str, str], job: Job, step_num_nodes: int | None = None) -> dict[str, str]:
    """`environment` with the job's nodes as they are now, without our own option's variables.

    The number of tasks stays as the user had it, so that the next attempt has as many ranks. Only where the step has
    to run on another number of nodes, `step_num_nodes`, and the number was that of the nodes times
    SLURM_NTASKS_PER_NODE, it is multiplied out again. SLURM_TASKS_PER_NODE, the old layout, is dropped: srun sets it
    for the tasks.
    """
    new = {name: value for name, value in environment.items() if not name.endswith(_OWN_OPTION)}
    num_nodes = str(len(job.nodes))
    new["SLURM_JOB_NODELIST"] = new["SLURM_NODELIST"] = fold(job.nodes)
    new["SLURM_JOB_NUM_NODES"] = new["SLURM_NNODES"] = num_nodes
    new.pop("SLURM_TASKS_PER_NODE", None)
    cpus = job.cpus_per_node or _as_many_each(new.pop("SLURM_JOB_CPUS_PER_NODE", ""), len(job.nodes))
    if cpus:
        new["SLURM_JOB_CPUS_PER_NODE"] = cpus
    tasks_per_node = environment.get("SLURM_NTASKS_PER_NODE", "")
    old_num_nodes = environment.get("SLURM_JOB_NUM_NODES", "")
    if step_num_nodes is not None and tasks_per_node.isdigit() and old_num_nodes.isdigit():
        derived = str(int(tasks_per_node) * int(old_num_nodes))
        for name in _NUM_TASKS:
            if new.get(name) == derived:
                new[name] = str(int(tasks_per_node) * step_num_nodes)
    return new


def _as_many_each(old: str, num_nodes: int) -> str:
    """ "4(x3)" → "4(x2)" for two nodes, "" where the nodes had not all the same."""
    each = old.partition("(")[0]
    return cpus_per_node([int(each)] * num_nodes) if each.isdigit() and "," not in old else ""
