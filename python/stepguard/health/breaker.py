# SPDX-License-Identifier: Apache-2.0
"""How many nodes stepguard may take out of service: a bound that holds although every agent decides alone. Pure.

A bad update of a driver turns all nodes bad at the same moment, and no agent knows of the others. They agree through
Slurm's state, where slurmctld puts one thing after another and stamps each reason with its own clock:

1. An agent claims: it drains its node with the reason CLAIM, which tells nobody to do anything.
2. It waits until a claim that is made from then on has a later stamp (stamps are whole seconds).
3. It reads all nodes. Claims before its own, by (stamp, name), and all marks count; claims after its own do not.
4. With room left the claim becomes the mark. Without, the claim is taken back.

A mark is a reason; or, of a node that only refuses jobs (`[agent] gate`), a comment with a time in it, for Slurm keeps
no reason of a node in service.

Of all that marked, the one with the last claim saw each of the others as a claim or as a mark, for from before its read
on they are one or the other. So there are never more marks than the bound, whoever is slow or dies in between. It takes
a slurmctld whose clock is not set back in that second, and administrators who lift no claim in the middle. Claims are
drains, for a second or two, and may be more than the bound; an agent that sees the bound filled makes none (`standing`
before the claim), and one that died over its claim takes it up again when it starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepguard.slurm.reasons import PREFIX, began_as_ours, gate_shut_s
from stepguard.slurm.records import Node

CLAIM = f"{PREFIX}asks to take this node out of service"
_NAMED = 8


@dataclass(frozen=True)
class Bounds:
    """At most `max_nodes` of the cluster, and of each partition `max_fraction`, of which one node always is; counted
    are marks of the last `window_s` seconds that nobody has lifted."""

    max_nodes: int
    max_fraction: float
    window_s: float


class Standing(NamedTuple):
    """Whether one more node may be marked: "" or why not. `may_change`: claims stand in the way, that may yet end."""

    refusal: str
    may_change: bool = False


def standing(nodes: Sequence[Node], name: str, bounds: Bounds, now_s: float) -> Standing:
    """Where the node `name` stands among all `nodes`. `now_s` counts if it has not claimed, else its claim's stamp."""
    own = next(node for node in nodes if node.name == name)
    claimed_s = own.reason_time if own.reason == CLAIM else None
    since_s = (now_s if claimed_s is None else claimed_s) - bounds.window_s
    marks, claims = set[str](), set[str]()
    for node in nodes:
        if node.name == name:
            continue
        if (gate_shut_s(node.comment) or 0) > since_s:
            marks.add(node.name)
        if not began_as_ours(node.reason):
            continue
        if not node.reason.startswith(CLAIM):
            if node.reason_time is None or node.reason_time > since_s:
                marks.add(node.name)
        # Where slurmctld has added words to a claim, the stamp is that of the words.
        elif claimed_s is None or node.reason != CLAIM or (node.reason_time or 0, node.name) < (claimed_s, name):
            claims.add(node.name)
    for scope, members, bound in _scopes(nodes, own, bounds):
        marked, claimed = sorted(marks & members), sorted(claims & members)
        if len(marked) + len(claimed) >= bound:
            names = [*marked, *claimed]
            shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
            what = f"{len(names)} of {scope} out of service by stepguard within {bounds.window_s:g} s ({shown})"
            return Standing(f"{what if names else f'none of {scope}'}; at most {bound} may be", len(marked) < bound)
    return Standing("")


def _scopes(nodes: Sequence[Node], own: Node, bounds: Bounds) -> list[tuple[str, set[str], int]]:
    """What has a bound: its name, its nodes, and how many of them."""
    there = [node for node in nodes if "FUTURE" not in node.states]
    scopes = [(f"{len(there)} nodes", {node.name for node in nodes}, bounds.max_nodes)]
    for partition in own.partitions:
        members = {node.name for node in there if partition in node.partitions}
        bound = max(1, int(bounds.max_fraction * len(members))) if bounds.max_fraction > 0 else 0
        scopes.append((f"{len(members)} nodes of partition {partition}", members, bound))
    return scopes
