# SPDX-License-Identifier: Apache-2.0
"""What the agent tells those who ask: its own state, and what this node knows of its hardware."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stepguard import __version__
from stepguard.agent.attempts import Attempt
from stepguard.faults import SOURCE, local_faults
from stepguard.health.discretion import item_for_all
from stepguard.health.marking import REASONS
from stepguard.health.model import Action, FaultClass, Status
from stepguard.health.verdict import Item, NodeVerdict, verdict_of

SCHEMA = 1
# The code of the finding that the gate leaves in the record of a job that it refuses.
GATE = "gate"
# The source of the findings that are not from the fault file.
AGENT = "agent"
# Faults in the file that need no second opinion: a job must not start here.
_DEFINITE = ("replace", "reboot")
# The class of what a probe has found.
_CLASSES = {
    Action.REPLACE: FaultClass.HARDWARE_REPLACE,
    Action.REBOOT: FaultClass.REBOOT,
    Action.RESET_GPU: FaultClass.HARDWARE_RESET,
}
_FEW = 5
_NS_PER_S = 1e9


def document(values: Mapping[str, Any]) -> bytes:
    """One JSON document."""
    return json.dumps({"schema": SCHEMA, "version": __version__, **values}).encode()


def job(attempt: Attempt) -> dict[str, Any]:
    """An open attempt, for its owner and for root."""
    return {
        "job_id": attempt.key.job_id,
        "attempt": attempt.key.attempt,
        "uid": attempt.uid,
        "steps": sorted(attempt.open_steps),
        "is_ending": attempt.has_epilog or attempt.closed,
    }


def jobs_of(uid: int, attempts: Sequence[Attempt]) -> bytes:
    """For a user: their own jobs here."""
    return document({"attempts": [job(attempt) for attempt in attempts if attempt.uid == uid]})


def verdict(
    job_id: int, fault_file: Path, health: NodeVerdict, offences: int, is_told: Callable[[Item], bool]
) -> bytes:
    """For the owner of a job: what is wrong with its GPUs here and with the node, and what its own programs did.
    `offences`: how many jobs a GPU of the node has failed, where that is too many, else 0. `is_told`: whether they may
    know all of a thing."""
    findings: list[dict[str, Any]] = [
        {"source": source, "action": action, "text": text} for source, action, text in local_faults(fault_file)
    ]
    findings += [{"source": AGENT, **_item(item if is_told(item) else item_for_all(item))} for item in health.items]
    return document({"job_id": job_id, "status": health.status, "findings": findings, "offences": offences})


def of_its_own(attempt: Attempt, gpus: Sequence[str] | None) -> Callable[[Item], bool]:
    """Whether a thing happened on one of the attempt's GPUs in its time: what befell who had it before is not told."""
    begin_s = attempt.begin_boottime_ns / _NS_PER_S or float("inf")
    return lambda item: gpus is not None and bool(item.gpu) and item.last_s >= begin_s


def with_fault_file(node: NodeVerdict, fault_file: Path) -> NodeVerdict:
    """How the node is, with what its fault file says now."""
    now_s = _now_s()
    said = [
        Item(
            source=SOURCE,
            code=None,
            device="",
            gpu="",
            status=Status.FAIL if action in _DEFINITE else Status.WARN,
            action=Action(action),
            text=text,
            since_s=now_s,
            last_s=now_s,
            count=1,
        )
        for _, action, text in local_faults(fault_file)
    ]
    return verdict_of([*node.items, *said], node.status is not Status.UNKNOWN) if said else node


def health(node: NodeVerdict, told: Mapping[str, Any], *, is_root: bool) -> bytes:
    """How the node is, by all that looks at it."""
    items = [_item(item if is_root else item_for_all(item)) for item in node.items]
    return document({"status": node.status, "action": node.action, "items": items, **told})


def in_short(node: NodeVerdict) -> dict[str, Any]:
    """The same in few words, for the agent's status."""
    return {"status": node.status, "action": node.action, "items": [str(item) for item in node.items[:_FEW]]}


class Gate(NamedTuple):
    """Why a job may not start here; or why it should not, and may all the same. "" for neither."""

    refusal: str = ""
    doubt: str = ""


def gate(fault_file: Path, health: NodeVerdict, obstacle: Callable[[Item], str]) -> Gate:
    """Whether a job may start on this node, which is as `health` says for the job. An administrator's fault file
    decides; what the agent has found, only with the circuit breaker's leave, for every agent may be wrong at once.
    `obstacle`: why no job is refused for a thing that has failed; "" where it is."""
    for _, action, text in local_faults(fault_file):
        if action in _DEFINITE:
            return Gate(refusal=f"{action}: {text}")
    failed = [item for item in health.items if item.status is Status.FAIL and item.action in REASONS]
    failed.sort(key=lambda item: item.action is not health.action)
    if (known := next((item for item in failed if not obstacle(item)), None)) is not None:
        return Gate(refusal=f"{known.action}: {item_for_all(known)}")
    return Gate(doubt=f"{obstacle(failed[0])}: {failed[0].action}: {failed[0]}") if failed else Gate()


def _item(item: Item) -> dict[str, Any]:
    now_s = _now_s()
    return {
        "origin": item.source,
        "code": item.code,
        "device": item.device,
        "gpu": item.gpu,
        "class": item.fault_class or _CLASSES.get(item.action, ""),
        "status": item.status,
        "action": item.action,
        "count": item.count,
        "age_s": round(now_s - item.since_s, 1),
        "last_age_s": round(now_s - item.last_s, 1),
        "text": str(item),
    }


def _now_s() -> float:
    """By the clock of items."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
