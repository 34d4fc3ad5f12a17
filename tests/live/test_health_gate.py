# SPDX-License-Identifier: Apache-2.0
"""The gate refuses jobs, and never on more nodes than the circuit breaker lets."""

from __future__ import annotations

import pytest

from guarded import until
from lab.cluster import Cluster
from lab.gpus import VERSION_MISMATCH
from recorded import await_state, record_of, submit
from sick import STEPGUARD, gpus_of, health, sick_lab

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

BOUND = "max_nodes = 1\nmax_fraction = 1.0\ncycle_s = 2\nclear_s = 0"
REFUSES, HOLDS = " refuses jobs: stepguard: gate shut at ", "the circuit breaker holds: "


def shown(lab: Cluster, node: str) -> dict[str, str]:
    """State, reason and comment of a node, as scontrol prints them."""
    text = lab.run(["scontrol", "show", "node", node], user="root").stdout
    found = {"State": "", "Reason": "", "Comment": ""}
    for line in map(str.strip, text.splitlines()):
        name, _, value = line.partition("=")
        if name in found:
            found[name] = value.partition(" [")[0].split(" ThreadsPerCore")[0]
    return found


def test_all_agents_wrong_at_once_with_a_gate() -> None:
    """A bad update of a driver: one node refuses its jobs, and the cluster goes on."""
    with sick_lab(4, agent="gate = true", more=BOUND) as lab:
        drivers = {node: gpus_of(lab, node) for node in lab.nodes}
        for gpus in drivers.values():
            gpus["driver.fails"] = VERSION_MISMATCH

        def all_have_tried() -> bool:
            return all(REFUSES in (log := lab.agents.log(node)) or HOLDS in log for node in lab.nodes)

        until("all have tried", all_have_tried, 120, 0.5)
        [shut] = [node for node in lab.nodes if REFUSES in lab.agents.log(node)]
        others = [node for node in lab.nodes if node != shut]
        lab.wait_idle()
        assert shown(lab, shut)["Comment"].startswith("stepguard: gate shut at ")
        assert all(shown(lab, node)["Comment"] == "" for node in others)
        assert all(health(lab, node)["status"] == "fail" for node in lab.nodes)
        for node in others:
            assert f"{HOLDS}{node} refuses no jobs and stays in service: 1 of 4 nodes" in lab.agents.log(node)

        jobs = {node: submit(lab, "true", "--gres=gpu:2", "--exclusive", f"--nodelist={node}") for node in lab.nodes}
        for node in others:
            record = record_of(lab, jobs[node], within_s=90)
            assert (record.manifest.outcome, record.manifest.exit_status) == ("completed", 0)
            assert f"job {jobs[node]} may start here, for the circuit breaker has not let" in lab.agents.log(node)
        until("Slurm has drained the other", lambda: "DRAIN" in shown(lab, shut)["State"], 60, 0.3)
        assert shown(lab, shut)["Reason"].startswith("Prolog error")
        record = record_of(lab, jobs[shut], within_s=90)
        [finding] = [one for part in record.nodes.values() for one in part.findings if one.code == "gate"]
        assert finding.text.startswith("no job may start here: reboot: nvml driver-mismatch")
        assert all("DRAIN" not in shown(lab, node)["State"] for node in others)

        lab.run(["scancel", jobs[shut]], user="root")
        for gpus in drivers.values():
            gpus["driver.fails"] = 0
        until("it is well", lambda: health(lab, shut)["status"] == "ok", 60, 0.5)
        until("its gate is open", lambda: shown(lab, shut)["Comment"] == "", 60, 0.5)
        until("its agent says so", lambda: f"{shut} refuses jobs no more" in lab.agents.log(shut), 15)
        lab.run(["scontrol", "update", f"nodename={shut}", "state=resume"], user="root")
        lab.wait_idle()
        job_id = submit(lab, "true", "--gres=gpu:2", f"--nodelist={shut}")
        assert record_of(lab, job_id, within_s=90).manifest.outcome == "completed"

        resumed_although_its_fault_stays(lab, shut)


def resumed_although_its_fault_stays(lab: Cluster, node: str) -> None:
    """`stepguard node resume`, after a job was refused and Slurm has drained the node for it."""
    gpus_of(lab, node)["driver.fails"] = VERSION_MISMATCH
    until("its gate is shut again", lambda: shown(lab, node)["Comment"] != "", 60, 0.5)
    until("its agent knows", lambda: health(lab, node)["reaction"]["is_marked"], 15, 0.2)
    refused = submit(lab, "true", "--gres=gpu:2", f"--nodelist={node}")
    until("Slurm has drained it", lambda: shown(lab, node)["Reason"].startswith("Prolog error"), 60, 0.3)
    done = lab.run([STEPGUARD, "node", "resume", node, "--yes"], user="root", check=False)
    assert (done.status, "has to hear of it first" in done.stdout) == (0, True), done.stdout + done.stderr
    assert (shown(lab, node)["Reason"], shown(lab, node)["Comment"]) == ("", "")
    job_id = submit(lab, "true", "--gres=gpu:2", f"--nodelist={node}")
    assert record_of(lab, job_id, within_s=90).manifest.outcome == "completed"
    assert f"job {job_id} may start here, for an administrator has put this node back" in lab.agents.log(node)
    assert health(lab, node)["reaction"]["last"]["text"] == "an administrator resumes it"
    lab.run(["scancel", refused], user="root")


def test_what_an_administrator_wrote_needs_no_leave() -> None:
    with sick_lab(1, agent="gate = true", more="max_nodes = 0") as lab:
        fault = lab.root("n1") / "run/stepguard/fault"
        fault.write_text("replace: XID 79\n")
        job_id = submit(lab, "true", "--gres=gpu:1")
        until("n1 is drained", lambda: "DRAIN" in shown(lab, "n1")["State"], 60, 0.3)
        await_state(lab, job_id, "PENDING")
        assert shown(lab, "n1")["Reason"].startswith("Prolog error")
