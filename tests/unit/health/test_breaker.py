# SPDX-License-Identifier: Apache-2.0
"""The breaker counts what stands in Slurm, and its bound holds in whatever order agents go on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepguard.health.breaker import CLAIM, Bounds, standing
from stepguard.slurm.reasons import REBOOT, REPLACE, gate_comment
from stepguard.slurm.records import Node
from unit.health.building import node

NOW = 1_000_000
BOUNDS = Bounds(max_nodes=2, max_fraction=0.5, window_s=3600)


def cluster(**reasons: tuple[str, int]) -> list[Node]:
    """Ten nodes n0 to n9, some of them out of service: reason, and how long ago."""
    names = [f"n{number}" for number in range(10)]
    return [node(name, *told(reasons[name])) if name in reasons else node(name) for name in names]


def told(said: tuple[str, int]) -> tuple[str, int]:
    return said[0], NOW - said[1]


@pytest.mark.parametrize(
    ("others", "refused", "may_change"),
    [
        ({}, False, False),
        ({"n1": (REPLACE, 60)}, False, False),
        ({"n1": (REPLACE, 60), "n2": (REBOOT, 60)}, True, False),
        ({"n1": (REPLACE, 60), "n2": ("stepguard: replace: xid 79", 60)}, True, False),
        ({"n1": (REPLACE, 60), "n2": ("Action:Replace : Not responding", 60)}, True, False),
        ({"n1": (REPLACE, 60), "n2": ("stepguard: reboot: x : Kill task failed", 60)}, True, False),
        ({"n1": (REPLACE, 60), "n2": (REPLACE, 4000)}, False, False),
        ({"n1": (REPLACE, 60), "n2": ("NHC: bad disk", 60)}, False, False),
        ({"n1": (REPLACE, 60), "n2": ("action:replace", 60)}, False, False),
        ({"n1": (REPLACE, 60), "n2": (CLAIM, 1)}, True, True),
        ({"n1": (CLAIM, 1), "n2": (CLAIM, 1)}, True, True),
        ({"n1": (CLAIM, 90_000), "n2": (CLAIM, 90_000)}, True, True),
    ],
)
def test_before_a_claim_marks_of_the_window_and_all_claims_count(
    others: dict[str, tuple[str, int]], refused: bool, may_change: bool
) -> None:
    found = standing(cluster(**others), "n5", BOUNDS, NOW)
    assert (bool(found.refusal), found.may_change) == (refused, may_change)


@pytest.mark.parametrize(
    ("others", "refused"),
    [
        ({"n1": (CLAIM, 10), "n2": (CLAIM, 10)}, True),
        ({"n1": (CLAIM, 5), "n2": (CLAIM, 5)}, True),
        ({"n8": (CLAIM, 5), "n9": (CLAIM, 5)}, False),
        ({"n1": (CLAIM, 4), "n2": (CLAIM, 4)}, False),
        ({"n8": (REPLACE, 4), "n9": (REPLACE, 4)}, True),
        ({"n8": (REPLACE, 4), "n1": (CLAIM, 5)}, True),
        ({"n8": (CLAIM, 4), "n9": (f"{CLAIM} : Not responding", 3)}, False),
        ({"n8": (f"{CLAIM} : Not responding", 2), "n9": (f"{CLAIM} : Not responding", 3)}, True),
    ],
)
def test_after_it_claims_count_that_came_before_and_marks_whenever(
    others: dict[str, tuple[str, int]], refused: bool
) -> None:
    nodes = cluster(n5=(CLAIM, 5), **others)
    assert bool(standing(nodes, "n5", BOUNDS, NOW).refusal) is refused


def test_the_window_ends_by_slurmctlds_clock_once_there_is_a_claim() -> None:
    nodes = cluster(n5=(CLAIM, 0), n1=(REPLACE, 3599), n2=(REPLACE, 3599))
    assert standing(nodes, "n5", BOUNDS, NOW + 90_000).refusal
    assert not standing(cluster(n1=(REPLACE, 3599), n2=(REPLACE, 3599)), "n5", BOUNDS, NOW + 90_000).refusal


@pytest.mark.parametrize(
    ("comment", "refused"),
    [
        (gate_comment(NOW - 60, "xid 79"), True),
        (gate_comment(NOW - 4000, "xid 79"), False),
        ("stepguard: xid 79", False),
        ("stepguard: gate shut at never: x", False),
        ("", False),
    ],
)
@pytest.mark.parametrize("reason", ["", "Prolog error"])
def test_a_node_that_refuses_jobs_counts_by_its_comment(comment: str, refused: bool, reason: str) -> None:
    nodes = cluster(n1=(REPLACE, 60))
    nodes[2] = node("n2", reason, NOW - 60, comment=comment)
    assert bool(standing(nodes, "n5", BOUNDS, NOW).refusal) is refused


def test_a_node_counts_once() -> None:
    nodes = cluster()
    nodes[2] = node("n2", REPLACE, NOW - 60, comment=gate_comment(NOW - 60, "xid 79"))
    assert not standing(nodes, "n5", BOUNDS, NOW).refusal


def test_each_partition_of_the_node_has_its_own_bound() -> None:
    nodes = [node(f"n{number}", partitions=("all", "gpu" if number < 4 else "cpu")) for number in range(10)]
    nodes[1] = node("n1", REPLACE, NOW, partitions=("all", "gpu"))
    bounds = Bounds(max_nodes=9, max_fraction=0.3, window_s=3600)
    assert standing(nodes, "n2", bounds, NOW).refusal == (
        "1 of 4 nodes of partition gpu out of service by stepguard within 3600 s (n1); at most 1 may be"
    )
    assert standing(nodes, "n7", bounds, NOW).refusal == ""


@pytest.mark.parametrize(
    ("bounds", "allowed"),
    [
        (Bounds(0, 1.0, 60), 0),
        (Bounds(9, 0.0, 60), 0),
        (Bounds(9, 0.01, 60), 1),
        (Bounds(9, 0.29, 60), 2),
        (Bounds(1, 1.0, 60), 1),
    ],
)
def test_a_small_fraction_is_one_node_and_none_is_none(bounds: Bounds, allowed: int) -> None:
    nodes = cluster()
    marked = 0
    for place, one in enumerate(nodes):
        if not standing(nodes, one.name, bounds, NOW).refusal:
            nodes[place] = one._replace(reason=REPLACE, reason_time=NOW)
            marked += 1
    assert marked == allowed


class Slurm:
    """What slurmctld does for the agreement: it puts one change after another, and stamps it in whole seconds."""

    def __init__(self, count: int) -> None:
        self.nodes = {f"n{number}": node(f"n{number}") for number in range(count)}
        self.clock_s = float(NOW)

    def say(self, name: str, reason: str) -> None:
        self.nodes[name] = self.nodes[name]._replace(reason=reason, reason_time=int(self.clock_s) if reason else None)

    def shut(self, name: str) -> None:
        """The node is in service again, and refuses jobs: one change."""
        self.say(name, "")
        self.nodes[name] = self.nodes[name]._replace(comment=gate_comment(NOW, "xid 79"))

    def marked(self) -> int:
        return sum(one.reason == REPLACE or bool(one.comment) for one in self.nodes.values())


class Agent:
    """An agent's steps, each one question or change: look, claim, wait, look, mark or take back."""

    def __init__(self, slurm: Slurm, name: str, is_gate: bool) -> None:
        self.slurm, self.name, self.is_gate = slurm, name, is_gate
        self.steps = iter(self._run())
        self.outcome = ""

    def _run(self) -> Iterator[None]:
        nodes = list(self.slurm.nodes.values())
        yield
        if not standing(nodes, self.name, BOUNDS, NOW).refusal:
            self.slurm.say(self.name, CLAIM)
            claimed_s = self.slurm.clock_s
            yield
            while self.slurm.clock_s - claimed_s < 1.0:
                yield
            nodes = list(self.slurm.nodes.values())
            yield
            if not standing(nodes, self.name, BOUNDS, NOW).refusal:
                if self.is_gate:
                    self.slurm.shut(self.name)
                else:
                    self.slurm.say(self.name, REPLACE)
                self.outcome = "marked"
                return
            self.slurm.say(self.name, "")
        self.outcome = "refused"


@settings(max_examples=400, deadline=None)
@given(
    count=st.integers(3, 8),
    gates=st.lists(st.booleans(), min_size=8, max_size=8),
    turns=st.lists(st.tuples(st.integers(0, 7), st.sampled_from([0.0, 0.0, 0.0, 0.3, 1.0])), max_size=120),
)
def test_no_order_of_steps_takes_more_nodes_than_the_bound(
    count: int, gates: list[bool], turns: list[tuple[int, float]]
) -> None:
    slurm = Slurm(count)
    agents = [Agent(slurm, name, is_gate) for name, is_gate in zip(slurm.nodes, gates, strict=False)]
    for turn, seconds in turns:  # whoever has no more turns has died in the middle
        next(agents[turn % count].steps, None)
        slurm.clock_s += seconds
        assert slurm.marked() <= BOUNDS.max_nodes
    while any(not agent.outcome for agent in agents):
        for agent in agents:
            next(agent.steps, None)
            assert slurm.marked() <= BOUNDS.max_nodes
        slurm.clock_s += 0.4
    assert all(one.reason in ("", REPLACE) for one in slurm.nodes.values()), "no claim is left behind"
    assert slurm.marked() >= 1, "the breaker does not keep everybody from it"
