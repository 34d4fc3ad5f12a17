# SPDX-License-Identifier: Apache-2.0
"""A helper job ends with its job and with its supervisor, whatever ends these, and nothing of it is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import pytest

from guarded import PLUGSTACK, Job, hosts_of, new_job, until
from lab.cluster import LOGIN, Cluster
from lab.configuration import Settings
from lab.errors import LabError
from lab.processes import Process
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
    """A job whose step has lost n3, its helper job (the id), and the helper's node ("" while it waits).

    `host` is where the supervisor runs.
    """

    lab: Cluster
    job: Job
    helper: str
    node: str = ""
    host: str = "n1"

    def supervisor(self) -> int:
        """The supervisor's process, by its number on this side."""
        return next(pid for pid, line in self.lab.processes(self.host).items() if "stepguard supervise" in line)

    def with_new_helper(self, steps: list[dict[str, Any]]) -> Spliced:
        """The same job with another helper, which is used in these steps."""
        (node,) = hosts_of(steps) - {"n1", "n2"}
        (helper,) = (job_id for job_id in helpers(self.job) if job_id != self.helper)
        return replace(self, helper=helper, node=node)

    def assert_helper_gone(self, cause_s: float, or_completing: bool = False) -> None:
        """Waits until nothing is left of it; `cause_s` is when its end was caused, by time.time().

        With `or_completing`, its slurmstepds may still be there, without tasks: they try for 15 s to reach an srun
        whose host is lost (22.05, 24.11).
        """
        try:
            until("the helper is gone", lambda: not self.left(or_completing), cause_s + GONE_WITHIN_S - time.time())
        except AssertionError as error:
            raise AssertionError(f"{error}, but {self.left()}\njob's output:\n{self.job.out()}") from None

    def left(self, or_completing: bool = False) -> list[str]:
        """What of the helper is in the queue, and what of it and its tasks runs on its node."""
        jobs = queue(self.lab)
        if jobs is None:
            return ["slurmctld does not answer"]
        mine = [line for line in jobs if line.startswith(f"{self.helper} ")]
        ours = ["ring.py", "stepguard watch"]
        if or_completing:
            mine = [line for line in mine if not line.endswith("COMPLETING")]
        else:
            ours.append(f"slurmstepd: [{self.helper}.")
        return mine + [line for line in programs(self.lab, self.node) if any(word in line for word in ours)]

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
        try:
            until(f"{why!r} is told", lambda: f"Not resumed: {why}" in self.job.out(), GONE_WITHIN_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\njob's output:\n{self.job.out()}") from None
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


def gpu_lab(nodes: int = 4, slurm_conf: Settings | None = None) -> Cluster:
    return Cluster(nodes, gpus_per_node=2, slurm_conf=slurm_conf, plugstack=PLUGSTACK, prefix=installed())


def submitted(lab: Cluster, *options: str, resume: str = "", steps: int = 2000, then: str = GOES_ON) -> Job:
    """A running job of n1, n2 and n3 with a guarded step."""
    job = new_job(lab, resume=resume)
    step = f"srun --auto-resume=1 --gres=gpu:2 {job.ring(steps)}; echo status $?"
    job.submit(f"{step}\n{then}", "-N3", "-n3", *GPUS, *options)
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
    *options: str,
    nodes: int = 4,
    resume: str = "",
    steps: int = 2000,
    then: str = GOES_ON,
    slurm_conf: Settings | None = None,
) -> Iterator[Spliced]:
    """A lab with a step that runs over two jobs, and the rest of its nodes idle."""
    with gpu_lab(nodes, slurm_conf) as lab:
        yield splice(submitted(lab, *options, resume=resume, steps=steps, then=then))


@contextmanager
def waiting() -> Iterator[Spliced]:
    """A lab with a step that has lost a node, and whose helper waits in the queue, for all others are in use."""
    with gpu_lab() as lab:
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


def kill_supervisor(step: Spliced) -> None:
    os.kill(step.supervisor(), signal.SIGKILL)


def terminate_supervisor(step: Spliced) -> None:
    os.kill(step.supervisor(), signal.SIGTERM)


def interrupt_supervisor(step: Spliced) -> None:
    """As often as it takes: one asks for the status only."""
    pid = step.supervisor()
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
        cancel_job(step)
        step.assert_helper_gone(cause_s)
        step.assert_step_gone()
        assert step.job.await_end() == "CANCELLED"
        assert "Attempt number: 2" not in step.job.out()


