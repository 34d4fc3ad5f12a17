# SPDX-License-Identifier: Apache-2.0
"""What the messages of an attempt say of the job: from what slurmd gave to the hooks, and from the batch script's own
environment, which alone has its name.

Owner and ids are taken only from what root says: an environment is what its user has made of it, and that of a job that
was submitted from within another has the other's variables. All other values are shown and never acted upon.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepguard.archive.layout import is_safe_name
from stepguard.archive.steps import decode_status, expanded, spans
from stepguard.archive.timeline import Event
from stepguard.records import wire
from stepguard.records.batch import environment_of, is_cut

# Sent by slurmd's hooks and slurmstepd, which are root; `output` comes from the job's own process.
FROM_ROOT = ("prolog", "epilog", "batch", "step_start", "step_end", "finding")
# Field of the manifest → variable of the hooks, or else of the batch script. Slurm 22.05 to 26.05, _build_env() in
# prep_script_slurmd.c and env_array_for_batch_job() in env.c.
_FACTS = {
    "user": "SLURM_JOB_USER",
    "account": "SLURM_JOB_ACCOUNT",
    "partition": "SLURM_JOB_PARTITION",
    "qos": "SLURM_JOB_QOS",  # of the hooks' only since 26.05
    "reservation": "SLURM_JOB_RESERVATION",
    "constraints": "SLURM_JOB_CONSTRAINTS",
    "comment": "SLURM_JOB_COMMENT",
    "work_dir": "SLURM_JOB_WORK_DIR",
    "gpus": "SLURM_JOB_GPUS",
}


_STATUS_MAX = 0xFFFF


class Nodes(NamedTuple):
    """The job's nodes as Slurm writes them and one by one. `are_all`: nothing tells of more."""

    text: str
    names: list[str]
    are_all: bool


class Environments(NamedTuple):
    """What was sent along: slurmd's words (the prolog's, what it lacks from the epilog's), each hook's, the job's,
    and whether some of the job's was left out."""

    hooks: Mapping[str, str]
    prolog: Mapping[str, str]
    epilog: Mapping[str, str]
    batch: Mapping[str, str]
    is_batch_cut: bool = False

    @classmethod
    def of(cls, events: Sequence[Event]) -> Environments:
        found: dict[str, dict[str, str]] = {"prolog": {}, "epilog": {}, "batch": {}}
        for event in events:
            if event.kind in found:
                # Of two prologs the first began the job.
                for name, value in wire.environment(environment_of(event.fields)).items():
                    found[event.kind].setdefault(name, "" if value == "(null)" else value)
        cut = any(event.kind == "batch" and is_cut(event.fields) for event in events)
        return cls({**found["epilog"], **found["prolog"]}, found["prolog"], found["epilog"], found["batch"], cut)

    def value(self, name: str) -> str:
        return self.hooks.get(name) or self.batch.get(name, "")


def facts(environments: Environments) -> dict[str, str]:
    """The plain texts of the manifest, by the names of its fields."""
    found = {field: environments.value(variable) for field, variable in _FACTS.items()}
    return {**found, "name": _name(environments)}


def _name(environments: Environments) -> str:
    """sbatch 22.05 names a job whose script comes on its stdin "sbatch", and does not say so in its environment; other
    clients (slurmrestd) tell no name. SLURM_SUBMIT_HOST is sbatch's."""
    batch = environments.batch
    is_sbatch = "SLURM_SUBMIT_HOST" in batch and not environments.is_batch_cut
    return batch.get("SLURM_JOB_NAME", "sbatch" if is_sbatch else "")


def array_and_het(events: Sequence[Event], environments: Environments, job_id: int) -> dict[str, str]:
    """The ids of a task of an array and of a part of a het job, by the names of the manifest's fields."""
    found: dict[str, str] = {}
    batch = next((event.fields for event in events if event.kind == "batch"), {})
    array_job, array_task = (_digits(wire.text(batch, f"array_{name}")) for name in ("job_id", "task_id"))
    if array_job and array_task:
        found.update(array_job_id=array_job, array_task_id=array_task)
    if het_job := het_job_of(environments):
        # The parts of a het job get consecutive ids at its submission (_submit_het_job() in slurmctld's proc_req.c).
        found.update(het_job_id=het_job, het_offset=str(max(job_id - int(het_job), 0)))
    return found


def het_job_of(environments: Environments) -> str:
    """The id of the het job's first part, as slurmd told a hook; "" of any other job. Slurm sets no such variable for
    batch scripts (22.05 to 26.05, by trial), so one that is there is the user's or another job's."""
    return _digits(environments.hooks.get("SLURM_HET_JOB_ID", ""))


