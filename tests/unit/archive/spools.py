# SPDX-License-Identifier: Apache-2.0
"""Attempts in a spool as hooks, slurmstepd and agent leave them, for tests of what becomes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stepguard.archive.steps import expanded
from stepguard.archive.timeline import Message
from stepguard.records import wire
from stepguard.records.spool import COMPLETE, AttemptKey, SpoolLayout, message_name

START_S = 1_795_000_000  # 2026-11-18 12:26:40 UTC
UID, GID = 12345, 23456
SCRIPT = b"#!/bin/bash\nsrun train\n"


@dataclass
class Told:
    """What is told of one attempt on one node. `clock_s` and `boottime_s` are the node's clocks at the next message,
    `array` are the ids of array and task."""

    job_id: int = 12
    attempt: int = 0
    node: str = "n1"
    nodes: str = "n[1-2]"
    uid: int = UID
    boot_id: str = "boot-1"
    clock_s: float = START_S
    boottime_s: float = 1000.0
    array: tuple[int, int] | None = None
    messages: list[Message] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.job_id, self.attempt)

    def after(self, seconds: float) -> Told:
        self.clock_s += seconds
        self.boottime_s += seconds
        return self

    def say(self, kind: str, **fields: bytes | str | int) -> Told:
        """One message, a second after the one before."""
        said: dict[str, bytes | str | int] = {
            "kind": kind,
            "node": self.node,
            "time_ns": int(self.clock_s * 1e9),
            "boottime_ns": int(self.boottime_s * 1e9),
            "boot_id": self.boot_id,
            "job_id": self.job_id,
            **fields,
        }
        encoded = {
            name: value if isinstance(value, bytes) else str(value).encode(errors="surrogateescape")
            for name, value in said.items()
        }
        self.messages.append(Message(len(self.messages) + 1, kind, encoded))
        return self.after(1)

    def hook(self, kind: str, **variables: str) -> Told:
        """What slurmd 22.05 gives to a prolog or an epilog."""
        given = {
            "SLURM_CLUSTER_NAME": "lab",
            "SLURM_JOB_ID": str(self.job_id),
            "SLURM_JOB_UID": str(self.uid),
            "SLURM_JOB_GID": str(GID),
            "SLURM_JOB_USER": "alice",
            "SLURM_JOB_PARTITION": "gpu",
            "SLURM_JOB_CONSTRAINTS": "(null)",
            "SLURM_JOB_WORK_DIR": "/home/alice",
            "SLURM_JOB_GPUS": "0,1",
            "SLURM_NODELIST": self.nodes,
            "SLURM_JOB_NUM_NODES": str(len(expanded(self.nodes))),
            **variables,
        }
        return self.say(kind, environment=environment(given))

    def prolog(self, **variables: str) -> Told:
        return self.hook("prolog", **variables)

    def epilog(self, **variables: str) -> Told:
        exits = {"SLURM_JOB_EXIT_CODE": "256", "SLURM_JOB_EXIT_CODE2": "1:0", "SLURM_JOB_DERIVED_EC": "9"}
        return self.hook("epilog", **{**exits, **variables})

    def batch(self, script: bytes = SCRIPT, /, *arguments: str, **variables: str) -> Told:
        given = {"SLURM_JOB_NAME": "train", "HOME": "/home/alice", **variables}
        content = environment(given)
        words = ["/var/spool/slurmd/job00012/slurm_script", *arguments]
        argv = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in words)
        array = dict(zip(("array_job_id", "array_task_id"), self.array or (), strict=False))
        return self.say(
            "batch",
            **array,
            argv=argv,
            argv_size=len(argv),
            step_id="batch",
            uid=self.uid,
            gid=GID,
            script=script,
            script_size=len(script),
            environment=content,
            environment_size=len(content),
        )

    def output(self) -> Told:
        return self.say(
            "output",
            stdin="/dev/null",
            stdout="/home/alice/out",
            stderr="/home/alice/out",
            stdout_id="1:2:reg",
            stderr_id="1:2:reg",
            work_dir="/home/alice",
        )

    def step_start(self, step_id: int, *argv: str, **fields: bytes | str | int) -> Told:
        words = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in argv)
        facts: dict[str, bytes | str | int] = {
            "node_index": 0,
            "local_tasks": 1,
            "task_count": 2,
            "step_node_list": self.nodes,
            **fields,
        }
        facts.setdefault("node_count", len(expanded(str(facts["step_node_list"]))))
        return self.say(
            "step_start",
            step_id=step_id,
            uid=self.uid,
            gid=GID,
            argv=words,
            argv_size=len(words),
            **facts,
        )

    def step_end(self, step_id: int | str, *exits: tuple[int, int], **fields: bytes | str | int) -> Told:
        """`exits` are ranks and what wait(2) gives; the tasks ended half a second before."""
        ended_ns = int((self.clock_s - 0.5) * 1e9)
        text = b"".join(b"%d %d %d\0" % (rank, status, ended_ns) for rank, status in exits)
        return self.say("step_end", step_id=step_id, uid=self.uid, exits=text, exits_count=len(exits), **fields)

    def raw(self, name: str, content: bytes | None, **meta: str | int) -> Told:
        """What the agent read of a file of the job's; `content` as a whole unless `meta` says otherwise."""
        facts: dict[str, str | int] = {"source": f"/home/alice/{name}", "what": "regular", "why": "", "errno": ""}
        if content is not None:
            facts.update(size_bytes=len(content), head_bytes=len(content), tail_bytes=0)
            self.files[f"{name}.raw"] = content
        self.files[f"{name}.meta"] = json.dumps({**facts, **meta}).encode()
        return self

    def put(self, spool: Path, complete: bool = True, only: slice = slice(None)) -> Path:
        """Into a spool, as the agent leaves it."""
        directory = SpoolLayout(spool).attempt(self.key)
        directory.mkdir(parents=True, exist_ok=True)
        for message in self.messages[only]:
            (directory / message_name(message.sequence, message.kind)).write_bytes(wire.encode(message.fields))
        for name, content in self.files.items():
            (directory / name).write_bytes(content)
        if complete:
            (directory / COMPLETE).touch()
        return directory


def environment(variables: Mapping[str, str]) -> bytes:
    return b"".join(f"{name}={value}".encode(errors="surrogateescape") + b"\0" for name, value in variables.items())


def whole_job(**fields: object) -> Told:
    """A batch job of two nodes, on its lead: one step, whose rank 1 fails."""
    told = Told(**fields)  # type: ignore[arg-type]
    told.prolog().batch().output()
    told.step_start(0, "train", "--lr", "1").after(60).step_end(0, (0, 0), (1, 256)).step_end("batch", (0, 256))
    return told.epilog().raw("stdout", b"epoch 1\nepoch 2\n")
