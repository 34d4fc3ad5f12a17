# SPDX-License-Identifier: Apache-2.0
"""What a program, a person or a policy ended stays ended, with its own status, even when a node is bad as well."""

from __future__ import annotations

import pytest

from guarded import PLUGSTACK, Job, new_job, until
from lab.cluster import Cluster
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]


def guarded_lab(nodes: int, **slurm_conf: str) -> Cluster:
    return Cluster(nodes, slurm_conf=slurm_conf, plugstack=PLUGSTACK, prefix=installed())


def step(job: Job, *more: str, srun: str = "") -> str:
    """A batch script whose guarded step's status ends up in the output."""
    return f"srun --auto-resume=1 -N2 -n2 {srun} {job.ring(2000, *more)}; echo status $?"


def assert_ended_once(job: Job, *said: str) -> None:
    until("the job's output", lambda: "Not resumed" in job.out(), 40)
    for text in said:
        assert text in job.out()
    assert "Retrying" not in job.out()
    assert {step["attempt"] for step in job.progress()} == {"0"}


@pytest.mark.parametrize("status", [1, 42, 255])
def test_a_program_that_fails_keeps_its_status(status: int) -> None:
    with guarded_lab(3) as lab:
        job = new_job(lab)
        job.submit(step(job, "--fail-at", "5", str(status)), "-N3", "--exclusive")
        job.await_end()
        assert_ended_once(job, f"status {status}\n", f"application: the program ended with status {status}")


def test_a_program_that_is_killed_for_its_memory() -> None:
    limits = {"JobAcctGatherFrequency": "task=1", "JobAcctGatherParams": "OverMemoryKill"}
    with guarded_lab(3, **limits) as lab:
        job = new_job(lab)
        eat = "/usr/bin/python3 -c 'import time; x = b\"x\" * (300 << 20); time.sleep(60)'"
        job.submit(f"srun --auto-resume=1 -N2 -n2 --mem=100 {eat}; echo status $?", "-N3", "--exclusive")
        job.await_end()
        until("the end", lambda: "status " in job.out(), 10)
        assert "Not resumed: " in job.out()
        assert "Retrying" not in job.out()
        assert "status 0" not in job.out()


def test_a_step_that_reaches_its_own_time_limit() -> None:
    with guarded_lab(3, OverTimeLimit="0") as lab:
        job = new_job(lab)
        job.submit(step(job, srun="--time=0:01"), "-N3", "--exclusive")
        job.await_end(within_s=120)
        assert_ended_once(job, "time limit: the step reached its time limit")


def test_a_step_that_its_owner_cancels_although_a_node_is_bad() -> None:
    with guarded_lab(3) as lab:
        job = new_job(lab)
        job.submit(step(job), "-N3", "--exclusive")
        job.await_steps(5)
        lab.run(["scontrol", "update", "NodeName=n2", "State=FAIL", "Reason=Action:Replace"], user="root")
        lab.run(["scancel", f"{job.id}.0"])
        job.await_end()
        assert_ended_once(job, "cancelled: the step was cancelled")


def test_a_job_that_its_owner_cancels_although_a_node_is_bad() -> None:
    with guarded_lab(3) as lab:
        job = new_job(lab)
        job.submit(step(job), "-N3", "--exclusive")
        job.await_steps(5)
        lab.run(["scontrol", "update", "NodeName=n2", "State=FAIL", "Reason=Action:Replace"], user="root")
        lab.run(["scancel", job.id])
        assert job.await_end() == "CANCELLED"
        until("nothing of the job runs", lambda: not [c for c in lab.processes("n1").values() if "ring.py" in c], 40)
        assert "Retrying" not in job.out()
        assert {step["attempt"] for step in job.progress()} == {"0"}


def test_a_job_that_is_preempted() -> None:
    preemption = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    with guarded_lab(3, **preemption) as lab:
        job = new_job(lab)
        job.submit(step(job), "-N3", "--exclusive", "--partition=low")
        job.await_steps(5)
        lab.run(["srun", "--partition=main", "-N3", "--exclusive", "true"], user="bob", timeout_s=60)
        assert job.await_state("PREEMPTED", "CANCELLED", "FAILED") == "PREEMPTED"
        assert "Retrying" not in job.out()
        assert {step["attempt"] for step in job.progress()} == {"0"}


def test_a_node_that_dies_in_each_attempt_stops_after_max_resumes() -> None:
    with guarded_lab(6) as lab:
        job = new_job(lab, resume="max_resumes = 2\nmin_progress_s = 0")
        job.submit(step(job), "-N6", "--exclusive")
        for attempt in range(3):
            steps = job.await_steps(3, attempt=attempt)
            lab.power_off(steps[-1]["hosts"][1])
        until("the end", lambda: "status " in job.out(), 30)
        assert "Not resumed: max_resumes reached (2)" in job.out()
        assert "status 1\n" in job.out()
        assert [r["attempt"] for r in job.journal() if r["event"] == "start"] == [0, 1, 2]


def test_three_quick_failures_stop_earlier() -> None:
    with guarded_lab(6) as lab:
        job = new_job(lab)
        job.submit(step(job), "-N6", "--exclusive")
        for attempt in range(3):
            steps = job.await_steps(3, attempt=attempt)
            lab.power_off(steps[-1]["hosts"][1])
        until("the end", lambda: "status " in job.out(), 30)
        assert "Not resumed: no progress: 3 failures (hardware/silence) within 60 s each" in job.out()
        assert [r["attempt"] for r in job.journal() if r["event"] == "start"] == [0, 1, 2]
