# SPDX-License-Identifier: Apache-2.0
"""A helper job ends with its job and with its supervisor, whatever ends these, and nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

from guarded import PLUGSTACK, Job, hosts_of, new_job, until
from lab.cluster import Cluster
from lab.errors import LabError
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]

GPUS = ("--exclusive", "--gres=gpu:2")
# From the cause of its end until no helper job is in the queue and nothing of it runs on its node.
GONE_WITHIN_S = 10.0
# The job goes on after the step.
GOES_ON = "sleep 600"
# Slurm frees a requeued job from a dead node only when that is DOWN, and delays it by the credential's lifetime.
QUICK_REQUEUE = {"SlurmdTimeout": "10", "AuthInfo": "cred_expire=5", "SchedulerParameters": "sched_min_interval=100000"}


@dataclass
class Spliced:
    """A job whose step has lost n3, its helper job (the id), and the helper's node ("" while it waits)."""

    lab: Cluster
    job: Job
    helper: str
    node: str = ""

    def assert_helper_gone(self, cause_s: float) -> None:
        """Waits until nothing is left of it; `cause_s` is when its end was caused, by time.time()."""
        left_s = cause_s + GONE_WITHIN_S - time.time()
        try:
            until("the helper is gone", lambda: not self.helper_in_queue() and not self.left_on_node(), left_s)
        except AssertionError as error:
            left = [*queue(self.lab), *self.left_on_node()]
            raise AssertionError(f"{error}, left: {left}\njob's output:\n{self.job.out()}") from None

    def left_on_node(self) -> list[str]:
        """What of the step, its watch and the helper runs on the helper's node."""
        ours = ("ring.py", "stepguard watch", f"slurmstepd: [{self.helper}.")
        return [line for line in programs(self.lab, self.node) if any(word in line for word in ours)]

    def helper_in_queue(self) -> bool:
        """Whether the helper has not left the queue yet; when slurmctld does not answer, it has not."""
        jobs = queue(self.lab)
        return jobs is None or any(line.startswith(f"{self.helper} ") for line in jobs)

    def assert_step_gone(self) -> None:
        """Waits until no task and no srun of the step runs on any node."""

        def left() -> list[str]:
            return [line for node in self.lab.nodes for line in programs(self.lab, node) if "ring.py" in line]

        try:
            until("no task is left", lambda: not left(), GONE_WITHIN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}, but {left()}\njob's output:\n{self.job.out()}") from None

    def assert_not_resumed(self, why: str) -> None:
        """Waits until the step's end is told."""
        until(f"{why!r} is told", lambda: f"Not resumed: {why}" in self.job.out(), GONE_WITHIN_S)
        assert "Attempt number: 2" not in self.job.out()


def queue(lab: Cluster) -> list[str] | None:
    """Id, name and state of all jobs that have not ended; None when slurmctld does not answer."""
    shown = lab.run(["squeue", "-h", "-o", "%A %j %T"], user="root", check=False)
    return shown.stdout.splitlines() if shown.status == 0 else None


def helpers(job: Job) -> list[str]:
    """The ids of its helper jobs that have not ended."""
    return [line.split()[0] for line in queue(job.lab) or [] if f" stepguard-{job.id} " in line]


def programs(lab: Cluster, node: str) -> list[str]:
    """The command lines of all that runs on a node; nothing runs on one that is off, or on none."""
    try:
        return list(lab.processes(node).values()) if node else []
    except LabError:
        return []


def supervisor(lab: Cluster, host: str) -> int:
    """The process, by its number on this side, that supervises the only guarded step of that host."""
    return next(pid for pid, line in lab.processes(host).items() if "stepguard supervise" in line)


def gpu_lab(nodes: int = 4, **slurm_conf: str) -> Cluster:
    return Cluster(nodes, gpus_per_node=2, slurm_conf=slurm_conf, plugstack=PLUGSTACK, prefix=installed())


def submitted(lab: Cluster, *options: str, resume: str = "", steps: int = 2000, then: str = GOES_ON) -> Job:
    """A running job of n1, n2 and n3 with a guarded step."""
    job = new_job(lab, resume=resume)
    step = f"srun --auto-resume=1 --gres=gpu:2 {job.ring(steps)}; echo status $?"
    job.submit(f"{step}\n{then}", "-N3", "-n3", "-w", "n1,n2,n3", *GPUS, *options)
    job.await_steps(3)
    return job


def splice(job: Job) -> Spliced:
    """Takes n3 away; returns once the step runs again, over two jobs."""
    job.lab.power_off("n3")
    steps = job.await_steps(3, attempt=1)
    (node,) = hosts_of(steps) - {"n1", "n2"}
    (helper,) = helpers(job)
    return Spliced(job.lab, job, helper, node)


@contextmanager
def spliced(
    *options: str, nodes: int = 4, resume: str = "", steps: int = 2000, then: str = GOES_ON, **slurm_conf: str
) -> Iterator[Spliced]:
    """A lab with a step that runs over two jobs, and the rest of its nodes idle."""
    with gpu_lab(nodes, **slurm_conf) as lab:
        yield splice(submitted(lab, *options, resume=resume, steps=steps, then=then))


@contextmanager
def waiting(**slurm_conf: str) -> Iterator[Spliced]:
    """A lab with a step that has lost a node, and whose helper waits in the queue, for all others are in use."""
    with gpu_lab(4, **slurm_conf) as lab:
        lab.run(["sbatch", "--exclusive", "-w", "n4", "--wrap", "sleep 600"], user="bob")
        job = submitted(lab, resume="splice_wait = 600")
        lab.power_off("n3")
        until("a helper waits", lambda: f"helper job {''.join(helpers(job))} is in the queue" in job.out(), 30)
        (helper,) = helpers(job)
        yield Spliced(lab, job, helper)


