# SPDX-License-Identifier: Apache-2.0
"""Nodes taken out of service on a real cluster: by an administrator's `stepguard node`, and by agents within bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from asking import Client, share_package
from guarded import PLUGSTACK, until
from lab.cluster import Cluster
from lab.processes import Completed
from product import installed
from stepguard.health.breaker import CLAIM
from stepguard.slurm.records import Node

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

MARK = Path(__file__).with_name("programs") / "mark.py"
STEPGUARD = "/opt/stepguard/bin/stepguard"
NODES = 6


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    settings = {"PartitionName=pair": "Nodes=n1,n2,n3 MaxTime=INFINITE"}
    with Cluster(NODES, slurm_conf=settings, plugstack=PLUGSTACK, prefix=installed()) as lab:
        share_package(lab)
        (lab.shared / "mark.py").write_text(MARK.read_text())
        yield lab


@pytest.fixture
def cluster(shared: Cluster) -> Iterator[Cluster]:
    yield shared
    shared.run(["scancel", "--user=alice"], user="root")
    for node in shared.nodes:
        shared.run(["scontrol", "update", f"NodeName={node}", "State=RESUME", "Comment="], user="root", check=False)
        shared.run(["scontrol", "update", f"NodeName={node}", "Comment="], user="root", check=False)
    shared.wait_idle()


def stepguard(lab: Cluster, *words: str, user: str = "root", tty: str | None = None) -> Completed:
    """`stepguard node WORDS` on the login host; with `tty`, on a terminal where somebody types that."""
    if tty is None:
        return lab.run([STEPGUARD, "node", *words], user=user, check=False)
    process = lab.start([STEPGUARD, "node", *words], user=user, tty=True)
    process.read_terminal("Go on?", 20)
    process.write(tty)
    return Completed(words, process.wait(30), process.stdout, process.stderr)


def look(lab: Cluster) -> dict[str, Node]:
    """All nodes. One that was just resumed from a drain is NOT_RESPONDING until it has answered slurmctld."""
    nodes = Client(lab, "text", user="root").all_nodes()
    return {node.name: node._replace(states=node.states - {"NOT_RESPONDING"}) for node in nodes}


def set_by_hand(lab: Cluster, node: str, state: str, reason: str) -> None:
    lab.run(["scontrol", "update", f"NodeName={node}", f"State={state}", f"Reason={reason}"], user="root")


# The verb


def test_a_node_with_a_job_is_failing_first_and_then_failed(cluster: Cluster) -> None:
    job_id = cluster.run(["sbatch", "--parsable", "-N1", "--exclusive", "-w", "n2", "--wrap", "sleep 300"]).stdout
    until("the job runs", lambda: "ALLOCATED" in look(cluster)["n2"].states, 20)
    done = stepguard(cluster, "replace", "n2", "--yes", "--reason", "row remap failed")
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0].startswith("n2: state FAIL, reason Action:Replace; its jobs run on")
    node = look(cluster)["n2"]
    assert node.states == frozenset({"ALLOCATED", "FAIL"})
    assert (node.reason, node.reason_user, node.comment) == ("Action:Replace", "root", "stepguard: row remap failed")
    assert node.reason_time is not None
    shown = cluster.run(["squeue", "-h", "-j", job_id.strip(), "-o", "%t"]).stdout.strip()
    assert shown == "R"
    cluster.run(["scancel", job_id.strip()])
    until("the node has failed", lambda: look(cluster)["n2"].states == frozenset({"IDLE", "FAIL"}), 30)
    again = stepguard(cluster, "replace", "n2", "--yes")
    assert (again.status, "already" in again.stdout) == (0, True)
    done = stepguard(cluster, "resume", "n2", "--yes")
    assert done.status == 0
    node = look(cluster)["n2"]
    assert (node.states, node.reason, node.comment) == (frozenset({"IDLE"}), "", "")


def test_host_lists_are_expanded_and_reboot_is_exact(cluster: Cluster) -> None:
    assert stepguard(cluster, "reboot", "n[1-2],n4", "n4", "--yes").status == 0
    found = look(cluster)
    assert {name for name, node in found.items() if node.reason == "Action:Reboot"} == {"n1", "n2", "n4"}
    assert {name for name, node in found.items() if "FAIL" in node.states} == {"n1", "n2", "n4"}
    assert stepguard(cluster, "resume", "n[1-6]", "--yes").status == 0
    assert all(node.states == frozenset({"IDLE"}) for node in look(cluster).values())


def test_a_reason_of_somebody_else_stays_without_force(cluster: Cluster) -> None:
    set_by_hand(cluster, "n1", "DRAIN", "NHC: bad disk")
    set_by_hand(cluster, "n2", "DRAIN", "Action: Replace")
    for verb in ("replace", "reboot", "resume"):
        done = stepguard(cluster, verb, "n[1-3]", "--yes")
        assert (done.status, "NHC: bad disk (root)" in done.stderr) == (1, True)
        assert "[almost Action:Replace: blanks in it]" in done.stderr
        assert "nothing was done: n[1-2]" in done.stderr
    found = look(cluster)
    assert (found["n1"].reason, found["n2"].reason, found["n3"].states) == (
        "NHC: bad disk",
        "Action: Replace",
        frozenset({"IDLE"}),
    )
    assert stepguard(cluster, "replace", "n2", "--yes", "--force").status == 0
    assert look(cluster)["n2"].reason == "Action:Replace"
    assert stepguard(cluster, "resume", "n1", "--yes", "--force").status == 0
    assert look(cluster)["n1"].states == frozenset({"IDLE"})


def test_a_node_that_fell_silent_can_be_replaced(cluster: Cluster) -> None:
    set_by_hand(cluster, "n1", "DOWN", "Not responding")
    assert stepguard(cluster, "replace", "n1", "--yes").status == 0
    node = look(cluster)["n1"]
    assert (node.states, node.reason) == (frozenset({"DOWN", "FAIL"}), "Action:Replace")


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["replace", "n1", "n9", "--yes"], 69, "no such node: n9"),
        (["replace", "ALL", "--yes"], 69, "no such node: ALL"),
        (["replace", "", "--yes"], 2, "no node is named"),
        (["replace", "--yes"], 2, "missing argument"),
        (["replace", "n[1-", "--yes"], 2, "n[1-"),
        (["replace", "n1"], 2, "nothing was done: there is no terminal to ask on: say --yes"),
        (["replace", "n1", "--yes", "--reason", "a\nb"], 2, "--reason"),
        (["drain", "n1", "--yes"], 2, "no such command"),
    ],
)
def test_what_is_wrong_changes_nothing(cluster: Cluster, words: list[str], status: int, said: str) -> None:
    done = stepguard(cluster, *words)
    assert (done.status, said in done.stderr) == (status, True), done.stderr
    assert all(node.states == frozenset({"IDLE"}) for node in look(cluster).values())


def test_others_than_administrators_are_told(cluster: Cluster) -> None:
    done = stepguard(cluster, "replace", "n1", "--yes", user="alice")
    assert done.status == 69
    assert "you may not change nodes: n1: run this as root" in done.stderr
    assert look(cluster)["n1"].states == frozenset({"IDLE"})


def test_on_a_terminal_it_asks(cluster: Cluster) -> None:
    done = stepguard(cluster, "reboot", "n1", tty="n\n")
    assert (done.status, look(cluster)["n1"].states) == (1, frozenset({"IDLE"}))
    done = stepguard(cluster, "reboot", "n1", tty="y\n")
    assert (done.status, look(cluster)["n1"].reason) == (0, "Action:Reboot")


def test_the_doctor_names_near_misses(cluster: Cluster) -> None:
    set_by_hand(cluster, "n1", "DRAIN", "action:replace")
    checks = json.loads(cluster.run([STEPGUARD, "doctor", "--json"], check=False).stdout)["checks"]
    (found,) = [check for check in checks if check["check"] == "node reasons"]
    assert (found["level"], "n1: 'action:replace' is almost Action:Replace" in found["found"]) == ("warn", True)


# Agents, each on its own


def react(lab: Cluster, nodes: list[str], reaction: str, max_nodes: int, max_fraction: float) -> dict[str, str]:
    """What came of it on each node, all at once; no more than the bound are ever marked."""
    argv = ["/usr/bin/python3", "-I", str(lab.shared / "mark.py"), str(lab.shared / "python")]
    bounds = [str(max_nodes), str(max_fraction)]
    running = {node: lab.start([*argv, node, reaction, *bounds], host=node, user="root") for node in nodes}
    while any(process.status is None for process in running.values()):
        marked = [node for node in look(lab).values() if node.reason and node.reason != CLAIM]
        assert len(marked) <= max_nodes, marked
    outcomes = {}
    for node, process in running.items():
        assert process.wait(60) == 0, process.describe()
        outcomes[node] = json.loads(process.stdout)["done"]
    return outcomes


@pytest.mark.parametrize(
    ("reaction", "state", "reason"),
    [
        ("fail", "FAIL", "Action:Replace"),
        ("drain", "DRAIN", "stepguard: replace: xid 79 on 0000:0f:00: fallen off the bus"),
    ],
)
def test_all_agents_at_once_take_no_more_nodes_than_the_bound(
    cluster: Cluster, reaction: str, state: str, reason: str
) -> None:
    outcomes = react(cluster, cluster.nodes, reaction, 2, 1.0)
    assert sorted(outcomes.values()) == ["marked"] * 2 + ["refused"] * 4
    found = look(cluster)
    for name, done in outcomes.items():
        node = found[name]
        wanted = (frozenset({"IDLE", state}), reason, "root") if done == "marked" else (frozenset({"IDLE"}), "", "")
        assert (node.states, node.reason, node.reason_user) == wanted
    # Whoever comes later finds the bound filled.
    other = next(name for name, done in outcomes.items() if done == "refused")
    assert react(cluster, [other], reaction, 2, 1.0) == {other: "refused"}


def test_a_partition_has_its_own_bound(cluster: Cluster) -> None:
    outcomes = react(cluster, cluster.nodes, "fail", 6, 0.5)
    marked = {name for name, done in outcomes.items() if done == "marked"}
    assert 1 <= len(marked) <= 3, "half of the partitions main and low"
    assert len(marked & {"n1", "n2", "n3"}) <= 1, "half of the partition pair, rounded down"


def test_an_agent_leaves_others_alone_and_lifts_its_own(cluster: Cluster) -> None:
    set_by_hand(cluster, "n1", "DRAIN", "NHC: bad disk")
    set_by_hand(cluster, "n2", "FAIL", "Action:Replace")
    assert react(cluster, ["n1"], "fail", 6, 1.0) == {"n1": "left"}
    assert react(cluster, ["n1", "n2"], "well", 6, 1.0) == {"n1": "left", "n2": "left"}
    assert (look(cluster)["n1"].reason, look(cluster)["n2"].reason) == ("NHC: bad disk", "Action:Replace")
    assert react(cluster, ["n3"], "drain", 6, 1.0) == {"n3": "marked"}
    assert react(cluster, ["n3"], "well", 6, 1.0) == {"n3": "lifted"}
    assert (look(cluster)["n3"].states, look(cluster)["n3"].reason) == (frozenset({"IDLE"}), "")


def test_a_claim_of_an_agent_that_died_is_taken_up(cluster: Cluster) -> None:
    set_by_hand(cluster, "n4", "DRAIN", CLAIM)
    assert react(cluster, ["n4"], "fail", 6, 1.0) == {"n4": "marked"}
    set_by_hand(cluster, "n5", "DRAIN", CLAIM)
    assert react(cluster, ["n5"], "well", 6, 1.0) == {"n5": "lifted"}
