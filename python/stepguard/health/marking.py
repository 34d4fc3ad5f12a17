# SPDX-License-Identifier: Apache-2.0
"""What the agent does to its node in Slurm for a verdict: `decide` says it, `carry_out` does it.

state=fail reason="Action:Replace" or "Action:Reboot", exactly; or a drain with our own prefix. Once for each thing that
is wrong: a node that an administrator has resumed is marked again only for something new. Never over a reason of
somebody else's, never for what cannot be told, never beyond the breaker. Only our own drains are ever lifted.

With the reaction "gate" (none, but the agent's gate refuses jobs) the node stays in service, and its comment says that
it refuses jobs: that is its mark, by the same rules.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from stepguard.errors import SlurmRefused
from stepguard.health.breaker import CLAIM, Bounds, Standing, standing
from stepguard.health.discretion import item_for_all
from stepguard.health.model import Action, Status
from stepguard.health.verdict import NodeVerdict
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.reasons import (
    PREFIX,
    REBOOT,
    REPLACE,
    RESUMING,
    gate_comment,
    gate_shut_s,
    is_ours,
    without_slurms_words,
)
from stepguard.slurm.records import Node

Reaction = Literal["none", "gate", "drain", "fail"]
Memory = Mapping[str, int]
"""For what the node was marked: key of the item, and how often that had happened. To be kept over restarts."""

# What is done to a node for each action; for the others nothing. A reboot resets its GPUs.
REASONS = {Action.REPLACE: REPLACE, Action.REBOOT: REBOOT, Action.RESET_GPU: REBOOT}
OUT_OF_SERVICE = frozenset({"DRAIN", "DRAINING", "DRAINED", "FAIL", "FAILING", "DOWN", "ERROR", "FUTURE"})
MAX_TEXT = 200
# All agents start within this time, so that most find the bound filled, or not, before they claim.
SPREAD_S = 1.0
# Stamps are whole seconds: after more than one, whatever slurmctld stamps is later.
SETTLE_S = 1.5
# After a refusal by the breaker the agent should not ask again for this long: it reads all nodes.
RETRY_S = 300.0
# Of a node that is marked, whose mark an administrator may take away, and of one whose gate is shut; the breaker bounds
# how many those are.
MARKED_S, GATE_S = 60.0, 10.0
# Within this time its agent has asked, also when it has to wait for slurmctld.
HEARD_S = GATE_S + 5.0
# How often, and how long apart, an agent looks whether other agents' claims have come to an end.
_LOOKS, _LOOK_S = 10, 1.0


@dataclass(frozen=True)
class Mark:
    """Take the node out of service. `comment` is its free text in Slurm; None leaves what is there. Without a reason it
    stays in service and refuses jobs."""

    state: str
    reason: str | None
    comment: str | None = None


@dataclass(frozen=True)
class Lift:
    """Put the node, which we have drained, back into service; one that only refuses jobs takes them again. `comment`
    as in Mark."""

    comment: str | None = None


@dataclass(frozen=True)
class Leave:
    """Do nothing, and why. `is_marked`: it is marked already."""

    why: str
    is_marked: bool = False


Decision = Mark | Lift | Leave


@dataclass(frozen=True)
class Outcome:
    """What was done: "marked", "lifted", "left", or "refused" by the breaker, which is to be said loudly."""

    done: Literal["marked", "lifted", "left", "refused"]
    text: str


def decide(verdict: NodeVerdict, node: Node, reaction: Reaction, memory: Memory) -> Decision:
    """What is to be done to `node`, our own, as Slurm has it."""
    wanted = _mark(verdict, node, reaction)
    if node.reason == CLAIM:  # of an agent that died over it
        return wanted or Lift(_comment(node, ""))
    if without_slurms_words(node.reason) == RESUMING:
        return Leave("an administrator resumes it")
    if is_ours(node.reason):
        if node.reason.startswith(PREFIX) and not node.states & {"DOWN", "FAIL", "FAILING"} and _is_well(verdict):
            return Lift(_comment(node, ""))
        return Leave("it is marked", is_marked=True)
    if reaction == "gate" and gate_shut_s(node.comment) is not None:
        return Lift("") if _is_well(verdict) else Leave("it refuses jobs already", is_marked=True)
    if wanted is None:
        return Leave(_why_nothing(node, reaction))
    if not any(item.count > memory.get(item.key, 0) for item in verdict.items if item.status is Status.FAIL):
        return Leave("it was marked for this before, and resumed since")
    if node.reason or node.states & OUT_OF_SERVICE:
        return Leave(f"it is {'+'.join(sorted(node.states))} already, for {node.reason or 'no reason that is told'}")
    return wanted


def remembered(memory: Memory, verdict: NodeVerdict, is_marked: bool) -> dict[str, int]:
    """The memory after a decision on `verdict`: what is gone is forgotten, what the node was marked for is kept."""
    counts = {item.key: item.count for item in verdict.items}
    if is_marked:
        return counts
    return {key: count for key, count in memory.items() if key in counts}


def carry_out(
    decision: Decision,
    name: str,
    client: SlurmClient,
    bounds: Bounds,
    sleep: Callable[[float], None] = time.sleep,
    spread: Callable[[], float] = lambda: random.uniform(0, SPREAD_S),
) -> Outcome:
    """Does it to the node `name`, which takes seconds. Raises SlurmError; what was begun the next call takes up."""
    if isinstance(decision, Leave):
        return Outcome("left", decision.why)
    if isinstance(decision, Lift):
        return _lift(decision, name, client)
    sleep(spread())
    obstacle = _claim(decision, name, client, bounds, sleep)
    if obstacle is not None:
        return obstacle
    sleep(SETTLE_S)
    nodes = client.all_nodes()
    own = _own(nodes, name)
    if own.reason != CLAIM:
        return _left(own)
    refusal = standing(nodes, name, bounds, time.time()).refusal
    if refusal:
        client.update_nodes([name], "RESUME")
        return _refused(name, decision, refusal)
    client.update_nodes([name], decision.state, decision.reason, decision.comment)
    if decision.reason is None:
        return Outcome("marked", f"{name} refuses jobs: {decision.comment}")
    return Outcome("marked", f"{name} is out of service: {decision.reason}")


def _lift(lift: Lift, name: str, client: SlurmClient) -> Outcome:
    own = client.nodes([name])[0]
    is_drained = own.reason.startswith(PREFIX) and is_ours(own.reason)
    if not is_drained and gate_shut_s(own.comment) is not None:
        client.update_nodes([name], comment=lift.comment)
        return Outcome("lifted", f"{name} refuses jobs no more: what it refused them for is gone")
    if not is_drained:
        return _left(own)
    client.update_nodes([name], "RESUME", None, lift.comment)
    return Outcome("lifted", f"{name} is back in service: what it was drained for is gone")


def _claim(
    mark: Mark, name: str, client: SlurmClient, bounds: Bounds, sleep: Callable[[float], None]
) -> Outcome | None:
    """Claims the node; what stands in the way, if anything does."""
    seen = Standing("")
    for look in range(_LOOKS):
        if look:
            sleep(_LOOK_S)
        nodes = client.all_nodes()
        own = _own(nodes, name)
        if own.reason == CLAIM:
            return None
        if own.reason or own.states & OUT_OF_SERVICE:
            return _left(own)
        seen = standing(nodes, name, bounds, time.time())
        if not seen.may_change:
            break
    if seen.refusal:
        return _refused(name, mark, seen.refusal)
    client.update_nodes([name], "DRAIN", CLAIM)
    return None


def _refused(name: str, mark: Mark, why: str) -> Outcome:
    what = "refuses no jobs" if mark.reason is None else f"is not marked ({mark.reason})"
    return Outcome("refused", f"{name} {what} and stays in service: {why}")


def _left(own: Node) -> Outcome:
    return Outcome("left", f"{own.name} is {'+'.join(sorted(own.states))} meanwhile, for {own.reason or 'no reason'}")


def _own(nodes: list[Node], name: str) -> Node:
    for node in nodes:
        if node.name == name:
            return node
    raise SlurmRefused("no such node", name, "see scontrol show node")


def _mark(verdict: NodeVerdict, node: Node, reaction: Reaction) -> Mark | None:
    """The mark that the verdict asks for; None where it asks for none."""
    reason = REASONS.get(verdict.action)
    if reaction == "none" or verdict.status is not Status.FAIL or reason is None:
        return None
    text = _evidence(verdict)
    if reaction == "gate":
        return None if _is_theirs(node.comment) else Mark("RESUME", None, gate_comment(time.time(), text))
    if reaction == "fail":
        return Mark("FAIL", reason, _comment(node, text))
    return Mark("DRAIN", f"{PREFIX}{verdict.action.value}: {text}")


def _why_nothing(node: Node, reaction: Reaction) -> str:
    if reaction == "gate" and _is_theirs(node.comment):
        return "its comment, which would say that it refuses jobs, is somebody else's"
    return "no reaction is configured" if reaction == "none" else "nothing asks for it"


def _is_well(verdict: NodeVerdict) -> bool:
    """Nothing has failed, and nothing is unknown: a worse status hides an UNKNOWN."""
    return verdict.status in (Status.OK, Status.WARN) and all(
        item.status in (Status.OK, Status.WARN) for item in verdict.items
    )


def _evidence(verdict: NodeVerdict) -> str:
    """The worst of what is wrong, as all may know it, in printable ASCII. " : " is how Slurm adds to a reason."""
    said = str(item_for_all(verdict.items[0])) if verdict.items else verdict.status.value
    plain = "".join(char if char.isascii() and char.isprintable() and char not in "\"'" else " " for char in said)
    return " ".join(plain.replace(" : ", ": ").split())[:MAX_TEXT]


def _is_theirs(comment: str) -> bool:
    return bool(comment) and not comment.startswith(PREFIX)


def _comment(node: Node, text: str) -> str | None:
    """What the node's comment becomes; None where it is somebody else's."""
    if _is_theirs(node.comment):
        return None
    return f"{PREFIX}{text}" if text else ("" if node.comment else None)
