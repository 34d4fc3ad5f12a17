# SPDX-License-Identifier: Apache-2.0
"""What an administrator has said of a node stands, whatever its agent finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guarded import until
from lab.cluster import Cluster
from lab.gpus import Gpus
from sick import begin_anew, health, kernel, sick_lab, slurms_word, well_node

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

BOUNDS = "max_nodes = 9\nmax_fraction = 1.0\nclear_s = 0\ncycle_s = 2"
OURS = "stepguard: replace: nvml row-remap-failure"


@pytest.fixture(scope="module", params=["fail", "drain"])
def lab(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with sick_lab(1, reaction=request.param, more=BOUNDS) as made:
        yield made


@pytest.fixture
def gpus(lab: Cluster) -> Iterator[Gpus]:
    with well_node(lab, "n1") as made:
        yield made


def by_hand(lab: Cluster, state: str, reason: str) -> None:
    words = [f"state={state}"] if state else []
    lab.run(["scontrol", "update", "nodename=n1", *words, f"reason={reason}"], user="root")


def restart(lab: Cluster) -> int:
    """The agent asks slurmctld again, which it does every five minutes else; where its new log begins."""
    lab.agents.stop("n1")
    logged = len(lab.agents.log("n1"))
    lab.agents.start("n1")
    return logged


@pytest.mark.parametrize(
    ("state", "reason", "states"),
    [
        ("drain", "NHC: bad disk", {"IDLE", "DRAIN"}),
        ("drain", "Action: Replace", {"IDLE", "DRAIN"}),
        ("fail", "kept for the vendor", {"IDLE", "FAIL"}),
        ("down", "rack is moved", {"DOWN"}),
    ],
)
def test_a_node_that_is_out_of_service_already(
    lab: Cluster, gpus: Gpus, state: str, reason: str, states: set[str]
) -> None:
    by_hand(lab, state, reason)
    logged = len(lab.agents.log("n1"))
    kernel(lab, "n1").xid(79)
    until("the agent knows", lambda: health(lab, "n1")["action"] == "replace", 20, 0.2)
    said = f"nothing is done to n1: it is {'+'.join(sorted(states))} already, for {reason}"
    until("the agent says so", lambda: said in lab.agents.log("n1")[logged:], 40, 0.3)
    assert slurms_word(lab, "n1") == (states, reason)
    begin_anew(lab, "n1")  # with GPUs that are well
    until("the agent knows", lambda: health(lab, "n1")["status"] == "ok", 20, 0.2)
    until("it has asked", lambda: health(lab, "n1")["reaction"]["last"].get("done") == "left", 40, 0.3)
    assert slurms_word(lab, "n1") == (states, reason)


def test_a_mark_of_ours_that_somebody_has_written_over_is_not_lifted(lab: Cluster, gpus: Gpus) -> None:
    gpus["gpu1.rows.failure"] = 1
    until("it is marked", lambda: slurms_word(lab, "n1")[1].startswith((OURS, "Action:Replace")), 60, 0.3)
    states = slurms_word(lab, "n1")[0]
    by_hand(lab, "", "RMA 4711")
    gpus["gpu1.rows.failure"] = 0
    until("it is well", lambda: health(lab, "n1")["status"] == "ok", 40, 0.2)
    logged = restart(lab)
    said = "nothing is done to n1: "
    until("the agent says so", lambda: said in lab.agents.log("n1")[logged:], 40, 0.3)
    assert slurms_word(lab, "n1") == (states, "RMA 4711")


def test_only_our_own_drain_is_lifted(lab: Cluster, gpus: Gpus) -> None:
    """A node with state FAIL is given back by people."""
    gpus["gpu1.rows.failure"] = 1
    until("it is marked", lambda: slurms_word(lab, "n1")[1].startswith((OURS, "Action:Replace")), 60, 0.3)
    before = slurms_word(lab, "n1")
    gpus["gpu1.rows.failure"] = 0
    until("it is well", lambda: health(lab, "n1")["status"] == "ok", 40, 0.2)
    restart(lab)
    if before[1].startswith(OURS):
        until("it is back", lambda: slurms_word(lab, "n1") == ({"IDLE"}, ""), 60, 0.3)
    else:
        until("it has asked", lambda: health(lab, "n1")["reaction"]["last"].get("done") == "left", 40, 0.3)
        assert slurms_word(lab, "n1") == before
