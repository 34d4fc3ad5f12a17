# SPDX-License-Identifier: Apache-2.0
"""What the record of a guarded step tells of a GPU that died under it, also of the node that the job then gave up."""

from __future__ import annotations

import json
import re

import pytest

from guarded import hosts_of, new_job, until
from lab.cluster import Cluster
from lab.gpus import uuid
from recorded import record_of
from sick import STEPGUARD, gpus_of, hang, kernel, sick_lab, slurms_word

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

PCI = "0000:1f:00"
LINE = f"NVRM: Xid (PCI:{PCI}): 79, pid=77, name=python, GPU has fallen off the bus."
SECONDS = r"[0-9]+\.[0-9]{2} s"


def page(lab: Cluster, *words: str) -> str:
    """What alice is shown of her job, without its line breaks."""
    return " ".join(lab.run([STEPGUARD, "job", *words], user="alice").stdout.split())


@pytest.mark.parametrize(("nodes", "after"), [("2", {"n1", "n3"}), ("2-3", {"n1", "n2"})])
def test_the_record_of_a_gpu_that_falls_off_the_bus_on_a_node_that_is_given_up(nodes: str, after: set[str]) -> None:
    """With a spare in the job, or fewer nodes where srun has leave to go on with those: the dead node's epilog runs
    when the job gives it up."""
    lost = "n2" if nodes == "2" else "n3"
    with sick_lab(3, reaction="fail", more="max_fraction = 1.0") as lab:
        job = new_job(lab, resume="wait_s = 2\nsplice_wait = 0")
        gpus = gpus_of(lab, lost)
        job.submit(f"srun --auto-resume=1 -N{nodes} --gres=gpu:2 {job.ring(400)}", "-N3", "--exclusive", "--gres=gpu:2")
        assert lost in hosts_of(job.await_steps(10))
        until("the first look is over", lambda: not looks(lab, lost), 60, 0.2)
        hang(lab, lost)
        gpus.lose(1)
        kernel(lab, lost).xid(79, gpu=1)
        assert hosts_of(job.await_steps(5, attempt=1)) == after
        until(f"{lost} is marked", lambda: slurms_word(lab, lost)[1] == "Action:Replace", 60, 0.3)
        until(f"{lost} is given up", lambda: "COMPLETING" not in slurms_word(lab, lost)[0], 60, 0.3)
        assert slurms_word(lab, lost) == ({"IDLE", "FAIL"}, "Action:Replace")
        assert job.await_end(120) == "COMPLETED"

        record = record_of(lab, job.id, within_s=90)
        assert (record.manifest.outcome, sorted(record.nodes)) == ("completed", ["n1", "n2", "n3"])
        found = record.nodes[lost].health
        assert found is not None
        assert (found.status, found.action, found.gpus) == ("fail", "replace", [uuid(0), uuid(1)])
        [event] = found.events
        assert (event.source, event.code, event.device, event.count, event.text) == ("xid", "79", PCI, 1, LINE)
        assert (event.fault_class, event.action, event.status) == ("hardware-replace", "replace", "fail")
        assert ("unread", uuid(1)) in [(one.kind, one.device) for one in found.changes]
        for other in {"n1", "n2", "n3"} - {lost}:
            healthy = record.nodes[other].health
            assert healthy is not None
            assert (healthy.status, healthy.events, healthy.action) == ("ok", [], "none")

        shown = page(lab, job.id, "health")
        assert f"{lost}: fail xid 79 on {PCI} (hardware-replace, replace): {LINE}" in shown
        assert "2 other nodes, 4 GPUs: nothing found, nothing moved" in shown
        document = json.loads(lab.run([STEPGUARD, "job", job.id, "health", "--json"], user="alice").stdout)
        assert (document["health"][lost]["action"], document["health"][lost]["events"][0]["code"]) == ("replace", "79")

        told = record.lines("resumes.jsonl")
        # A probe may tell of the GPU too, before the step has ended.
        health = next(one for one in told if one["event"] == "health" and one["code"] == "79")
        end, choice = (next(one for one in told if one["event"] == event) for event in ("end", "choice"))
        assert (health["node"], health["code"], health["action"], health["device"]) == (lost, "79", "replace", PCI)
        assert (end["cause"], end["nodes"], end["action"]) == ("hardware", [lost], "replace")
        assert (choice["strategy"], set(choice["nodes"])) == ("spare" if nodes == "2" else "shrink", after)
        assert 0 < end["detect_s"] < 60
        assert (end["decide_s"] < 60, choice["replace_s"] < 60) == (True, True)
        resumes = page(lab, job.id, "resumes")
        assert f"hardware: {lost}: xid 79 on {PCI}: {LINE} (agent: replace) (nodes {lost}); noticed after " in resumes
        assert re.search(rf"noticed after {SECONDS}, decided within {SECONDS}", resumes)
        assert re.search(rf"replaced within {SECONDS}", resumes)


def looks(lab: Cluster, node: str) -> bool:
    """Whether its devices are being looked at."""
    shown = json.loads(lab.run([STEPGUARD, "health", "status", "--json"], node, "root", check=False).stdout)
    return shown["probes"]["nvml"]["running_s"] is not None
