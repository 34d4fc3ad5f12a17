# SPDX-License-Identifier: Apache-2.0
"""Requeued jobs: each node's end is in the record of the attempt that it ended, and no attempt has one that never ran.

Slurm counts a requeue before it runs the epilogs. Without `PrologFlags=Alloc` a node where the job runs no step tells
nothing else of it.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator

import pytest

from guarded import until
from lab.cluster import Cluster
from recorded import CLUSTER, await_state, record_of, recording_lab, submit

pytestmark = [pytest.mark.live, pytest.mark.timeout(420)]

STEPGUARD = "/opt/stepguard/bin/stepguard"
# A requeued job waits for the credential's lifetime: by default two minutes, in which it stays pending.
SETTINGS = {
    "ReturnToService": "2",
    "SlurmdTimeout": "20",
    "SchedulerParameters": "bf_interval=1,sched_interval=1,sched_min_interval=1",
}
AT_ONCE = {**SETTINGS, "AuthInfo": "cred_expire=5"}
# How long an archiver waits at most for what the first node tells, and then some.
DECIDED_S = 200.0


@pytest.fixture
def lab() -> Iterator[Cluster]:
    with recording_lab(2, slurm_conf=SETTINGS) as cluster:
        yield cluster


def begin(lab: Cluster, body: str, *options: str) -> str:
    """Submits a job to n1 and n2 and waits until its script runs."""
    job_id = submit(lab, f"echo begun; {body}", "--requeue", "-o", "%j.out", *options)
    out = lab.home() / f"{job_id}.out"
    until("it runs", lambda: out.exists() and "begun" in out.read_text(), 60, 0.2)
    return job_id


def attempts(lab: Cluster, job_id: str) -> list[str]:
    """The names of the records that there are of a job."""
    return sorted(path.name for path in (lab.archive / CLUSTER).glob(f"*/*/*/{job_id}.*"))


def await_empty_spools(lab: Cluster) -> None:
    """Waits until the archivers have decided on all that the nodes have told."""
    spools = [lab.agents.spool(node) for node in lab.nodes]
    until("all is archived", lambda: not [path for one in spools for path in one.glob("jobs/*")], DECIDED_S, 0.5)


def assert_verified(lab: Cluster) -> None:
    done = lab.run([STEPGUARD, "archive", "verify"], user="root", check=False)
    assert done.status == 0, done.stdout + done.stderr


def test_it_is_cancelled_while_it_waits_to_run_again(lab: Cluster) -> None:
    job_id = begin(lab, "sleep 300", "-N2")
    lab.run(["scontrol", "requeue", job_id])
    await_state(lab, job_id, "PENDING")
    lab.run(["scancel", job_id])
    record = record_of(lab, job_id)
    assert {name: part.state for name, part in record.nodes.items()} == {"n1": "ended", "n2": "ended"}
    assert (record.manifest.outcome, record.manifest.attempt) == ("requeued", 0)
    await_empty_spools(lab)
    assert attempts(lab, job_id) == [f"{job_id}.0"]
    assert "no word of" not in lab.run([STEPGUARD, "job", job_id]).stdout
    assert_verified(lab)


def test_it_runs_again_and_each_attempt_has_all_of_its_nodes() -> None:
    with recording_lab(2, slurm_conf=AT_ONCE) as lab:
        job_id = begin(lab, '[ -n "$SLURM_RESTART_COUNT" ] || sleep 300', "-N2")
        lab.run(["scontrol", "requeue", job_id])
        first, second = record_of(lab, job_id, 0, within_s=60), record_of(lab, job_id, 1, within_s=150)
        await_empty_spools(lab)
        assert attempts(lab, job_id) == [f"{job_id}.0", f"{job_id}.1"]
        assert (first.manifest.outcome, second.manifest.outcome) == ("requeued", "completed")
        assert second.manifest.start_s is not None
        for name in lab.nodes:
            assert (first.nodes[name].state, second.nodes[name].state) == ("ended", "ended")
            assert first.nodes[name].end_s < second.manifest.start_s < second.nodes[name].end_s  # type: ignore[operator]
        timeline = lab.run([STEPGUARD, "job", job_id, "timeline"]).stdout.splitlines()
        assert "end" not in timeline[0], timeline
        assert_verified(lab)


def test_it_is_preempted_and_cancelled_while_it_waits() -> None:
    preemption = {"PreemptMode": "REQUEUE", "PreemptType": "preempt/partition_prio"}
    urgent = {"PartitionName=urgent": "Nodes=n[1-2] PriorityTier=10 State=UP"}
    with recording_lab(2, slurm_conf={**SETTINGS, **preemption, **urgent}) as lab:
        job_id = begin(lab, "sleep 300", "-N2", "--exclusive")
        submit(lab, "true", "-N2", "--exclusive", "-p", "urgent")
        await_state(lab, job_id, "PENDING")
        lab.run(["scancel", job_id])
        record = record_of(lab, job_id)
        assert {name: part.state for name, part in record.nodes.items()} == {"n1": "ended", "n2": "ended"}
        await_empty_spools(lab)
        assert attempts(lab, job_id) == [f"{job_id}.0"]
        assert_verified(lab)


def test_the_agent_is_stopped_while_it_is_requeued(lab: Cluster) -> None:
    """The hook gives up and leaves a note; the agent finds that, and in its socket what the hook had sent."""
    job_id = begin(lab, "sleep 300", "-w", "n1")
    agent = lab.agents.running("n1")
    agent.send_signal(signal.SIGSTOP)
    lab.run(["scontrol", "requeue", job_id])
    notes = lab.agents.spool("n1") / "notes"
    until("the epilog's note", lambda: [p for p in notes.glob("*.note") if b"epilog" in p.read_bytes()[:64]], 60)
    agent.send_signal(signal.SIGCONT)
    await_state(lab, job_id, "PENDING")
    lab.run(["scancel", job_id])
    record = record_of(lab, job_id)
    await_empty_spools(lab)
    assert (attempts(lab, job_id), record.manifest.outcome) == ([f"{job_id}.0"], "requeued")
    assert_verified(lab)


def test_the_first_node_loses_its_power_and_comes_back(lab: Cluster) -> None:
    job_id = begin(lab, "sleep 300", "-w", "n2")
    off_s = time.time()
    lab.power_off("n2")
    time.sleep(25)
    lab.power_on("n2")
    await_state(lab, job_id, "PENDING", within_s=120)
    lab.wait_idle(timeout_s=120)  # the epilog that slurmd runs when it registers is over
    lab.run(["scancel", job_id])
    record = record_of(lab, job_id, within_s=60)
    await_empty_spools(lab)
    assert attempts(lab, job_id) == [f"{job_id}.0"]
    manifest = record_of(lab, job_id).manifest
    assert (manifest.state, manifest.outcome, manifest.exit_status, manifest.exit_signal) == (
        "lost",
        "lost",
        None,
        None,
    )
    assert manifest.last_heard_s is not None
    assert manifest.last_heard_s < off_s
    assert record.nodes["n2"].state == "lost"
    (listed,) = json.loads(lab.run([STEPGUARD, "jobs", "--json"]).stdout)["jobs"]
    assert (listed["outcome"], listed["exit"]) == ("lost", "")
    assert_verified(lab)
