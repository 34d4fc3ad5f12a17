# SPDX-License-Identifier: Apache-2.0
"""The sruns of the next attempt: the user's own command line on the placement's nodes, one a job, and what each of
their tasks is told of its place in the whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepguard.config import Resume
from stepguard.resume import places
from stepguard.resume.helper_job import HelperJob
from stepguard.resume.layout import Layout
from stepguard.resume.parts import Plan
from stepguard.slurm.environment import rebuilt
from stepguard.slurm.hostlist import fold
from stepguard.slurm.records import ClusterConfig, Job
from stepguard.slurm.srun_arguments import SrunCommand, with_overrides

# What of the user's own placement the new node list replaces.
_REPLACED = {"exclude", "nodefile", "relative", "mem-per-cpu", "mem-per-gpu"}
# With a host for every task (--distribution=arbitrary) nothing else may say where tasks go: 24.11 refuses -N.
_PLACED_BY_HOST = {"nodes", "gpus", "ntasks-per-node", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket"}
_HIDDEN_VARIABLES = (
    *("SLURM_GPUS", "SLURM_HOSTFILE", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_CORE"),
    *("SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_SOCKET"),
)
_JOB_PATTERN = re.compile(r"%(\d*)([jJsAa])")


class Memory(NamedTuple):
    """What is kept of the first attempt for all later ones: its layout, its step id, and what its tasks were told."""

    layout: Layout | None
    step_id: str
    told: Mapping[str, str]


def uses_pmi(command: SrunCommand, cluster: ClusterConfig, config: Resume) -> bool:
    """Whether the tasks find one another through PMI: they ask srun then, which knows of its own step only."""
    return config.pmi == "auto" and (command.mpi or cluster.mpi_default or "none") != "none"


def plans(
    command: SrunCommand,
    environment: Mapping[str, str],
    job: Job,
    nodes: Sequence[str],
    helpers: Sequence[HelperJob],
    memory: Memory | None,
    new_num_nodes: int | None,
) -> list[Plan]:
    """The parts of an attempt on `nodes`. Without `memory` Slurm numbers the ranks, as it likes."""
    base = rebuilt(environment, job, new_num_nodes)
    if memory is None or memory.layout is None:
        return [Plan(job.id, _one_srun(command, nodes), base)]
    layout = memory.layout.moved_to(nodes)
    if not helpers and layout.nodes == tuple(nodes):
        return [Plan(job.id, _one_srun(command, nodes), base)]
    lent = {name for helper in helpers for name in helper.nodes}
    shares = [(job.id, [name for name in layout.nodes if name not in lent])]
    shares += [(helper.id, [name for name in layout.nodes if name in helper.nodes]) for helper in helpers]
    shown = {name: base.pop(name) for name in _HIDDEN_VARIABLES if name in base}
    constants = {**shown, **memory.told, **_constants(job, layout, helpers, memory.step_id)}
    first = next(slot.node for slot in layout.slots if 0 in slot.ranks)
    used = [(job_id, names) for job_id, names in shares if names]
    made = []
    for job_id, names in used:
        is_helper, leads = job_id != job.id, first in names
        own = {**constants, "STEPGUARD_HELPER_JOB_ID": job_id} if is_helper else constants
        rows = [(number, slot) for number, slot in enumerate(layout.slots) if slot.node in names]
        words = _part_srun(command, environment, job, job_id, layout, names, leads, memory.step_id)
        told = {**base, places.VARIABLE: places.entry(own, rows)}
        made.append(Plan(job_id, words, told, leads, is_helper, alone=len(used) == 1))
    return made


def _common(command: SrunCommand) -> dict[str, str | None]:
    """The old step may hold its resources until Slurm itself has noticed that a node is dead. --overlap shares CPUs and
    GRES with it, but not memory that is asked for, be it by SLURM_MEM_PER_CPU in the batch script's environment
    ("Memory required by task is not available", 22.05.8); --mem=0 asks for what the job has. Output is appended to
    that of the attempts before."""
    options: dict[str, str | None] = {"overlap": None, "mem": "0"}
    return options if command.open_mode else {**options, "open-mode": "append"}


def _one_srun(command: SrunCommand, nodes: Sequence[str]) -> list[str]:
    """Slurm places the tasks as it did at first."""
    where = {"nodes": str(len(nodes)), "nodelist": ",".join(nodes)}
    return with_overrides(command, {**where, **_common(command)}, drop=_REPLACED)


def _part_srun(
    command: SrunCommand,
    environment: Mapping[str, str],
    job: Job,
    job_id: str,
    layout: Layout,
    nodes: Sequence[str],
    leads: bool,
    step_id: str,
) -> list[str]:
    """A host for each task in the order of ranks, so that labels and %t are the whole's where one job has all tasks."""
    hosts = layout.by_rank(nodes)
    options: dict[str, str | None] = {
        **_common(command),
        "jobid": job_id,
        "nodelist": ",".join(hosts),
        "ntasks": str(len(hosts)),
        "distribution": "arbitrary",
    }
    if gpus := command.value("gpus") or environment.get("SLURM_GPUS", ""):
        options["gpus-per-node"] = _each(gpus, len(layout.slots))
    for name in ("output", "error", "input"):
        if value := command.value(name):
            options[name] = _of_the_whole(value, job, step_id)
    if not leads:
        options["quiet"] = None
        if command.input in ("", "all") or command.input.isdigit():
            options["input"] = "none"
    return with_overrides(command, options, drop=_REPLACED | _PLACED_BY_HOST)


