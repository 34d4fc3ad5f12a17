# SPDX-License-Identifier: Apache-2.0
"""What `stepguard node` would do to a node for an administrator, and what it leaves to --force. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from stepguard.health.marking import HEARD_S
from stepguard.slurm.reasons import PREFIX, REBOOT, REPLACE, gate_shut_s, is_ours, is_prologs, is_slurms, near_miss
from stepguard.slurm.records import Node

Verb = Literal["replace", "reboot", "resume"]
ACTIONS = {"replace": REPLACE, "reboot": REBOOT}
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})
OUT_OF_SERVICE = frozenset({"DOWN", "DRAIN", "DRAINED", "DRAINING", "ERROR", "FAIL", "FAILING"})


@dataclass(frozen=True)
class Change:
    """Do this to the node; as `update_nodes` of the Slurm client takes it. `told` says it to a person.
    `until_heard`: its agent refuses jobs, and would refuse the next one too before it has heard of this: until then the
    node has this state, out of service; "" leaves the one that it has. None: nothing is waited for."""

    node: str
    state: str
    reason: str | None
    comment: str | None
    told: str
    until_heard: str | None = None


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


def plan(verb: Verb, nodes: Iterable[Node], text: str = "", force: bool = False, has_gates: bool = False) -> list[Step]:
    """What becomes of each node. `text` is why, for people: it becomes the node's comment, for the reason is exact.
    `has_gates`: agents refuse jobs where they have marked their nodes."""
    if verb == "resume":
        return [_resume(node, force, has_gates) for node in nodes]
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


def _resume(node: Node, force: bool, has_gates: bool) -> Step:
    is_shut = gate_shut_s(node.comment) is not None
    is_in_service = not node.reason and not node.states & OUT_OF_SERVICE
    if is_in_service and not is_shut:
        return Nothing(node.name, "is in service")
    is_by_gate = is_shut and is_prologs(node.reason)  # a job was refused, and Slurm has drained the node for it
    if not (force or is_in_service or is_ours(node.reason) or is_by_gate):
        return Refusal(node.name, f"is not out of service by stepguard: {_explained(node)}")
    until_heard = None
    told = "takes jobs again" if is_in_service else "back into service, no reason"
    if is_shut or (has_gates and is_ours(node.reason)):
        until_heard = "DRAIN" if is_in_service else ""
        told += f", in {HEARD_S:g} s: its agent, which may refuse jobs, has to hear of it first"
    if "NOT_RESPONDING" in node.states:
        told += "; it gets no job before it answers"
    comment = "" if node.comment.startswith(PREFIX) else None
    return Change(node.name, "RESUME", None, comment, told, until_heard)


def _explained(node: Node) -> str:
    miss = near_miss(node.reason)
    return f"{shown_state(node)}{f' [{miss}]' if miss else ''}"
