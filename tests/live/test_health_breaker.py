# SPDX-License-Identifier: Apache-2.0
"""The circuit breaker holds for an hour, or as long as it is told, and then goes on."""

from __future__ import annotations

import time

import pytest

from guarded import until
from lab.cluster import Cluster
from lab.gpus import VERSION_MISMATCH
from sick import gpus_of, kernel, sick_lab, slurms_word

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

WINDOW_S = 75
HOLDS = "the circuit breaker holds: "


def marked(lab: Cluster) -> set[str]:
    """The nodes that are out of service; an agent that asks drains its node for a moment, with another reason."""
    return {node for node in lab.nodes if slurms_word(lab, node)[1].startswith("Action:")}


def test_all_agents_wrong_at_once_and_again_after_the_window() -> None:
    """A bad update of a driver, and GPUs that fall off the bus for it, on all nodes; a third of a partition may go."""
    with sick_lab(6, reaction="fail", more=f"max_nodes = 100\nmax_fraction = 0.34\nwindow_s = {WINDOW_S}") as lab:
        logged = {node: len(lab.agents.log(node)) for node in lab.nodes}
        for node in lab.nodes:
            gpus_of(lab, node)["driver.fails"] = VERSION_MISMATCH
            kernel(lab, node).xid(79)

        def have_tried() -> set[str]:
            assert len(marked(lab)) <= 2
            said = {node: lab.agents.log(node)[logged[node] :] for node in lab.nodes}
            return {node for node, log in said.items() if HOLDS in log or " is out of service: " in log}

        until("all have tried", lambda: have_tried() == set(lab.nodes), WINDOW_S, 0.5)
        first_s = time.monotonic()
        first = marked(lab)
        assert len(first) == 2
        others = sorted(set(lab.nodes) - first)
        bound = f"2 of 6 nodes of partition main out of service by stepguard within {WINDOW_S} s"
        for node in others:
            assert slurms_word(lab, node) == ({"IDLE"}, "")
            assert f"{HOLDS}{node} is not marked (Action:Replace) and stays in service: {bound} (" in lab.agents.log(
                node
            )
        for node in first:
            assert slurms_word(lab, node) == ({"IDLE", "FAIL"}, "Action:Replace")
        assert lab.run(["srun", "-N4", "--gres=gpu:2", "hostname"], timeout_s=60).status == 0

        time.sleep(max(0.0, first_s + WINDOW_S + 2 - time.monotonic()))
        for node in others:  # else they ask again within five minutes
            lab.agents.stop(node)
            logged[node] = len(lab.agents.log(node))
            lab.agents.launch(node)

        def goes_on() -> bool:
            assert len(marked(lab)) <= 4
            return len(marked(lab)) == 4 and have_tried_again() == set(others)

        def have_tried_again() -> set[str]:
            said = {node: lab.agents.log(node)[logged[node] :] for node in others}
            return {node for node, log in said.items() if HOLDS in log or " is out of service: " in log}

        until("two more are out of service", goes_on, 60, 0.5)
        assert lab.run(["srun", "-N2", "--gres=gpu:2", "hostname"], timeout_s=60).status == 0