def owner(events: Sequence[Event]) -> tuple[int | None, int | None]:
    """User and group id of the job; the first that was told counts."""
    uids: list[int | None] = []
    gids: list[int | None] = []
    for event in events:
        if event.kind in FROM_ROOT:
            hook = event.kind in ("prolog", "epilog")
            words = wire.environment(event.fields.get("environment", b"")) if hook else {}
            uids += [_id(words, "SLURM_JOB_UID"), wire.number(event.fields, "uid")]
            gids += [_id(words, "SLURM_JOB_GID"), wire.number(event.fields, "gid")]
    return next((one for one in uids if one is not None), None), next((one for one in gids if one is not None), None)


def node_name(events: Sequence[Event]) -> str:
    """The node's name in Slurm; "" where nobody told."""
    names = (wire.text(event.fields, "node") for event in events if event.kind in FROM_ROOT)
    return next((name for name in names if is_safe_name(name)), "")


def cluster_name(environments: Environments) -> str:
    """The cluster as slurmd named it to a hook; "" where no hook ran."""
    name = environments.hooks.get("SLURM_CLUSTER_NAME", "")
    return name if is_safe_name(name) else ""


def nodes_of(node: str, events: Sequence[Event], environments: Environments) -> Nodes:
    """The job's nodes as `node` was told them: the first list that names as many as slurmd says that the job has.

    Without PrologFlags=Alloc, slurmd names to the prolog of a node on which steps alone run but the nodes of the step,
    and to the epilog of one that left the job but those that left with it; the number is right then too (22.05 to
    26.05, by trial). What a step tells comes last: srun has it from its environment.
    """
    told: list[tuple[str, int | None]] = []
    for hook in (environments.prolog, environments.epilog):
        told += [(hook.get(name, ""), _count(hook)) for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST")]
    count = _count(environments.hooks)
    told += [(environments.batch.get("SLURM_JOB_NODELIST", ""), count)]
    told += [(text, count) for text in _lists_of_steps(node, events)]
    found = [Nodes(text, names, wanted in (None, len(names))) for text, wanted in told if (names := expanded(text))]
    whole = next((one for one in found if one.are_all and node in one.names), None)
    return whole or (found[0]._replace(are_all=False) if found else Nodes("", [], False))


def _count(hook: Mapping[str, str]) -> int | None:
    return int(_digits(hook.get("SLURM_JOB_NUM_NODES", "")) or 0) or None


def _lists_of_steps(node: str, events: Sequence[Event]) -> list[str]:
    """What steps tell of the job's nodes, best first. One that spans parts of a het job names the nodes of all of them,
    also as the job's; that it is alone in its part, this node knows all the same."""
    jobs, steps, alone = [], [], []
    for event in events:
        if event.kind != "step_start":
            continue
        job_list, step_list = (wire.text(event.fields, f"{of}_node_list") for of in ("job", "step"))
        node_count = wire.number(event.fields, "node_count")
        if not spans(expanded(step_list), node_count):
            jobs.append(job_list)
            steps.append(step_list)
        elif node_count == 1:
            alone.append(node)
    return [*jobs, *steps, *alone]


def exit_codes(environments: Environments) -> tuple[tuple[int, int] | None, int | None]:
    """Exit status and signal of the job, and the worst status of its steps, as the epilog was told, if it was.

    SLURM_JOB_EXIT_CODE2 is "status:signal", the two others are what wait(2) gives (slurm.conf(5) names them so of
    EpilogSlurmctld; 22.05 to 26.05, by trial of Epilog too). That is 16 bits: more is Slurm's NO_VAL.
    """
    epilog = environments.epilog
    job: tuple[int, int] | None = None
    if match := re.fullmatch(r"([0-9]{1,3}):([0-9]{1,3})", epilog.get("SLURM_JOB_EXIT_CODE2", ""), re.ASCII):
        job = int(match[1]), int(match[2])
    elif (status := _digits(epilog.get("SLURM_JOB_EXIT_CODE", ""))) and int(status) <= _STATUS_MAX:
        job = decode_status(int(status))
    derived = None
    if (status := _digits(epilog.get("SLURM_JOB_DERIVED_EC", ""))) and int(status) <= _STATUS_MAX:
        exit_status, signal = decode_status(int(status))
        derived = 128 + signal if signal else exit_status
    return job, derived


def limit_s(environments: Environments) -> float | None:
    """When the time limit ends the job, as the prolog was told: since Slurm 23.02."""
    told = _digits(environments.prolog.get("SLURM_JOB_END_TIME", ""))
    return float(told) if told and int(told) else None


def ended_s(environments: Environments) -> float | None:
    """Slurm's End of the job, in whole seconds of the controller's clock, as the epilog was told: since 23.02."""
    told = _digits(environments.epilog.get("SLURM_JOB_END_TIME", ""))
    return float(told) if told and int(told) else None


def _digits(text: str) -> str:
    return text if re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) else ""


def _id(words: Mapping[str, str], name: str) -> int | None:
    digits = _digits(words.get(name, ""))
    return int(digits) if digits else None
