# SPDX-License-Identifier: Apache-2.0
"""A guarded step lives on when a node dies, and only then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from guarded import PLUGSTACK, Job, hosts_of, new_job, until
from lab.cluster import Cluster
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]

GPUS = ("--exclusive", "--gres=gpu:2")


def guarded_lab(nodes: int, gpus: int = 0, **slurm_conf: str) -> Cluster:
    return Cluster(nodes, gpus_per_node=gpus, slurm_conf=slurm_conf, plugstack=PLUGSTACK, prefix=installed())


def assert_true_environment(job: Job, attempt: int, step_nodes: int, job_nodes: str) -> None:
    """What every rank of an attempt sees of the job is what Slurm says of it."""
    ranks = job.ranks(attempt)
    folded = job.lab.run(["scontrol", "show", "hostlistsorted", job_nodes]).stdout.strip()
    count = len(job.lab.run(["scontrol", "show", "hostnames", folded]).stdout.split())
    assert ranks
    for rank in ranks:
        env = rank["env"]
        assert env["SLURM_JOB_NODELIST"] == env["SLURM_NODELIST"] == folded
        assert env["SLURM_JOB_NUM_NODES"] == env["SLURM_NNODES"] == str(count)
        assert env["SLURM_STEP_NUM_NODES"] == str(step_nodes)
        assert env["SLURM_NTASKS"] == env["SLURM_STEP_NUM_TASKS"] == str(len(ranks))
        assert env["STEPGUARD_ATTEMPT"] == str(attempt)
        assert not any("SPANK_OPTION_stepguard" in name for name in env)


@pytest.mark.parametrize(
    ("fault", "options", "srun"),
    [
        pytest.param(Cluster.power_off, GPUS, "--gres=gpu:2", id="power off, GRES"),
        pytest.param(Cluster.power_off, (*GPUS, "--no-kill"), "--gres=gpu:2", id="power off, GRES, --no-kill"),
        pytest.param(Cluster.power_off, ("--exclusive",), "", id="power off, no GRES"),
        pytest.param(Cluster.power_off, ("--exclusive", "--no-kill"), "--no-kill", id="power off, srun --no-kill"),
        pytest.param(Cluster.cut_link, GPUS, "--gres=gpu:2", id="link cut, GRES"),
    ],
)
def test_a_lost_node_is_replaced_by_a_spare(
    fault: Callable[[Cluster, str], None], options: tuple[str, ...], srun: str
) -> None:
    with guarded_lab(5, gpus=2) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N3 -n3 {srun} {job.ring(120)}", "-N4", *options)
        before = job.await_steps(20)
        assert hosts_of(before) == {"n1", "n2", "n3"}
        fault(lab, "n3")
        after = job.await_steps(10, attempt=1)
        assert hosts_of(after) == {"n1", "n2", "n4"}
        # From its checkpoint: the step that was interrupted may have been done twice, not more.
        assert after[0]["step"] >= before[-1]["step"]
        assert_true_environment(job, 1, step_nodes=3, job_nodes="n1,n2,n4")
        assert job.await_end() == "COMPLETED"
        assert job.progress()[-1]["step"] == 120
        assert "[Auto Resume] Info: JobID: 1 StepID: 0 Retrying step. Attempt number: 1\n" in job.out()
        assert not list(lab.home("alice").glob("slurm_job_*"))  # scontrol's resize scripts
        events = [record["event"] for record in job.journal()]
        assert events == ["start", "end", "choice", "start", "end"]
        assert job.journal()[2]["strategy"] == "spare"


def test_old_tasks_of_a_cut_node_do_not_disturb_when_the_link_heals() -> None:
    with guarded_lab(4, gpus=2) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N2 -n2 --gres=gpu:2 {job.ring(400)}", "-N3", *GPUS)
        job.await_steps(10)
        lab.cut_link("n2")
        job.await_steps(3, attempt=1)
        old = {pid for pid, command in lab.processes("n2").items() if "ring.py" in command}
        assert old, "the cut node's tasks are expected to live on until the link heals"
        lab.heal_link("n2")
        until("the old tasks are gone", lambda: not old & lab.processes("n2").keys(), 20)
        done = len(job.progress())
        until("the new attempt goes on", lambda: len(job.progress()) > done + 5, 10)
        assert job.progress()[-1]["attempt"] == "1"
        lab.run(["scancel", job.id])


def test_a_node_marked_failing_is_left_behind_when_the_step_fails() -> None:
    with guarded_lab(4, gpus=2) as lab:
        job = new_job(lab)
        ring = job.ring(60, "--fail-at", "40", "7")
        job.submit(f"srun --auto-resume=1 -N2 -n2 --gres=gpu:2 {ring}", "-N3", *GPUS)
        job.await_steps(5)
        lab.run(["scontrol", "update", "NodeName=n2", "State=FAIL", "Reason=Action:Replace"], user="root")
        after = job.await_steps(5, attempt=1)
        assert hosts_of(after) == {"n1", "n3"}
        assert after[0]["step"] == 41
        assert job.await_end() == "COMPLETED"
        assert "Verdict: hardware: n2: FAIL in Slurm (Action:Replace)" in job.out()
        assert "n2" not in job.nodes()


def test_a_fault_on_a_node_ends_a_step_that_hangs_and_is_named() -> None:
    with guarded_lab(4, gpus=2) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N2 -n2 --gres=gpu:2 {job.ring(150)}", "-N3", *GPUS)
        job.await_steps(5)
        fault = "mkdir -p /run/stepguard && echo 'replace: XID 79, GPU has fallen off the bus' > /run/stepguard/fault"
        lab.run(["sh", "-c", fault], host="n2", user="root")
        after = job.await_steps(5, attempt=1, within_s=10)
        assert hosts_of(after) == {"n1", "n3"}
        assert "n2: XID 79, GPU has fallen off the bus (fault-file: replace)" in job.out()
        assert job.await_end() == "COMPLETED"


def test_no_spare_and_no_gres_the_job_is_expanded() -> None:
    with guarded_lab(4, SchedulerParameters="permit_job_expansion") as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 {job.ring(150)}", "-N3", "-n3", "--exclusive")
        job.await_steps(10)
        lab.power_off("n3")
        after = job.await_steps(5, attempt=1)
        assert hosts_of(after) == {"n1", "n2", "n4"}
        assert_true_environment(job, 1, step_nodes=3, job_nodes="n1,n2,n4")
        assert lab.run(["squeue", "-h", "-o", "%A"]).stdout.split() == [job.id]
        assert job.await_end() == "COMPLETED"
        assert job.journal()[2]["strategy"] == "expand"


def test_a_job_with_gres_is_not_even_tried_to_expand_and_shrinks_where_srun_allows() -> None:
    with guarded_lab(4, gpus=2, SchedulerParameters="permit_job_expansion") as lab:
        job = new_job(lab, resume="wait_s = 2\nsplice_wait = 0")
        job.submit(f"srun --auto-resume=1 -N2-3 --gres=gpu:2 {job.ring(100)}", "-N3", *GPUS)
        assert hosts_of(job.await_steps(10)) == {"n1", "n2", "n3"}
        lab.power_off("n3")
        after = job.await_steps(5, attempt=1, within_s=30)
        assert hosts_of(after) == {"n1", "n2"}
        assert "expand: not possible: Slurm lets no job with GRES grow" in job.out()
        assert "wait: not possible: n3 did not come back within 2 s" in job.out()
        assert job.await_end() == "COMPLETED"
        assert set(lab.run(["sacct", "-n", "-X", "-o", "JobID"]).stdout.split()) == {job.id}


def test_two_guarded_steps_do_not_take_each_others_spare() -> None:
    with guarded_lab(6) as lab:
        first, second = new_job(lab), new_job(lab)
        places = {"n1,n2": first, "n3,n4": second}
        body = "".join(f"srun --auto-resume=1 -N2 -n2 -w {nodes} {job.ring(200)} &\n" for nodes, job in places.items())
        first.submit(body + "wait", "-N6", "--exclusive")
        second.id = first.id
        for job in (first, second):
            job.await_steps(10)
        lab.power_off("n2")
        lab.power_off("n4")
        after = [hosts_of(job.await_steps(10, attempt=1)) for job in (first, second)]
        assert sorted(after[0] | after[1]) == ["n1", "n3", "n5", "n6"]
        assert ("n1" in after[0], "n3" in after[1]) == (True, True)
        assert first.await_end() == "COMPLETED"


def test_under_salloc_on_a_login_node() -> None:
    with guarded_lab(4, gpus=2) as lab:
        job = new_job(lab)
        ring = job.ring(120).split()
        step = ["srun", "--auto-resume=1", "-N2", "-n2", "--gres=gpu:2", *ring]
        salloc = lab.start(["salloc", "-N3", *GPUS, *step], user="alice")
        job.await_steps(10)
        lab.power_off("n2")
        assert hosts_of(job.await_steps(5, attempt=1)) == {"n1", "n3"}
        assert salloc.wait(60) == 0


def test_without_the_plugin_supervise_does_the_same() -> None:
    with Cluster(4, gpus_per_node=2, prefix=installed()) as lab:
        job = new_job(lab)
        supervise = "/opt/stepguard/bin/stepguard supervise --"
        job.submit(f"{supervise} srun -N2 -n2 --gres=gpu:2 {job.ring(100)}", "-N3", *GPUS)
        job.await_steps(10)
        lab.power_off("n2")
        assert hosts_of(job.await_steps(5, attempt=1)) == {"n1", "n3"}
        assert job.await_end() == "COMPLETED"


def test_a_node_that_comes_back_is_waited_for() -> None:
    with guarded_lab(3, gpus=2) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N3 --gres=gpu:2 {job.ring(100)}", "-N3", *GPUS)
        job.await_steps(10)
        lab.cut_link("n3")
        until("the wait", lambda: "waiting up to" in job.out(), 15)
        lab.heal_link("n3")
        after = job.await_steps(5, attempt=1, within_s=40)
        assert hosts_of(after) == {"n1", "n2", "n3"}
        assert job.await_end() == "COMPLETED"
        assert job.journal()[2]["strategy"] == "wait"
