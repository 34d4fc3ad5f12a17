# SPDX-License-Identifier: Apache-2.0
"""Records of jobs in the lab: a cluster whose nodes keep them, and what lies in the archive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import zstandard

from guarded import PLUGSTACK, until
from lab.cluster import Cluster
from product import installed
from stepguard.records.manifest import Manifest, NodeRecord, StepRecord, manifest_from, node_from

CLUSTER = "lab"
ARCHIVED_S = 30.0


def recording_lab(
    nodes: int, agents: str = "", *, gpus: int = 0, cpus: int = 8, slurm_conf: Mapping[str, str] | None = None
) -> Cluster:
    """A cluster with an agent on each node, prolog, epilog and the plugin. `agents` is more of stepguard.toml."""
    return Cluster(
        nodes,
        gpus_per_node=gpus,
        slurm_conf=slurm_conf,
        plugstack=PLUGSTACK,
        prefix=installed(),
        cpus_per_node=cpus,
        agents=agents,
    )


@dataclass(frozen=True)
class Record:
    """One attempt's record as it lies in the archive."""

    path: Path

    @cached_property
    def manifest(self) -> Manifest:
        return manifest_from((self.path / "manifest.json").read_text())

    @cached_property
    def nodes(self) -> dict[str, NodeRecord]:
        """The nodes' parts that are there."""
        return {path.stem: node_from(path.read_text()) for path in (self.path / "nodes").glob("*.json")}

    @property
    def is_whole(self) -> bool:
        """The attempt has ended, and all of its nodes have told their part."""
        if not (self.path / "manifest.json").exists() or self.manifest.state == "running":
            return False
        return bool(self.manifest.nodes) and set(self.manifest.nodes) <= set(self.nodes)

    @property
    def lacks(self) -> list[str]:
        """What the record says it lacks."""
        parts: list[Manifest | NodeRecord] = [self.manifest, *self.nodes.values()]
        return sorted({f"{missing.what}: {missing.why}" for part in parts for missing in part.missing})

    @property
    def script(self) -> bytes:
        return (self.path / "script").read_bytes()

    @property
    def environment(self) -> dict[str, str]:
        return dict(json.loads((self.path / "env.json").read_text()))

    def output(self, name: str = "stdout") -> bytes:
        """What was kept of an output."""
        content = (self.path / f"{name}.zst").read_bytes()
        return zstandard.ZstdDecompressor().decompressobj().decompress(content)

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The lines of resumes.jsonl or findings.jsonl; none where there is no such file."""
        path = self.path / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def step(self, step_id: str) -> StepRecord:
        """A step as the lead node saw it."""
        return next(step for step in self.manifest.steps if step.step_id == step_id)


def find(lab: Cluster, job_id: str, attempt: int = 0) -> Record | None:
    """The record of an attempt, by the raw job id; None where there is none yet."""
    found = list((lab.archive / CLUSTER).glob(f"*/*/*/{job_id}.{attempt}"))
    assert len(found) < 2, f"two records of one attempt: {found}"
    return Record(found[0]) if found else None


def record_of(lab: Cluster, job_id: str, attempt: int = 0, within_s: float = ARCHIVED_S) -> Record:
    """Waits until the record of an attempt is whole, and returns it."""

    def whole() -> Record | None:
        record = find(lab, job_id, attempt)
        return record if record is not None and record.is_whole else None

    try:
        return until(f"the record of job {job_id}.{attempt}", whole, within_s, 0.1)  # type: ignore[no-any-return]
    except AssertionError as error:
        raise AssertionError(f"{error}\n{_situation(lab, job_id, attempt)}") from None


def await_records(lab: Cluster, job_ids: Iterable[str], within_s: float) -> dict[str, Record]:
    """Waits for the whole first attempts of many jobs."""
    missing, found = set(job_ids), dict[str, Record]()

    def all_whole() -> bool:
        for job_id in sorted(missing):
            record = find(lab, job_id)
            if record is not None and record.is_whole:
                found[job_id] = record
        missing.difference_update(found)
        return not missing

    try:
        until("all records", all_whole, within_s, 0.5)
    except AssertionError as error:
        told = "\n".join(_situation(lab, job_id, 0) for job_id in sorted(missing)[:5])
        raise AssertionError(f"{error}: {len(missing)} are not: {sorted(missing)}\n{told}") from None
    return found


def _situation(lab: Cluster, job_id: str, attempt: int) -> str:
    """What there is of an attempt, in archive and spools, and what the agents have said."""
    lines = []
    if record := find(lab, job_id, attempt):
        lines.append(f"{record.path}: {sorted(path.name for path in record.path.rglob('*'))}")
        if (record.path / "manifest.json").exists():
            lines.append((record.path / "manifest.json").read_text()[:2000])
    for node in lab.nodes:
        spooled = lab.agents.spool(node) / "jobs" / f"{job_id}.{attempt}"
        if spooled.exists():
            lines.append(f"spool of {node}: {sorted(path.name for path in spooled.iterdir())}")
        lines.append(f"agent of {node}:\n{lab.agents.log(node)[-1500:]}")
    return "\n".join(lines)


def submit(lab: Cluster, body: str, *options: str, user: str = "alice", **more: Any) -> str:
    """Submits a batch script of these lines, in the user's home; its id."""
    argv = ["sbatch", "--parsable", *options]
    return lab.run(argv, user=user, text_in=f"#!/bin/bash\n{body}\n", **more).stdout.strip()


def job_state(lab: Cluster, job_id: str) -> str:
    """Slurm's word for a job now."""
    shown = lab.run(["scontrol", "-o", "show", "job", job_id], user="root").stdout
    return next(word.partition("=")[2] for word in shown.split() if word.startswith("JobState="))


def await_state(lab: Cluster, job_id: str, *states: str, within_s: float = 60) -> None:
    """Waits until the job is in one of these states."""
    until(f"job {job_id} in {states}", lambda: job_state(lab, job_id) in states, within_s, 0.2)


def await_scripts(lab: Cluster, node: str, command: str, count: int = 1) -> None:
    """Waits until so many scripts run `command` on the node: a job is RUNNING before its prolog has begun."""
    until(f"{command} runs on {node}", lambda: [*lab.processes(node).values()].count(f"{command} ") == count, 60)
