# SPDX-License-Identifier: Apache-2.0
"""The sruns of the next attempt: the user's own command line on the placement's nodes, one a job, and what each of
their tasks is told of its place in the whole."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepguard.config import Resume
from stepguard.resume import places
from stepguard.resume.helper_job import HelperJob
from stepguard.resume.layout import Layout
from stepguard.resume.parts import Plan, Relaunch, one_srun
from stepguard.slurm.environment import rebuilt
from stepguard.slurm.hostlist import fold
from stepguard.slurm.records import ClusterConfig, Job
from stepguard.slurm.srun_arguments import SrunCommand, with_overrides
from stepguard.slurm.text import cpus_of_nodes, cpus_per_node

# What of the user's own placement the new node list replaces.
_REPLACED = {"exclude", "nodefile", "relative", "mem-per-cpu", "mem-per-gpu", "exclusive"}
# With a host for every task (--distribution=arbitrary) nothing else may say where tasks go: 24.11 refuses -N.
_PLACED_BY_HOST = {"nodes", "gpus", "ntasks-per-node", "ntasks-per-core", "ntasks-per-gpu", "ntasks-per-socket"}
_HIDDEN_VARIABLES = (
    *("SLURM_GPUS", "SLURM_HOSTFILE", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_CORE"),
    *("SLURM_NTASKS_PER_GPU", "SLURM_NTASKS_PER_SOCKET"),
)
_JOB_PATTERN = re.compile(r"%(\d*)([%jJsAa])")


class Memory(NamedTuple):
    """What is kept of an attempt for the next one: its layout, and what Slurm told its tasks."""

    layout: Layout | None
    told: Mapping[str, str]


def uses_pmi(command: SrunCommand, cluster: ClusterConfig, config: Resume) -> bool:
    """Whether the tasks find one another through PMI: they ask srun then, which knows of its own step only."""
    return config.pmi == "auto" and (command.mpi or cluster.mpi_default or "none") != "none"


def relaunch(
    command: SrunCommand,
    environment: Mapping[str, str],
    job: Job,
    nodes: Sequence[str],
    helpers: Sequence[HelperJob],
    memory: Memory | None,
    new_num_nodes: int | None,
) -> Relaunch:
    """An attempt on `nodes`. Without `memory` Slurm numbers the ranks, as it likes."""
    base = rebuilt(environment, job, new_num_nodes)
    layout = memory.layout.moved_to(nodes) if memory and memory.layout else None
    if memory is None or layout is None or (not helpers and layout.nodes == tuple(nodes)):
        return one_srun(Plan(job.id, _as_before(command, nodes), base))
    gpus = command.value("gpus") or base.get("SLURM_GPUS", "")
    shown = {name: base.pop(name) for name in _HIDDEN_VARIABLES if name in base}
    whole = _Whole(command, job, layout, gpus, {**shown, **memory.told, **_constants(job, layout, helpers)})
    lent = {name for helper in helpers for name in helper.nodes}
    own_nodes = [name for name in layout.nodes if name not in lent]
    return Relaunch(
        Plan(
            job.id,
            whole.words(job.id, own_nodes),
            {**base, places.VARIABLE: whole.entry(own_nodes)},
            leads=whole.leads(own_nodes),
            alone=not helpers,
        ),
        lambda step_id: [_in_helper(whole, helper, step_id, base) for helper in helpers],
    )


def _in_helper(whole: _Whole, helper: HelperJob, step_id: str, base: Mapping[str, str]) -> Plan:
    """The part of one helper. Its srun reads of its own job in the environment, its tasks are told of the whole."""
    folded, number = fold(helper.nodes), str(len(helper.nodes))
    own = {"SLURM_JOB_NODELIST": folded, "SLURM_NODELIST": folded}
    own |= {"SLURM_JOB_NUM_NODES": number, "SLURM_NNODES": number}
    told = {"STEPGUARD_HELPER_JOB_ID": helper.id}
    if step_id:
        told |= {"SLURM_STEP_ID": step_id, "SLURM_STEPID": step_id}
    return Plan(
        helper.id,
        whole.words(helper.id, helper.nodes, step_id),
        {**base, **own, places.VARIABLE: whole.entry(helper.nodes, told)},
        leads=whole.leads(helper.nodes),
        helper=True,
        alone=False,
    )


@dataclass(frozen=True)
class _Whole:
    """The step of which parts are made; `gpus` is what --gpus asks for the whole of it."""

    command: SrunCommand
    job: Job
    layout: Layout
    gpus: str
    constants: Mapping[str, str]

    def leads(self, nodes: Sequence[str]) -> bool:
        """Whether rank 0 is on one of these nodes."""
        return any(0 in slot.ranks for slot in self.layout.slots if slot.node in nodes)

    def entry(self, nodes: Sequence[str], told: Mapping[str, str] | None = None) -> str:
        """What tells the tasks on these nodes their places."""
        rows = [(number, slot) for number, slot in enumerate(self.layout.slots) if slot.node in nodes]
        return places.entry({**self.constants, **(told or {})}, rows)

    def words(self, job_id: str, nodes: Sequence[str], step_id: str = "") -> list[str]:
        """A host for each task in the order of ranks: labels and %t are the whole's where one job has all tasks.

        `step_id` is that of the step in the job, for a part in another one; "" where it was too short to be seen.
        """
        command, hosts = self.command, self.layout.by_rank(nodes)
        options: dict[str, str | None] = {
            **_common(command),
            "open-mode": "append",  # two sruns that truncate one file overwrite one another
            "jobid": job_id,
            "nodelist": ",".join(hosts),
            "ntasks": str(len(hosts)),
            "distribution": "arbitrary",
        }
        if self.gpus:
            options["gpus-per-node"] = _each(self.gpus, len(self.layout.slots))
        if job_id != self.job.id:
            for name in ("output", "error", "input"):
                if value := command.value(name):
                    options[name] = _of_the_job(value, self.job, step_id)
        if not self.leads(nodes):
            options["quiet"] = None
            if command.input in ("", "all") or command.input.isdigit():
                options["input"] = "none"
        return with_overrides(command, options, drop=_REPLACED | _PLACED_BY_HOST)


def _common(command: SrunCommand) -> dict[str, str | None]:
    """The old step may hold its resources until Slurm itself has noticed that a node is dead. --overlap shares CPUs and
    GRES with it, but not memory that is asked for, be it by SLURM_MEM_PER_CPU in the batch script's environment
    ("Memory required by task is not available", 22.05.8); --mem=0 asks for what the job has. Output is appended to
    that of the attempts before."""
    options: dict[str, str | None] = {"overlap": None, "mem": "0"}
    if command.given("exclusive"):  # srun takes it with --overlap as a contradiction; for a step it means this too
        options["exact"] = None
    return options if command.open_mode else {**options, "open-mode": "append"}


def _as_before(command: SrunCommand, nodes: Sequence[str]) -> list[str]:
    """Slurm places the tasks as it did at first."""
    where = {"nodes": str(len(nodes)), "nodelist": ",".join(nodes)}
    return with_overrides(command, {**where, **_common(command)}, drop=_REPLACED)


def _each(gpus: str, num_nodes: int) -> str:
    """A number of GPUs for a whole step ("a100:8") as one for each node, rounded up."""
    kind, colon, count = gpus.rpartition(":")
    return f"{kind}{colon}{-(-int(count) // num_nodes)}" if count.isdigit() else gpus


def _of_the_job(pattern: str, job: Job, step_id: str) -> str:
    """A file name pattern with the ids of the job in place of the helper's (srun(1), FILENAME PATTERN)."""
    ids = {
        "j": job.id,
        "J": f"{job.id}.{step_id}" if step_id else "",
        "s": step_id,
        "A": job.array_job_id or job.id,
        "a": job.array_task_id,
    }
    if "\\" in pattern:  # takes away the meaning of every %
        return pattern

    def replaced(found: re.Match[str]) -> str:
        text = ids.get(found[2], "")
        return text.rjust(int(found[1] or 0), "0") if text else found[0]

    return _JOB_PATTERN.sub(replaced, pattern)


def _constants(job: Job, layout: Layout, helpers: Sequence[HelperJob]) -> dict[str, str]:
    all_nodes = (*layout.nodes, *(name for name in job.nodes if name not in layout.nodes))
    num_nodes, num_tasks = str(len(layout.slots)), str(layout.num_tasks)
    step_nodes, job_nodes = fold(layout.nodes), fold(all_nodes)
    constants = {
        "SLURM_JOB_ID": job.id,
        "SLURM_JOBID": job.id,
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
    cpus: dict[str, int] = {}
    for nodes, text in ((job.nodes, job.cpus_per_node), *((h.nodes, h.cpus_per_node) for h in helpers)):
        cpus |= dict(zip(nodes, cpus_of_nodes(text), strict=False))
    if cpus.keys() >= set(all_nodes):
        constants["SLURM_JOB_CPUS_PER_NODE"] = cpus_per_node(cpus[name] for name in all_nodes)
    return constants
