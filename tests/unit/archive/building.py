# SPDX-License-Identifier: Apache-2.0
"""Records and index lines for tests of reading, laid out as the archiver lays them out."""

from __future__ import annotations

import datetime
import json
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard

from stepguard.archive.index_lines import Entry
from stepguard.records.manifest import Exit, FindingRecord, Manifest, NodeRecord, StepRecord, to_json

START_S = 1795000000.0  # 2026-11-18 12:26:40 UTC
DAY = "2026/11/18"


def manifest(job_id: str = "12", attempt: int = 0, **fields: Any) -> Manifest:
    """That of a job of two nodes that ran for an hour and ended well."""
    values: dict[str, Any] = {
        "kind": "batch",
        "state": "ended",
        "name": "train",
        "user": "alice",
        "uid": os.geteuid(),
        "partition": "gpu",
        "node_list": "n[1-2]",
        "nodes": ["n1", "n2"],
        "lead_node": "n1",
        "work_dir": "/home/alice/run",
        "start_s": START_S,
        "end_s": START_S + 3600,
        "exit_status": 0,
        "exit_signal": 0,
    }
    return Manifest("lab", job_id, attempt, **{**values, **fields})


def step(step_id: str, argv: Sequence[str], exits: Sequence[Exit] = (), **fields: Any) -> StepRecord:
    """A step on n1 and n2 that ran for a minute."""
    values: dict[str, Any] = {
        "state": "ended",
        "nodes": "n[1-2]",
        "task_count": 4,
        "start_s": START_S + 10,
        "end_s": START_S + 70,
    }
    return StepRecord(step_id, argv=list(argv), exits=list(exits), exits_count=len(exits), **{**values, **fields})


def node(name: str, job_id: str = "12", attempt: int = 0, **fields: Any) -> NodeRecord:
    """A node's part that ended well."""
    values: dict[str, Any] = {"state": "ended", "start_s": START_S, "end_s": START_S + 3600, "gpus": "0-3"}
    return NodeRecord(name, job_id, attempt, **{**values, **fields})


def write_record(
    archive: Path,
    record: Manifest | None = None,
    nodes: Sequence[NodeRecord] = (),
    files: Mapping[str, bytes] | None = None,
    findings: Sequence[FindingRecord] = (),
    day: str = DAY,
    name: str = "",
) -> Path:
    """Writes a record; `files` by their names, .zst ones are compressed here. Returns its directory."""
    key = name or (f"{record.job_id}.{record.attempt}" if record else f"{nodes[0].job_id}.{nodes[0].attempt}")
    directory = archive / "lab" / day / key
    (directory / "nodes").mkdir(parents=True, exist_ok=True)
    if record:
        (directory / "manifest.json").write_text(to_json(record))
    for part in nodes:
        (directory / "nodes" / f"{part.node}.json").write_text(to_json(part))
    for file_name, content in (files or {}).items():
        stored = zstandard.ZstdCompressor().compress(content) if file_name.endswith(".zst") else content
        (directory / file_name).write_bytes(stored)
    if findings:
        (directory / "findings.jsonl").write_text("".join(f"{to_json(one)}\n" for one in findings))
    return directory


def environment_file(values: Mapping[str, str]) -> bytes:
    """The content of env.json."""
    return json.dumps(dict(values)).encode()


def entry(number: int = 12, **fields: Any) -> Entry:
    """The index's entry of a job that ended well."""
    values: dict[str, Any] = {
        "path": f"{DAY}/{number}.0",
        "start_s": START_S,
        "end_s": START_S + 60,
        "state": "ended",
        "exit": "0:0",
        "printed_id": str(number),
        "job_id": str(number),
        "attempt": 0,
        "name": "train",
        "user": "alice",
        "nodes": "n[1-2]",
        "partition": "gpu",
        "resumes": 0,
        "findings": 0,
        "uid": os.geteuid(),
    }
    return Entry(**{**values, **fields})


def many_entries(count: int, seed: int = 4) -> list[Entry]:
    """Entries of jobs of all kinds over 90 days, the oldest first."""
    chance = random.Random(seed)
    entries = []
    for number in range(1, count + 1):
        start_s = START_S - 90 * 86400 * (1 - number / count)
        day = datetime.datetime.fromtimestamp(start_s, datetime.UTC).strftime("%Y/%m/%d")
        first = chance.randrange(1, 93)
        entries.append(
            entry(
                number,
                path=f"{day}/{number}.0",
                start_s=round(start_s, 3),
                end_s=round(start_s + chance.expovariate(1 / 3600), 3),
                exit=chance.choice(["0:0"] * 8 + ["1:0", "0:9"]),
                name=f"train-{chance.randrange(50)}",
                nodes=f"n[{first:03}-{first + 7:03}]",
            )
        )
    return entries