@pytest.mark.parametrize("then", [GOES_ON, ""], ids=["the script goes on", "the script ends"])
def test_it_and_the_step_end_with_a_supervisor_that_is_killed(then: str) -> None:
    with spliced(then=then) as step:
        cause_s = time.time()
        kill_supervisor(step)
        step.assert_helper_gone(cause_s)
        step.assert_step_gone()
        if then:
            assert step.job.state() == "RUNNING"
        else:
            assert step.job.await_end() == "COMPLETED"
        assert not [line for line in programs(step.lab, "n1") if "salloc" in line or "ring.py" in line]


def test_it_ends_with_the_batch_host_and_the_job_runs_again() -> None:
    with spliced(nodes=5, resume="batch_host_s = 5", steps=150, then="", slurm_conf=QUICK_REQUEUE) as step:
        cause_s = time.time()
        step.lab.power_off("n1")
        step.assert_helper_gone(cause_s, or_completing=True)
        again = step.job.await_steps(3, attempt=2, within_s=90)
        assert hosts_of(again) == {"n2", "n4", "n5"}
        assert step.job.await_end() == "COMPLETED"
        assert queue(step.lab) == []


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
        kill_supervisor(step)
        time.sleep(3)
        step.lab.start_controller()
        step.assert_helper_gone(time.time())
        step.assert_step_gone()


@pytest.mark.timeout(240)
def test_it_ends_with_a_job_that_reaches_its_time_limit() -> None:
    limits = {"OverTimeLimit": "0", "KillWait": "5"}
    with spliced("--time=1", resume="min_time_left_s = 0", slurm_conf=limits) as step:
        until("the job's time is over", lambda: step.job.state() != "RUNNING", 120, 0.1)
        step.assert_helper_gone(time.time())
        assert step.job.await_end() == "TIMEOUT"
        assert "Attempt number: 2" not in step.job.out()


@contextmanager
def spliced_from_login() -> Iterator[tuple[Spliced, Process]]:
    """A step that runs over two jobs, started from a shell on a terminal of the login host; and the salloc."""
    with gpu_lab() as lab:
        job = new_job(lab)
        guarded = f"srun --auto-resume=1 --gres=gpu:2 {job.ring(2000)}"
        shell = f"{guarded} > {job.directory}/out 2>&1; sleep 600"
        salloc = lab.start(["salloc", "-N3", "-n3", *GPUS, "bash", "-c", shell], tty=True)
        job.await_steps(3)
        (job.id,) = lab.run(["squeue", "-h", "-o", "%A"]).stdout.split()
        step = splice(job)
        step.host = LOGIN
        yield step, salloc


def end_shell(step: Spliced, salloc: Process) -> None:
    (shell,) = [pid for pid, line in step.lab.processes(LOGIN).items() if line.startswith("bash -c")]
    os.kill(shell, signal.SIGKILL)


def close_terminal(step: Spliced, salloc: Process) -> None:
    salloc.hang_up()


def kill_salloc(step: Spliced, salloc: Process) -> None:
    salloc.send_signal(signal.SIGKILL)


def kill_the_supervisor(step: Spliced, salloc: Process) -> None:
    kill_supervisor(step)


@pytest.mark.parametrize("end", [kill_the_supervisor, end_shell, close_terminal])
def test_it_ends_with_a_step_from_the_login_host(end: Callable[[Spliced, Process], None]) -> None:
    with spliced_from_login() as (step, salloc):
        cause_s = time.time()
        end(step, salloc)
        step.assert_helper_gone(cause_s)
        step.assert_step_gone()
        assert not [line for line in programs(step.lab, LOGIN) if "salloc --no-bell" in line]


def preempt(step: Spliced) -> None:
    step.lab.run(["sbatch", "--partition=main", "-w", step.node, "--exclusive", "--wrap", "sleep 600"], user="bob")


def set_down(step: Spliced) -> None:
    step.lab.run(["scontrol", "update", f"NodeName={step.node}", "State=DOWN", "Reason=test"], user="root")


