# SPDX-License-Identifier: Apache-2.0
"""What a node tells of its health to whoever looks at the whole cluster: SPOOL/node.json, which the archiver brings to
DIR/CLUSTER/health/NODE.json. A JSON object with `schema` and the fields of NodeState; times are seconds since 1970."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SCHEMA = 1
MAX_BYTES = 256 << 10
STATUSES = ("ok", "unknown", "warn", "fail")
"""The better first."""
_MAX_TEXT = 1000
# Beyond any time and count; no NaN is below it.
_MAX_NUMBER = 1e15


class MalformedState(ValueError):
    """It is not what a node tells; says why."""


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
    """What a file's content tells; more fields than are known are left aside. Raises MalformedState."""
    if len(content) > MAX_BYTES:
        raise MalformedState(f"larger than {MAX_BYTES} bytes")
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MalformedState("no JSON") from error
    if not isinstance(record, dict) or type(schema := record.get("schema")) is not int:
        raise MalformedState("not what a node tells of its health")
    if schema > SCHEMA:
        raise MalformedState(f"of schema {schema}, and {SCHEMA} is known here: a newer stepguard wrote it")
    values = _checked(record, NodeState, "")
    values["items"] = tuple(StateItem(**_checked(one, StateItem, "items")) for one in record["items"])
    offenders = (_checked(one, StateOffender, "offenders") for one in record["offenders"])
    values["offenders"] = tuple(StateOffender(**{**one, "job_ids": _texts(one["job_ids"])}) for one in offenders)
    statuses = [values["status"], *(item.status for item in values["items"])]
    if unknown := next((status for status in statuses if status not in STATUSES), None):
        raise MalformedState(f"unknown status {unknown!r}")
    return NodeState(**values)


_NUMBERS = {"float": (int, float), "int": (int,)}


def _checked(record: Any, shape: type, where: str) -> dict[str, Any]:
    """The fields of that shape, each of its type."""
    if not isinstance(record, Mapping):
        raise MalformedState(f"{where}: not an object")
    values = {}
    for field in dataclasses.fields(shape):
        value: Any = record.get(field.name)
        wanted = str(field.type)
        if wanted == "str":
            is_right = isinstance(value, str) and len(value) <= _MAX_TEXT
        elif wanted in _NUMBERS:
            is_right = type(value) in _NUMBERS[wanted] and abs(value) < _MAX_NUMBER
        else:
            is_right = isinstance(value, list)
        if not is_right:
            raise MalformedState(f"{where}{'.' if where else ''}{field.name}: missing, or of another type")
        values[field.name] = value
    return values


def _texts(values: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(value, str) and len(value) <= _MAX_TEXT for value in values):
        raise MalformedState("offenders.job_ids: missing, or of another type")
    return tuple(values)
