# SPDX-License-Identifier: Apache-2.0
"""A guarded srun is an srun to its terminal, to signals, to pipes and to scancel."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import pytest

from guarded import PLUGSTACK, Job, new_job, until
from lab.cluster import Cluster
from lab.processes import Process
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, plugstack=PLUGSTACK, prefix=installed()) as lab:
        yield lab


@pytest.fixture
def allocation(cluster: Cluster) -> Iterator[str]:
    """A job of three nodes without a step; its id."""
    cluster.run(["salloc", "--no-shell", "-N3", "--exclusive", "--job-name=allocation"])
    (job_id,) = cluster.run(["squeue", "-h", "-o", "%A", "--name=allocation", "--states=R"]).stdout.split()
    yield job_id
    cluster.run(["scancel", job_id])
    until("the job is gone", lambda: not cluster.run(["squeue", "-h", "--job", job_id], check=False).stdout, 60)


def guarded(cluster: Cluster, job_id: str, *command: str, tty: bool = False, text_in: str | None = None) -> Process:
    return cluster.start(["srun", f"--jobid={job_id}", "--auto-resume=1", *command], tty=tty, text_in=text_in)


def running_ring(cluster: Cluster, job_id: str, tty: bool = False) -> tuple[Job, Process]:
    job = new_job(cluster)
    process = guarded(cluster, job_id, "-N2", "-n2", *job.ring(2000).split(), tty=tty)
    job.await_steps(5)
    return job, process


def assert_ended_for_good(cluster: Cluster, job: Job, job_id: str, process: Process) -> None:
    assert process.wait(60) != 0
    assert "Retrying" not in process.stdout + process.stderr
    until("no step is left", lambda: not cluster.run(["squeue", "-s", "-h", "--job", job_id]).stdout, 40)
    assert {step["attempt"] for step in job.progress()} == {"0"}


def test_one_ctrl_c_asks_for_the_status_and_two_end_the_step(cluster: Cluster, allocation: str) -> None:
    job, process = running_ring(cluster, allocation, tty=True)
    process.write("\x03")
    process.read_terminal("one more within 1 sec to abort", 10)
    before = len(job.progress())
    until("the step goes on", lambda: len(job.progress()) > before + 5, 10)
    time.sleep(1.5)
    for _ in range(6):
        process.write("\x03")
        time.sleep(0.2)
    assert_ended_for_good(cluster, job, allocation, process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_process_alone_ends_the_step(cluster: Cluster, allocation: str, number: int) -> None:
    job, process = running_ring(cluster, allocation)
    process.send_signal(number)
    assert_ended_for_good(cluster, job, allocation, process)


def test_sigint_twice_to_the_process_alone_ends_the_step(cluster: Cluster, allocation: str) -> None:
    job, process = running_ring(cluster, allocation)
    # 26.05 counts in whole seconds of the clock: two interrupts may fall on both sides of one.
    for _ in range(6):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    assert_ended_for_good(cluster, job, allocation, process)


def test_a_long_stop_is_nobodys_silence(cluster: Cluster, allocation: str) -> None:
    job, process = running_ring(cluster, allocation)
    process.send_signal(signal.SIGTSTP)
    time.sleep(8)
    process.send_signal(signal.SIGCONT)
    before = len(job.progress())
    time.sleep(4)
    assert len(job.progress()) > before
    assert process.status is None
    assert {step["attempt"] for step in job.progress()} == {"0"}
    process.send_signal(signal.SIGTERM)
    assert_ended_for_good(cluster, job, allocation, process)


def test_scancel_of_the_step_and_of_the_job(cluster: Cluster, allocation: str) -> None:
    job, process = running_ring(cluster, allocation)
    steps = cluster.run(["squeue", "-s", "-h", "-o", "%i %j", "--job", allocation]).stdout.splitlines()
    (step_id,) = [line.split()[0] for line in steps if "stepguard" not in line]
    cluster.run(["scancel", step_id])
    assert_ended_for_good(cluster, job, allocation, process)
    job, process = running_ring(cluster, allocation)
    cluster.run(["scancel", allocation])
    assert process.wait(60) != 0
    assert "Retrying" not in process.stderr


def test_signals_for_the_program_arrive(cluster: Cluster, allocation: str) -> None:
    program = (
        "import signal; signal.signal(signal.SIGUSR1, lambda *_: exit(9)); print('ready', flush=True); signal.pause()"
    )
    process = guarded(cluster, allocation, "-N1", "-n1", "/usr/bin/python3", "-c", program)
    process.wait_output("ready", 20)
    process.send_signal(signal.SIGUSR1)
    assert process.wait(30) == 9


def test_a_pipe_on_stdin_and_output_that_is_redirected(cluster: Cluster, allocation: str) -> None:
    process = guarded(cluster, allocation, "-N1", "-n1", "cat", text_in="line one\nline two\n")
    assert process.wait(30) == 0
    assert process.stdout == "line one\nline two\n"
    assert process.stderr == ""


def test_pty_is_a_terminal_and_leaves_one_behind(cluster: Cluster, allocation: str) -> None:
    shell = (
        f"srun --jobid={allocation} --auto-resume=1 --pty -N1 -n1 /usr/bin/python3 -c"
        ' \'import os; print("tty", os.isatty(0)); print("got " + input())\'; stty -a; echo status $?'
    )
    process = cluster.start(["sh", "-c", shell], tty=True)
    process.read_terminal("tty True", 20)
    process.write("hello\n")
    process.read_terminal("got hello", 10)
    assert " icanon " in process.read_terminal("status 0", 10)


def test_pty_on_a_node_that_dies_gives_the_terminal_back(cluster: Cluster, allocation: str) -> None:
    shell = (
        f"srun --jobid={allocation} --auto-resume=1 --pty -N1 -n1 -w n3 sh -c 'echo on $SLURMD_NODENAME; sleep 60';"
        " stty -a; echo status $?"
    )
    process = cluster.start(["sh", "-c", shell], tty=True)
    process.read_terminal("on n3", 20)
    cluster.power_off("n3")
    try:
        process.read_terminal("on n1", 30)
        process.await_raw_terminal(10)
        process.write("\x03")
        assert " icanon " in process.read_terminal("status 0", 30)
    finally:
        cluster.power_on("n3")
        cluster.resume("n3")
