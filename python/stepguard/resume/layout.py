# SPDX-License-Identifier: Apache-2.0
"""Which ranks run on which node: a step's places, as they were in its first attempt, and who has them now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepguard.slurm.text import cpus_per_node


class Slot(NamedTuple):
    """One place: a node and its ranks, in the order of their local ids. A slot's number is its SLURM_NODEID."""

    node: str
    ranks: tuple[int, ...]


class Layout(NamedTuple):
    """All places of a step, in the order of SLURM_NODEID."""

    slots: tuple[Slot, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes by SLURM_NODEID."""
        return tuple(slot.node for slot in self.slots)

    @property
    def num_tasks(self) -> int:
        """How many ranks there are."""
        return sum(len(slot.ranks) for slot in self.slots)

    @property
    def tasks_per_node(self) -> str:
        """As SLURM_TASKS_PER_NODE has it: "2(x3),1"."""
        return cpus_per_node(len(slot.ranks) for slot in self.slots)

    def moved_to(self, nodes: Sequence[str]) -> Layout:
        """The same places on as many nodes, of which those that have one already keep it."""
        new = iter([name for name in nodes if name not in self.nodes])
        return Layout(tuple(slot if slot.node in nodes else Slot(next(new), slot.ranks) for slot in self.slots))

    def by_rank(self, nodes: Sequence[str]) -> list[str]:
        """Those nodes, once for each of their tasks, in the order of ranks."""
        pairs = [(rank, slot.node) for slot in self.slots if slot.node in nodes for rank in slot.ranks]
        return [node for _, node in sorted(pairs)]


def learnt(nodes: Sequence[str], num_tasks: int, told: Mapping[str, Sequence[int]]) -> Layout | None:
    """The layout of a step on `nodes`, by the ranks that nodes told; None where that does not settle it.

    Nodes that died before they told get the ranks that are left, an equal number each, which is what Slurm does where
    it can; who of them had which is without meaning once they are dead.
    """
    ranks = {node: tuple(told[node]) for node in nodes if told.get(node)}
    silent = [node for node in nodes if node not in ranks]
    taken = {rank for these in ranks.values() for rank in these}
    left = [rank for rank in range(num_tasks) if rank not in taken]
    if sum(map(len, ranks.values())) != len(taken) or len(taken) + len(left) != num_tasks:
        return None  # two nodes claim one rank, or there are more than the step has
    if silent:
        each, rest = divmod(len(left), len(silent))
        if rest or not each:
            return None
        ranks |= {node: tuple(left[n * each : (n + 1) * each]) for n, node in enumerate(silent)}
    return None if left and not silent else Layout(tuple(Slot(node, ranks[node]) for node in nodes))
