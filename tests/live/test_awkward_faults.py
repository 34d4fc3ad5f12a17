# SPDX-License-Identifier: Apache-2.0
"""Faults at the worst moment: while an attempt starts, two in a row, a cut of our own link, many nodes."""

from __future__ import annotations

import time

import pytest

from guarded import PLUGSTACK, hosts_of, new_job, until
from lab.cluster import Cluster
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]


def guarded_lab(nodes: int, gpus: int = 0) -> Cluster:
    return Cluster(nodes, gpus_per_node=gpus, plugstack=PLUGSTACK, prefix=installed())


@pytest.mark.parametrize("after_s", [0.0, 0.1, 0.3])
def test_a_node_that_dies_while_its_attempt_is_launched(after_s: float) -> None:
    with guarded_lab(4) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N3 -n3 {job.ring(60)}", "-N4", "--exclusive")
        job.await_state("RUNNING")
        time.sleep(after_s)
        lab.power_off("n3")
        after = job.await_steps(5, attempt=1, within_s=60)
        assert hosts_of(after) == {"n1", "n2", "n4"}
        assert job.await_end() == "COMPLETED"


@pytest.mark.parametrize("gap_s", [0.0, 0.5, 1.5])
def test_a_second_node_that_dies_soon_after_is_not_used_again(gap_s: float) -> None:
    with guarded_lab(6) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N3 -n3 {job.ring(100)}", "-N5", "--exclusive")
        job.await_steps(5)
        lab.power_off("n3")
        time.sleep(gap_s)
        lab.power_off("n2")
        after = job.await_steps(5, attempt=1)
        assert hosts_of(after) == {"n1", "n4", "n5"}
        assert job.await_end() == "COMPLETED"


@pytest.mark.parametrize("cut_s", [3, 4, 6, 8])
def test_a_cut_of_the_batch_hosts_own_link_blames_nobody(cut_s: float) -> None:
    with guarded_lab(4) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N3 -n3 {job.ring(400)}", "-N4", "--exclusive")
        job.await_steps(5)
        lab.cut_link("n1")
        time.sleep(cut_s)
        lab.heal_link("n1")
        done = len(job.progress())
        try:
            until("the step goes on", lambda: len(job.progress()) > done + 50, 40)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{job.out()}") from None
        assert "Verdict: hardware" not in job.out()
        assert {step["attempt"] for step in job.progress()} == {"0"}
        lab.run(["scancel", job.id])


def test_a_step_of_so_many_nodes_that_their_daemons_report_along_a_tree() -> None:
    with guarded_lab(10, gpus=1) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N9 -n9 {job.ring(100)}", "-N10", "--exclusive", "--gres=gpu:1")
        job.await_steps(10)
        lab.power_off("n2")
        assert hosts_of(job.await_steps(5, attempt=1)) == {node for node in lab.nodes if node != "n2"}
        # The slurmstepds of the old step wait a minute for their dead relative, and so does the end of a short job.
        job.await_state("COMPLETED", "COMPLETING")
        assert job.progress()[-1]["step"] == 100
        assert "still running" not in job.out()


def test_a_closed_stdout_is_no_channel_of_ours() -> None:
    with guarded_lab(2) as lab:
        job = new_job(lab)
        job.submit("srun --auto-resume=1 -N2 -n2 hostname >&-; echo status $? >&2", "-N2", "--exclusive")
        until("the end of the step", lambda: "status 0" in job.out(), 30)