def test_it_ends_with_the_step_although_the_job_goes_on() -> None:
    with spliced(steps=60) as step:
        until("the end of the step", lambda: "status 0" in step.job.out(), 20)
        step.assert_helper_gone(step.job.progress()[-1]["time"])
        assert step.job.progress()[-1]["step"] == 60
        assert step.job.state() == "RUNNING"


def cancel_job(step: Spliced) -> None:
    step.lab.run(["scancel", step.job.id])


def cancel_part_in_job(step: Spliced) -> None:
    cancel_part(step.lab, step.job.id)


def cancel_part_in_helper(step: Spliced) -> None:
    cancel_part(step.lab, step.helper)


def cancel_part(lab: Cluster, job_id: str) -> None:
    rows = lab.run(["squeue", "-s", "-h", "-o", "%i %j", "--job", job_id], user="root").stdout.split("\n")
    (part,) = [row.split()[0] for row in rows if row and row.split()[1] not in ("batch", "extern", "stepguard-watch")]
    lab.run(["scancel", part])


def cancel_helper(step: Spliced) -> None:
    step.lab.run(["scancel", step.helper])


def terminate_supervisor(step: Spliced) -> None:
    os.kill(supervisor(step.lab, "n1"), signal.SIGTERM)


def interrupt_supervisor(step: Spliced) -> None:
    """As often as it takes: one asks for the status only."""
    pid = supervisor(step.lab, "n1")
    with suppress(ProcessLookupError):
        for _ in range(6):
            os.kill(pid, signal.SIGINT)
            time.sleep(0.3)


@pytest.mark.parametrize(
    "end",
    [
        cancel_part_in_job,
        cancel_part_in_helper,
        cancel_helper,
        terminate_supervisor,
        interrupt_supervisor,
    ],
)
def test_it_ends_with_a_step_that_somebody_ends(end: Callable[[Spliced], None]) -> None:
    with spliced() as step:
        cause_s = time.time()
        end(step)
        step.assert_helper_gone(cause_s)
        step.assert_not_resumed("cancelled")
        step.assert_step_gone()
        assert step.job.state() == "RUNNING"


def test_it_ends_with_a_job_that_is_cancelled() -> None:
    with spliced() as step:
        cause_s = time.time()
        step.lab.run(["scancel", step.job.id])
        step.assert_helper_gone(cause_s)
        step.assert_step_gone()
        assert step.job.await_end() == "CANCELLED"
        assert "Attempt number: 2" not in step.job.out()


@pytest.mark.parametrize("then", [GOES_ON, ""], ids=["the script goes on", "the script ends"])
def test_it_and_the_step_end_with_a_supervisor_that_is_killed(then: str) -> None:
    with spliced(then=then) as step:
        cause_s = time.time()
        os.kill(supervisor(step.lab, "n1"), signal.SIGKILL)
        step.assert_helper_gone(cause_s)
        step.assert_step_gone()
        if then:
            assert step.job.state() == "RUNNING"
        else:
            assert step.job.await_end() == "COMPLETED"
        assert not [line for line in programs(step.lab, "n1") if "salloc" in line or "ring.py" in line]


def test_it_ends_with_the_batch_host_and_the_job_runs_again() -> None:
    with spliced(nodes=5, resume="batch_host_s = 5", steps=150, then="", **QUICK_REQUEUE) as step:
        cause_s = time.time()
        step.lab.power_off("n1")
        step.assert_helper_gone(cause_s)
        again = step.job.await_steps(3, attempt=2, within_s=90)
        assert hosts_of(again) == {"n2", "n4", "n5"}
        assert step.job.await_end() == "COMPLETED"
        assert queue(step.lab) == []


def kill_supervisor(step: Spliced) -> None:
    os.kill(supervisor(step.lab, "n1"), signal.SIGKILL)


def power_off_batch_host(step: Spliced) -> None:
    step.lab.power_off("n1")


@pytest.mark.parametrize("end", [cancel_job, kill_supervisor, terminate_supervisor, power_off_batch_host])
def test_one_that_waits_leaves_the_queue(end: Callable[[Spliced], None]) -> None:
    with waiting() as step:
        cause_s = time.time()
        end(step)
        step.assert_helper_gone(cause_s)


def test_a_restart_of_slurmctld_ends_nothing_early() -> None:
    with spliced(steps=200) as step:
        step.lab.restart_controller()
        until("the end of the step", lambda: "status 0" in step.job.out(), 40)
        step.assert_helper_gone(step.job.progress()[-1]["time"])
        assert {record["attempt"] for record in step.job.progress()} == {"0", "1"}


def test_slurmctld_is_down_when_the_supervisor_is_killed() -> None:
    with spliced() as step:
        step.lab.stop_controller()
        os.kill(supervisor(step.lab, "n1"), signal.SIGKILL)
        time.sleep(3)
        step.lab.start_controller()
        step.assert_helper_gone(time.time())
        step.assert_step_gone()


@pytest.mark.timeout(240)
def test_it_ends_with_a_job_that_reaches_its_time_limit() -> None:
    with spliced("--time=1", resume="min_time_left_s = 0", OverTimeLimit="0", KillWait="5") as step:
        until("the job's time is over", lambda: step.job.state() != "RUNNING", 120, 0.1)
        step.assert_helper_gone(time.time())
        assert step.job.await_end() == "TIMEOUT"
        assert "Attempt number: 2" not in step.job.out()