def _each(gpus: str, num_nodes: int) -> str:
    """A number of GPUs for a whole step ("a100:8") as one for each node, rounded up."""
    kind, colon, count = gpus.rpartition(":")
    return f"{kind}{colon}{-(-int(count) // num_nodes)}" if count.isdigit() else gpus


def _of_the_whole(pattern: str, job: Job, step_id: str) -> str:
    """A file name pattern in which the ids are those of the job, also in a helper (srun(1), FILENAME PATTERN)."""
    ids = {
        "j": job.id,
        "J": f"{job.id}.{step_id}",
        "s": step_id,
        "A": job.array_job_id or job.id,
        "a": job.array_task_id or "4294967294",
    }
    if "\\" in pattern:  # takes away the meaning of every %
        return pattern
    return _JOB_PATTERN.sub(lambda found: ids[found[2]].rjust(int(found[1] or 0), "0"), pattern)


def _constants(job: Job, layout: Layout, helpers: Sequence[HelperJob], step_id: str) -> dict[str, str]:
    lent = [name for helper in helpers for name in helper.nodes]
    all_nodes = tuple(dict.fromkeys((*layout.nodes, *job.nodes, *lent)))
    num_nodes, num_tasks = str(len(layout.slots)), str(layout.num_tasks)
    step_nodes, job_nodes = fold(layout.nodes), fold(all_nodes)
    return {
        "SLURM_JOB_ID": job.id,
        "SLURM_JOBID": job.id,
        "SLURM_STEP_ID": step_id,
        "SLURM_STEPID": step_id,
        "SLURM_NTASKS": num_tasks,
        "SLURM_NPROCS": num_tasks,
        "SLURM_STEP_NUM_TASKS": num_tasks,
        "SLURM_NNODES": num_nodes,
        "SLURM_STEP_NUM_NODES": num_nodes,
        "SLURM_JOB_NUM_NODES": str(len(all_nodes)),
        "SLURM_TASKS_PER_NODE": layout.tasks_per_node,
        "SLURM_STEP_TASKS_PER_NODE": layout.tasks_per_node,
        "SLURM_STEP_NODELIST": step_nodes,
        "SLURM_NODELIST": job_nodes,
        "SLURM_JOB_NODELIST": job_nodes,
    }
