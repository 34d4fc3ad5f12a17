# SPDX-License-Identifier: Apache-2.0
"""What a node tells of its health to whoever looks at the whole cluster: SPOOL/node.json, which the archiver brings to
DIR/CLUSTER/health/NODE.json. A JSON object with `schema` and the fields of NodeState; times are seconds since 1970."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from stepguard.records.shape import MalformedRecord, built, document

SCHEMA = 1
MAX_BYTES = 256 << 10
STATUSES = ("ok", "unknown", "warn", "fail")
"""The better first."""


@dataclass(frozen=True)
class StateItem:
    """One thing that is wrong, as in stepguard.health.verdict; `device` is the GPU's address where it concerns one, and
    "" for the node as a whole."""

    source: str
    code: str
    device: str
    status: str
    action: str
    text: str
    since_s: float


@dataclass(frozen=True)
class StateOffender:
    """A GPU that has failed several jobs, the oldest first; `job_count` of them, where not all are named."""

    gpu: str
    job_ids: tuple[str, ...]
    job_count: int
    last_s: float


@dataclass(frozen=True)
class NodeState:
    """How a node is since `at_s`, the worst item first. `left_out`: items that are not named. `offences`: how many jobs
    its worst GPU has failed, where that is too many, else 0."""

    node: str
    status: str
    action: str
    items: tuple[StateItem, ...]
    left_out: int
    offences: int
    offenders: tuple[StateOffender, ...]
    boot_id: str
    at_s: float
    version: str


def to_record(state: NodeState) -> dict[str, Any]:
    """For JSON."""
    return {"schema": SCHEMA, **dataclasses.asdict(state)}


def from_json(content: bytes) -> NodeState:
    """What a file's content tells. Raises MalformedRecord."""
    if len(content) > MAX_BYTES:
        raise MalformedRecord(f"larger than {MAX_BYTES} bytes")
    state = built(NodeState, document(content, SCHEMA))
    for status in (state.status, *(item.status for item in state.items)):
        if status not in STATUSES:
            raise MalformedRecord(f"unknown status {status!r}")
    return state
