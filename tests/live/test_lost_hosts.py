# SPDX-License-Identifier: Apache-2.0
"""The batch host dies, the supervisor dies, slurmctld is restarted: the job goes on, nothing is left behind."""

from __future__ import annotations

import pytest

from guarded import PLUGSTACK, Job, hosts_of, new_job, until
from lab.cluster import Cluster
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


def guarded_lab(nodes: int, **slurm_conf: str) -> Cluster:
    return Cluster(nodes, slurm_conf=slurm_conf, plugstack=PLUGSTACK, prefix=installed())


def supervisor_pid(lab: Cluster, host: str) -> int:
    """The process on that host, by its own number there, that supervises its only guarded step."""
    shown = lab.run(["ps", "-eo", "pid=,args="], host=host, user="root").stdout
    return next(int(line.split()[0]) for line in shown.splitlines() if "stepguard supervise" in line)


def jobs_of_alice(lab: Cluster) -> list[str]:
    return lab.run(["squeue", "-h", "-o", "%A %j", "--user=alice"], user="root").stdout.splitlines()


def test_the_batch_host_dies_and_the_job_is_requeued_without_it() -> None:
    # Slurm frees a requeued job from a dead node only when it is DOWN, and delays it by the credential's lifetime.
    quick = {"SlurmdTimeout": "10", "AuthInfo": "cred_expire=5", "SchedulerParameters": "sched_min_interval=100000"}
    with guarded_lab(5, **quick) as lab:
        job = new_job(lab, resume="batch_host_s = 3")
        job.submit(f"srun --auto-resume=1 -N3 -n3 {job.ring(120)}", "-N4", "--exclusive", "--open-mode=append")
        before = job.await_steps(10)
        lab.power_off("n1")
        after = job.await_steps(5, attempt=1, within_s=120)
        assert "n1" not in hosts_of(after)
        assert after[0]["step"] >= before[-1]["step"]
        assert job.await_end() == "COMPLETED"
        lost = [record for record in job.journal() if record["event"] == "batch-host-lost"]
        assert lost[0]["node"] == "n1"
        assert job.ranks(1)[0]["env"]["SLURM_RESTART_COUNT"] == "1"


def expanding_job(lab: Cluster) -> Job:
    """A job whose step has to be expanded after n3 dies, while no node is free for that yet."""
    lab.run(["sbatch", "--exclusive", "-N1", "-w", "n4", "--wrap", "sleep 600"], user="bob")
    job = new_job(lab, resume="expand_s = 60")
    job.submit(f"srun --auto-resume=1 {job.ring(150)}", "-N3", "-n3", "--exclusive", "-w", "n1,n2,n3")
    job.await_steps(5)
    lab.power_off("n3")
    until("the helper waits in the queue", lambda: any("stepguard-" in line for line in jobs_of_alice(lab)), 30)
    return job


def test_the_supervisor_is_killed_while_a_helper_waits_and_the_helper_goes() -> None:
    with guarded_lab(4, SchedulerParameters="permit_job_expansion") as lab:
        job = expanding_job(lab)
        lab.run(["kill", "-9", str(supervisor_pid(lab, "n1"))], host="n1", user="root")
        until("only the job is left", lambda: len(jobs_of_alice(lab)) <= 1, 20)
        assert not any("stepguard-" in line for line in jobs_of_alice(lab))
        lab.run(["scancel", job.id])


def test_the_job_is_cancelled_while_a_helper_waits_and_the_helper_goes() -> None:
    with guarded_lab(4, SchedulerParameters="permit_job_expansion") as lab:
        job = expanding_job(lab)
        lab.run(["scancel", job.id])
        until("nothing is left", lambda: not jobs_of_alice(lab), 60)


def test_slurmctld_is_restarted_while_a_helper_waits_and_the_step_goes_on() -> None:
    with guarded_lab(4, SchedulerParameters="permit_job_expansion") as lab:
        job = expanding_job(lab)
        lab.restart_controller()
        lab.run(["scancel", "--user=bob"], user="root")
        after = job.await_steps(5, attempt=1, within_s=60)
        assert hosts_of(after) == {"n1", "n2", "n4"}
        assert job.await_end() == "COMPLETED"
        assert not jobs_of_alice(lab)


def test_slurmctld_is_down_when_a_node_dies_and_the_step_goes_on_when_it_is_back() -> None:
    with guarded_lab(4) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N2 -n2 {job.ring(200)}", "-N3", "--exclusive")
        job.await_steps(10)
        lab.stop_controller()
        lab.power_off("n2")
        until("nothing happens for a while", lambda: len(job.progress()) > 0, 6)
        lab.start_controller()
        after = job.await_steps(5, attempt=1, within_s=60)
        assert hosts_of(after) == {"n1", "n3"}
        assert job.await_end() == "COMPLETED"


def test_a_restart_of_slurmctld_and_of_slurmds_alone_resumes_nothing() -> None:
    with guarded_lab(3) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N2 -n2 {job.ring(250)}", "-N2", "--exclusive")
        job.await_steps(10)
        lab.restart_controller()
        assert job.await_end() == "COMPLETED"
        assert {step["attempt"] for step in job.progress()} == {"0"}
        assert "Auto Resume" not in job.out()