def set_fail_and_fail(step: Spliced) -> None:
    """An allocated node that is set FAIL runs on; its program fails then, as for memory that is broken."""
    step.lab.run(["scontrol", "update", f"NodeName={step.node}", "State=FAIL", "Reason=Action:Replace"], user="root")
    for pid, line in step.lab.processes(step.node).items():
        if "ring.py" in line:
            os.kill(pid, signal.SIGBUS)


def power_off(step: Spliced) -> None:
    step.lab.power_off(step.node)


@pytest.mark.parametrize("take_away", [preempt, set_down, set_fail_and_fail, power_off])
def test_one_that_is_taken_from_us_is_replaced(take_away: Callable[[Spliced], None]) -> None:
    preemption = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    with spliced("--partition=low", nodes=5, slurm_conf=preemption) as step:
        cause_s = time.time()
        take_away(step)
        step.assert_helper_gone(cause_s, or_completing=take_away is power_off)
        again = step.job.await_steps(3, attempt=2)
        assert hosts_of(again) == {"n1", "n2", "n4", "n5"} - {step.node}
        step = step.with_new_helper(again)
        cause_s = time.time()
        cancel_job(step)
        step.assert_helper_gone(cause_s)


def test_a_cut_of_the_batch_hosts_link_costs_the_helper_and_the_step_gets_another() -> None:
    with spliced(nodes=5) as step:
        cause_s = time.time()
        step.lab.cut_link("n1")
        time.sleep(9)
        step.lab.heal_link("n1")
        step.assert_helper_gone(cause_s, or_completing=True)
        again = step.job.await_steps(3, attempt=2)
        step = step.with_new_helper(again)
        cause_s = time.time()
        cancel_job(step)
        step.assert_helper_gone(cause_s)


@contextmanager
def limited_lab() -> Iterator[tuple[Cluster, Callable[..., None]]]:
    """A lab whose slurmctld holds users to their limits, and what sets these."""
    enforced = {"AccountingStorageEnforce": "limits,qos", "AccountingStorageTRES": "gres/gpu"}
    with gpu_lab(slurm_conf=enforced) as lab:

        def limit(*words: str) -> None:
            lab.run(["sacctmgr", "-i", "modify", *words], user="root")

        yield lab, limit


ALICE, QOS = ("user", "alice", "set"), ("qos", "normal", "set")


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ((*ALICE, "MaxJobs=1"), (), "Slurm allows no helper job: AssocMaxJobsLimit"),
        ((*ALICE, "MaxSubmitJobs=1"), (), "no helper job: "),
        ((), (*QOS, "GrpTRES=gres/gpu=4"), "Slurm allows no helper job: QOSGrpGRES"),
    ],
)
def test_a_user_who_may_have_no_second_job_is_told_in_one_line(
    before: tuple[str, ...], after: tuple[str, ...], why: str
) -> None:
    with limited_lab() as (lab, limit):
        if before:
            limit(*before)
        job = submitted(lab, resume='strategies = ["spare", "expand", "splice"]')
        if after:
            limit(*after)
        lab.power_off("n3")
        until("the end", lambda: "Not resumed: no strategy is left" in job.out(), 20)
        (told,) = [line for line in job.out().splitlines() if "splice" in line]
        assert f"splice: not possible: {why}" in told
        assert not helpers(job)


def test_a_limit_that_the_jobs_own_gpus_fill_is_kept_to() -> None:
    with limited_lab() as (lab, limit):
        limit(*QOS, "GrpTRES=gres/gpu=6")
        splice(submitted(lab))


@pytest.mark.parametrize("then", ["requeue", "nothing"])
def test_one_that_gets_no_node_leaves_the_queue_and_the_next_strategy_follows(then: str) -> None:
    strategies = ["splice", "requeue"] if then == "requeue" else ["splice"]
    with gpu_lab() as lab:
        lab.run(["sbatch", "--exclusive", "-w", "n4", "--wrap", "sleep 600"], user="bob")
        job = submitted(lab, resume=f"splice_wait = 3\nstrategies = {strategies}")
        lab.power_off("n3")
        until("it is told", lambda: "splice: not possible: no node became free within 3 s" in job.out(), 20)
        assert "waiting up to 2 s for 1 more node(s): helper job 3 is in the queue (" in job.out()
        assert not helpers(job)
        if then == "requeue":
            job.await_state("PENDING", "COMPLETING")
        else:
            until("the end", lambda: "Not resumed: no strategy is left" in job.out(), 10)
        assert not helpers(job)
