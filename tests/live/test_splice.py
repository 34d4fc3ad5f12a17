# SPDX-License-Identifier: Apache-2.0
"""A GPU job gets a new node from outside its allocation, and the step goes on as one over two jobs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from guarded import PLUGSTACK, Job, new_job, until
from lab.cluster import Cluster
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]

GPUS = ("--exclusive", "--gres=gpu:2")
# From the fault to all ranks running again.
WITHIN_S = 7.0


def spliced_lab(nodes: int, **slurm_conf: str) -> Cluster:
    return Cluster(nodes, gpus_per_node=2, slurm_conf=slurm_conf, plugstack=PLUGSTACK, prefix=installed())


def queue(lab: Cluster) -> list[str]:
    """Ids of all jobs that wait or run; one on a dead node is COMPLETING until Slurm has noticed that."""
    return lab.run(["squeue", "-h", "-t", "PD,R", "-o", "%A"], user="root").stdout.split()


def names(lab: Cluster, folded: str) -> list[str]:
    """The hosts of a host list, in its order."""
    return lab.run(["scontrol", "show", "hostnames", folded]).stdout.split()


def strategies(job: Job) -> list[str]:
    """The strategies that were chosen, one a failed attempt."""
    return [record["strategy"] for record in job.journal() if record["event"] == "choice"]


def host_of(ranks: list[dict[str, Any]]) -> list[str]:
    """The host of each rank."""
    return [rank["host"] for rank in ranks]


def assert_one_step(job: Job, attempt: int | str, nodes: list[str]) -> None:
    """Every rank of an attempt sees one and the same whole, on these nodes in the order of SLURM_NODEID."""
    ranks = job.ranks(attempt)
    tasks = str(len(ranks))
    per_node: dict[str, list[int]] = {name: [] for name in nodes}
    for number, rank in enumerate(ranks):
        env = rank["env"]
        per_node[rank["host"]].append(number)
        assert env["SLURM_PROCID"] == str(number)
        assert env["SLURM_JOB_ID"] == env["SLURM_JOBID"] == job.id
        assert env["SLURM_STEP_ID"] == env["SLURM_STEPID"] == ranks[0]["env"]["SLURM_STEP_ID"]
        assert env["SLURM_NTASKS"] == env["SLURM_NPROCS"] == env["SLURM_STEP_NUM_TASKS"] == tasks
        assert env["SLURM_NNODES"] == env["SLURM_JOB_NUM_NODES"] == env["SLURM_STEP_NUM_NODES"] == str(len(nodes))
        assert env["SLURM_NODEID"] == str(nodes.index(rank["host"]))
        assert env["SLURMD_NODENAME"] == rank["host"]
        assert names(job.lab, env["SLURM_STEP_NODELIST"]) == nodes
        assert env["SLURM_JOB_NODELIST"] == env["SLURM_NODELIST"] == env["SLURM_STEP_NODELIST"]
        assert env["SLURM_STEP_TASKS_PER_NODE"] == env["SLURM_TASKS_PER_NODE"]
        assert "SLURM_STEPGUARD_PLACES" not in env
        helper = env.get("STEPGUARD_HELPER_JOB_ID")
        assert (helper is not None) is (rank["host"] not in names(job.lab, job.nodes()))
        assert helper != job.id
    for rank in ranks:
        gtids = ",".join(map(str, per_node[rank["host"]]))
        assert rank["env"]["SLURM_GTIDS"] == gtids
        assert rank["env"]["SLURM_LOCALID"] == str(per_node[rank["host"]].index(int(rank["env"]["SLURM_PROCID"])))


@pytest.mark.parametrize("dead", ["n2", "n3"])
def test_a_gpu_job_without_a_spare_goes_on_with_a_node_from_outside(dead: str) -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 --gres=gpu:2 {job.ring(250)}; echo status $?", "-N3", "-n3", *GPUS)
        job.await_steps(20)
        first = host_of(job.ranks(0))
        fault_s = time.time()
        lab.power_off(dead)
        after = job.await_steps(10, attempt=1)
        assert after[0]["time"] - fault_s < WITHIN_S
        expected = ["n4" if host == dead else host for host in first]
        assert host_of(job.ranks(1)) == expected
        assert_one_step(job, 1, expected)
        assert len(queue(lab)) == 2
        shown = lab.run(["squeue", "-h", "-n", f"stepguard-{job.id}", "-o", "%D %N %b %k"]).stdout.strip()
        assert shown.startswith("1 n4 gres") and shown.endswith(f"stepguard: helper of job {job.id}")
        assert all(rank["env"]["SLURM_GPUS_ON_NODE"] == "2" for rank in job.ranks(1))
        assert job.await_end() == "COMPLETED"
        assert "status 0" in job.out()
        assert job.progress()[-1]["step"] == 250
        assert queue(lab) == []
        assert strategies(job) == ["splice"]
        assert "[Auto Resume] Info: JobID: 1 StepID: 0 Retrying step. Attempt number: 1\n" in job.out()


@pytest.mark.parametrize(
    ("submit", "srun", "layout"),
    [
        pytest.param("-N3", "-N3 -n6", ["n1", "n1", "n2", "n2", "n3", "n3"], id="two tasks a node"),
        pytest.param("-N3", "-N3 -n6 -m cyclic", ["n1", "n2", "n3", "n1", "n2", "n3"], id="cyclic"),
        pytest.param("-N3 --ntasks-per-node=2", "", ["n1", "n1", "n2", "n2", "n3", "n3"], id="ntasks-per-node"),
        pytest.param("-N3", "--ntasks-per-node=2 --gpus-per-task=1", ["n1", "n1", "n2", "n2", "n3", "n3"], id="srun"),
        pytest.param("-N3 --gpus=6", "-n3 --gpus=6", ["n1", "n2", "n3"], id="GPUs of the whole"),
        pytest.param("-N3", "-N3 -n3 --export=NONE", ["n1", "n2", "n3"], id="export none"),
        pytest.param("-N3 -n3 -c4 --mem=400", "-c4", ["n1", "n2", "n3"], id="cpus per task"),
    ],
)
def test_ranks_stay_where_they_were(submit: str, srun: str, layout: list[str]) -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab)
        gpus = () if "--gpus" in submit else ("--gres=gpu:2",)
        job.submit(f"srun --auto-resume=1 {srun} {job.ring(250)}", *submit.split(), "--exclusive", *gpus)
        told = "NONE" not in srun  # else the ring does not know its attempt
        until("steps", lambda: len(job.progress()) > 20, 20)
        assert host_of(job.ranks(0 if told else "-")) == layout
        lab.power_off("n2")
        until("all ranks run again", lambda: "n4" in job.progress()[-1]["hosts"], 15)
        moved = ["n4" if host == "n2" else host for host in layout]
        assert host_of(job.ranks(1 if told else "-")) == moved
        assert_one_step(job, 1 if told else "-", ["n1", "n4", "n3"])
        lab.run(["scancel", job.id])
        until("the queue is empty", lambda: queue(lab) == [], 15)


def test_uneven_tasks_and_two_nodes_of_four_lost_at_once() -> None:
    with spliced_lab(6) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N4 -n6 --gres=gpu:2 {job.ring(400)}", "-N4", *GPUS)
        job.await_steps(20)
        before = host_of(job.ranks(0))
        assert len(before) == 6
        fault_s = time.time()
        lab.power_off("n2")
        lab.power_off("n3")
        after = job.await_steps(10, attempt=1)
        assert after[0]["time"] - fault_s < WITHIN_S
        where = dict(zip(before, host_of(job.ranks(1)), strict=True))
        assert (where["n1"], where["n4"]) == ("n1", "n4")
        assert {where["n2"], where["n3"]} == {"n5", "n6"}
        assert_one_step(job, 1, ["n1", where["n2"], where["n3"], "n4"])
        lab.run(["scancel", job.id])
        until("the queue is empty", lambda: queue(lab) == [], 15)


def test_one_loss_after_the_other() -> None:
    """The helper's node, then a survivor, then both a helper's node and a survivor."""
    with spliced_lab(8) as lab:
        job = new_job(lab, resume="min_progress_s = 0.5")
        job.submit(f"srun --auto-resume=1 -N3 -n3 --gres=gpu:2 {job.ring(2000)}", "-N3", *GPUS)
        job.await_steps(20)
        hosts = host_of(job.ranks(0))
        for attempt, lost in ((1, [2]), (2, [2]), (3, [1]), (4, [1, 2])):
            survivors = {rank: host for rank, host in enumerate(hosts) if rank not in lost}
            fault_s = time.time()
            for rank in lost:
                lab.power_off(hosts[rank])
            after = job.await_steps(20, attempt=attempt)
            assert after[0]["time"] - fault_s < WITHIN_S
            hosts = host_of(job.ranks(attempt))
            assert {rank: host for rank, host in enumerate(hosts) if rank not in lost} == survivors
            assert_one_step(job, attempt, hosts)
        assert strategies(job) == ["splice"] * 4
        lab.run(["scancel", job.id])
        until("the queue is empty", lambda: queue(lab) == [], 15)


def test_a_spare_takes_the_ranks_of_the_lost_node_and_files_and_labels_say_so() -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab)
        step = f"srun --auto-resume=1 -l -N3 -n3 --gres=gpu:2 -o {job.directory}/of-%t"
        job.submit(f"{step} bash -c 'echo $SLURM_PROCID on $(hostname); exec {job.ring(150)}'", "-N4", *GPUS)
        job.await_steps(10)
        lab.power_off("n2")
        job.await_steps(10, attempt=1)
        assert host_of(job.ranks(1)) == ["n1", "n4", "n3"]
        assert [rank["env"]["SLURM_NODEID"] for rank in job.ranks(1)] == ["0", "1", "2"]
        assert strategies(job) == ["spare"]
        assert job.await_end() == "COMPLETED"
        for rank, (old, new) in enumerate((("n1", "n1"), ("n2", "n4"), ("n3", "n3"))):
            lines = (job.directory / f"of-{rank}").read_text().splitlines()
            lines = [line for line in lines if " on n" in line and "CANCELLED" not in line]
            assert lines == [f"{rank}: {rank} on {old}", f"{rank}: {rank} on {new}"]


def test_an_expanded_job_keeps_its_ranks_too() -> None:
    conf = {"SchedulerParameters": "permit_job_expansion"}
    with Cluster(4, slurm_conf=conf, plugstack=PLUGSTACK, prefix=installed()) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 {job.ring(400)}", "-N3", "-n3", "--exclusive")
        job.await_steps(10)
        lab.power_off("n2")
        job.await_steps(5, attempt=1)
        assert host_of(job.ranks(1)) == ["n1", "n4", "n3"]
        assert strategies(job) == ["expand"]
        lab.run(["scancel", job.id])


def test_without_keep_ranks_slurm_numbers_them_anew() -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab, resume="keep_ranks = false")
        job.submit(f"srun --auto-resume=1 -N3 -n3 --gres=gpu:2 {job.ring(150)}", "-N4", *GPUS)
        job.await_steps(10)
        lab.power_off("n2")
        job.await_steps(5, attempt=1)
        assert host_of(job.ranks(1)) == ["n1", "n3", "n4"]
        lab.run(["scancel", job.id])


@pytest.mark.parametrize(
    ("srun", "why"),
    [
        ("-o {dir}/of-%t", "goes by the number of a task or node"),
        ("-e {dir}/%3n", "goes by the number of a task or node"),
        ("-o 2", "goes by the number of a task or node"),
        ("--mpi=pmi2", "the program is started through PMI (--mpi=pmi2)"),
        ("--multi-prog", "--multi-prog is of one srun"),
    ],
)
def test_what_cannot_be_one_step_over_two_jobs_is_told_and_left_to_the_next_strategy(srun: str, why: str) -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab, resume='strategies = ["spare", "splice"]')
        program = job.ring(400)
        if "multi-prog" in srun:
            lab.write(job.directory / "programs", f"0-2 {program}\n", user=job.user)
            program = f"{job.directory}/programs"
        job.submit(f"srun --auto-resume=1 {srun.format(dir=job.directory)} -N3 -n3 {program}", "-N3", *GPUS)
        job.await_steps(5)
        lab.power_off("n3")
        until("the end is told", lambda: "Not resumed: no strategy is left" in job.out(), 20)
        assert "splice: not possible: " in job.out()
        assert why in job.out()
        assert strategies(job) == [""]
        assert queue(lab) in ([], [job.id])


@pytest.mark.parametrize("kill", ["", "-K"])
def test_a_node_whose_task_dies_first_is_hardware_though_srun_has_ended_the_step(kill: str) -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 {kill} -N3 -n3 --gres=gpu:2 {job.ring(400)}", "-N3", *GPUS)
        job.await_steps(10)
        lab.run(["pkill", "-KILL", "-f", "ring.py"], host="n3", user="root", check=False)
        time.sleep(0.4)
        lab.power_off("n3")
        job.await_steps(5, attempt=1)
        assert host_of(job.ranks(1)) == ["n1", "n2", "n4"]
        lab.run(["scancel", job.id])


@pytest.mark.parametrize("srun", ["--exclusive -c2", "-l", "--open-mode=truncate -o {dir}/of"])
def test_options_of_all_kinds_go_along(srun: str) -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab)
        line = f"srun --auto-resume=1 {srun.format(dir=job.directory)} -N3 -n3 --gres=gpu:2"
        job.submit(f"{line} bash -c 'echo rank $SLURM_PROCID; exec {job.ring(120)}'", "-N3", *GPUS)
        job.await_steps(10)
        lab.power_off("n3")
        job.await_steps(10, attempt=1)
        assert strategies(job) == ["splice"]
        assert job.await_end() == "COMPLETED"
        said = (job.directory / "of").read_text() if "of" in srun else job.out()
        assert all(f"rank {rank}" in said for rank in range(3))


@pytest.mark.parametrize("gap_s", [1.0, 2.7, 4.0])
def test_a_second_node_dies_around_the_relaunch(gap_s: float) -> None:
    with spliced_lab(6) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N3 -n3 --gres=gpu:2 {job.ring(900)}", "-N3", *GPUS)
        job.await_steps(10)
        lab.power_off("n3")
        time.sleep(gap_s)
        lab.power_off("n2")
        until("all ranks run again", lambda: not {"n2", "n3"} & set(job.progress()[-1]["hosts"]), 25)
        assert set(strategies(job)) == {"splice"}
        lab.run(["scancel", job.id])


def test_a_node_that_dies_in_the_first_second_is_replaced() -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 -N3 -n3 --gres=gpu:2 {job.ring(900)}", "-N3", *GPUS)
        until("rank 0 has begun", lambda: (job.directory / "rank-0-0").exists(), 10, 0.01)
        lab.power_off("n3")
        job.await_steps(5, attempt=1)
        assert strategies(job) == ["splice"]
        lab.run(["scancel", job.id])


def test_somebody_elses_places_change_nothing() -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab)
        garbage = "export SLURM_STEPGUARD_PLACES='1;SLURM_NTASKS=9;@n1=0:7'"
        job.submit(f"{garbage}; srun --auto-resume=1 -N3 -n3 --gres=gpu:2 {job.ring(400)}", "-N3", *GPUS)
        job.await_steps(10)
        lab.power_off("n3")
        job.await_steps(5, attempt=1)
        assert_one_step(job, 1, ["n1", "n2", "n4"])
        lab.run(["scancel", job.id])


def test_the_helper_is_of_the_same_kind_as_the_job() -> None:
    with spliced_lab(6) as lab:
        window = ["StartTime=now", "Duration=60", "Users=alice", "ReservationName=res", "Nodes=n1,n2,n3,n6"]
        lab.run(["scontrol", "create", "reservation", *window], user="root")
        job = new_job(lab)
        options = ("--reservation=res", "-p", "low", "--mem=600", "--time=10", "-w", "n1,n2,n3")
        job.submit(f"srun --auto-resume=1 -N3 -n3 --gres=gpu:2 {job.ring(400)}", "-N3", *options, *GPUS)
        job.await_steps(10)
        lab.power_off("n3")
        job.await_steps(5, attempt=1)
        assert host_of(job.ranks(1)) == ["n1", "n2", "n6"]
        form = "%P %v %m %D %N"
        listed = lab.run(["squeue", "-h", "-o", form], user="root").stdout.splitlines()
        assert listed[0].split()[:3] == listed[1].split()[:3] == ["low", "res", "600M"]
        lab.run(["scancel", job.id])


def test_the_helpers_part_runs_also_when_the_jobs_own_is_over_at_once() -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab)
        again = f"touch {job.directory}/done-$SLURM_PROCID; exit 0"
        step = f"[ $STEPGUARD_ATTEMPT = 0 ] || {{ {again}; }}; touch {job.directory}/begun-$SLURM_PROCID; sleep 300"
        job.submit(f"srun --auto-resume=1 -N3 -n3 --gres=gpu:2 sh -c '{step}'; echo status $?", "-N3", *GPUS)
        until("all have begun", lambda: len(list(job.directory.glob("begun-*"))) == 3, 20)
        time.sleep(1)
        lab.power_off("n3")
        until("the end", lambda: "status 0" in job.out(), 30)
        assert len(list(job.directory.glob("done-*"))) == 3
        assert strategies(job) == ["splice"]
