# SPDX-License-Identifier: Apache-2.0
"""What `stepguard node` would do to a node for an administrator, and what it leaves to --force. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stepguard.slurm.reasons import PREFIX, REBOOT, REPLACE, gate_shut_s, is_ours, is_slurms, near_miss
from stepguard.slurm.records import Node

Verb = Literal["replace", "reboot", "resume"]
ACTIONS = {"replace": REPLACE, "reboot": REBOOT}
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
OUT_OF_SERVICE = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING"})


@dataclass(frozen=True)
class Change:
    """Do this to the node; as `update_nodes` of the Slurm client takes it. `told` says it to a person."""

    node: str
    state: str
    reason: str | None
    comment: str | None
    told: str


@dataclass(frozen=True)
class Refusal:
    """Not without --force, and why."""

    node: str
    why: str


@dataclass(frozen=True)
class Nothing:
    """It is so already."""

    node: str
    why: str


Step = Change | Refusal | Nothing


def plan(verb: Verb, nodes: Iterable[Node], text: str = "", force: bool = False) -> list[Step]:
    """What becomes of each node. `text` is why, for people: it becomes the node's comment, for the reason is exact."""
    if verb == "resume":
        return [_resume(node, force) for node in nodes]
    return [_mark(node, ACTIONS[verb], text, force) for node in nodes]


def shown_state(node: Node) -> str:
    """The node's state and reason, for people."""
    by = f" ({node.reason_user})" if node.reason_user else ""
    return f"{'+'.join(sorted(node.states))}{f', {node.reason}{by}' if node.reason else ''}"


def _mark(node: Node, action: str, text: str, force: bool) -> Step:
    if node.reason and not force and not is_ours(node.reason) and not is_slurms(node.reason):
        return Refusal(node.name, f"has a reason that is not stepguard's: {_explained(node)}")
    is_theirs = bool(node.comment) and not node.comment.startswith(PREFIX)
    if text and is_theirs and not force:
        return Refusal(node.name, f"has a comment that --reason would overwrite: {node.comment}")
    if node.reason == action and "FAIL" in node.states and not text:
        return Nothing(node.name, f"is {shown_state(node)} already")
    told = f"state FAIL, reason {action}"
    if node.states & _BUSY:
        told += "; its jobs run on, and it gets no more"
    return Change(node.name, "FAIL", action, f"{PREFIX}{text}" if text else None, told)


def _resume(node: Node, force: bool) -> Step:
    if not node.reason and not node.states & OUT_OF_SERVICE:
        if gate_shut_s(node.comment) is not None:
            return Change(node.name, "", None, "", "takes jobs again, within half a minute: its agent asks that often")
        return Nothing(node.name, "is in service")
    if not force and not is_ours(node.reason):
        return Refusal(node.name, f"is not out of service by stepguard: {_explained(node)}")
    told = "back into service, no reason"
    if "NOT_RESPONDING" in node.states:
        told += "; it gets no job before it answers"
    return Change(node.name, "RESUME", None, "" if node.comment.startswith(PREFIX) else None, told)


def _explained(node: Node) -> str:
    miss = near_miss(node.reason)
    return f"{shown_state(node)}{f' [{miss}]' if miss else ''}"
