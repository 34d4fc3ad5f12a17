# SPDX-License-Identifier: Apache-2.0
"""The record of one attempt of a job: manifest.json of the lead node, nodes/NODE.json of every node.

Times are seconds since 1970 as the node's clock had them. What is not known is None or empty, and `missing` says why.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from stepguard.records.health import HealthRecord
from stepguard.records.shape import MalformedRecord, built, document

SCHEMA = 1


@dataclass
class KeptFile:
    """One file of the record, and what of its source was kept.

    `source` is the path it was read from, `what` that file's kind (regular, fifo, device, directory, link, socket,
    absent, unreadable, memory). `size_bytes` is the source's true size, `head_bytes` and `tail_bytes` what was kept of
    it, both 0 when nothing was. `sha256` is that of the file in the record as it is stored. `why` says why something is
    cut or missing.
    """

    name: str = ""
    source: str = ""
    what: str = ""
    size_bytes: int | None = None
    head_bytes: int = 0
    tail_bytes: int = 0
    stored_bytes: int = 0
    sha256: str = ""
    redacted: int = 0
    why: str = ""


@dataclass
class Exit:
    """How one task ended: an exit status, or the signal that ended it."""

    rank: int
    status: int = 0
    signal: int = 0
    end_s: float | None = None


@dataclass
class StepRecord:
    """One step as one node saw it. `exits` are those of the node's tasks, at most 4096; `exits_count` the true number.

    `attempt` counts the attempts of a guarded step. `state`: running, ended, or lost (it never told its end).
    """

    step_id: str
    state: str = "running"
    argv: list[str] = field(default_factory=list)
    nodes: str = ""
    node_count: int | None = None
    task_count: int | None = None
    local_tasks: int | None = None
    attempt: int | None = None
    start_s: float | None = None
    end_s: float | None = None
    exits: list[Exit] = field(default_factory=list)
    exits_count: int = 0


@dataclass
class Missing:
    """Something that the record lacks, and why."""

    what: str
    why: str


@dataclass
class FindingRecord:
    """What was found on a node: a line of findings.jsonl that has `code`, a stable word. `about` is what it is about (a
    node, a step, a variable)."""

    code: str
    text: str
    time_s: float | None = None
    node: str = ""
    step_id: str = ""
    about: str = ""


@dataclass
class ScriptFinding:
    """What check-script says about the job's script as it stands in the record; in findings.jsonl a line that has
    `rule`. `line` and `column` count from 1; `message` says what, `fix` what to write instead.
    """

    rule: str
    kind: str
    severity: str
    line: int
    column: int
    message: str
    fix: str
    schema: int = SCHEMA


@dataclass
class NodeRecord:
    """One node's part of an attempt: nodes/NODE.json. `state`: running, ended, or lost (the node went down under it).

    `last_heard_s` is the time of the last message of a part that was lost.
    `boot_id` tells reboots apart, `gpus` are SLURM_JOB_GPUS. `findings` are those made on this node; the lead node's
    stand in findings.jsonl too. `health`: what became of its devices, where the agent has looked.
    """

    node: str
    job_id: str
    attempt: int
    state: str = "running"
    start_s: float | None = None
    end_s: float | None = None
    boot_id: str = ""
    gpus: str = ""
    steps: list[StepRecord] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    findings: list[FindingRecord] = field(default_factory=list)
    last_heard_s: float | None = None
    health: HealthRecord | None = None
    schema: int = SCHEMA


@dataclass
class Manifest:
    """The record of one attempt. `kind`: batch, interactive (salloc, bare srun), or unknown (no slurmstepd told of it).
    `state`: running, ended, lost. `outcome` is how it ended (archive.outcome.OUTCOMES), `outcome_why` why that is
    believed.

    `exit_status` and `exit_signal` are those that Slurm gives the job, or those of the batch script where Slurm ended
    the job; `derived_exit_status` is the worst of its steps. `argv` are the arguments of the batch script.
    `script_findings` stand in findings.jsonl too.
    """

    cluster: str
    job_id: str
    attempt: int
    kind: str = "interactive"
    state: str = "running"
    array_job_id: str = ""
    array_task_id: str = ""
    het_job_id: str = ""
    het_offset: str = ""
    name: str = ""
    user: str = ""
    uid: int | None = None
    gid: int | None = None
    account: str = ""
    partition: str = ""
    qos: str = ""
    reservation: str = ""
    constraints: str = ""
    comment: str = ""
    node_list: str = ""
    nodes: list[str] = field(default_factory=list)
    lead_node: str = ""
    gpus: str = ""
    work_dir: str = ""
    start_s: float | None = None
    end_s: float | None = None
    exit_status: int | None = None
    exit_signal: int | None = None
    derived_exit_status: int | None = None
    steps: list[StepRecord] = field(default_factory=list)
    files: dict[str, KeptFile] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    resumes: int = 0
    outcome: str = ""
    outcome_why: str = ""
    argv: list[str] = field(default_factory=list)
    script_findings: list[ScriptFinding] = field(default_factory=list)
    last_heard_s: float | None = None
    schema: int = SCHEMA

    @property
    def printed_id(self) -> str:
        """The id as Slurm writes it: 12, 12_3 for a task of an array, 12+1 for a part of a het job."""
        if self.array_job_id:
            return f"{self.array_job_id}_{self.array_task_id}"
        if self.het_job_id:
            return f"{self.het_job_id}+{self.het_offset}"
        return self.job_id


def to_json(record: Any) -> str:
    """A record as one line of ASCII JSON; undecodable bytes become lone surrogates, and come back as they were."""
    return json.dumps(dataclasses.asdict(record), separators=(",", ":"))


def manifest_from(text: str) -> Manifest:
    """A manifest. Raises MalformedRecord: the file belongs to the job's owner, who may write anything into it."""
    return built(Manifest, document(text, SCHEMA))


def node_from(text: str) -> NodeRecord:
    """A node's part. Raises MalformedRecord."""
    return built(NodeRecord, document(text, SCHEMA))


def health_from(text: str) -> HealthRecord:
    """What the agent has told of a node's devices. Raises MalformedRecord."""
    try:
        return built(HealthRecord, json.loads(text))
    except MalformedRecord:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"not JSON: {error}") from error
