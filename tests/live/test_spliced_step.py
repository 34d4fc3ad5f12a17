# SPDX-License-Identifier: Apache-2.0
"""A step over two jobs is one step to its user."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guarded import PLUGSTACK, Job, new_job, until
from lab.cluster import Cluster
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]

GPUS = ("--exclusive", "--gres=gpu:2")
PUPPET = Path(__file__).with_name("programs") / "puppet.py"


@pytest.fixture
def lab() -> Iterator[Cluster]:
    with Cluster(4, gpus_per_node=2, plugstack=PLUGSTACK, prefix=installed()) as cluster:
        yield cluster


def puppets(job: Job, attempt: int) -> dict[int, Any]:
    """What each rank of an attempt has seen, by rank."""
    paths = job.directory.glob(f"puppet-{attempt}-*")
    return {int(path.name.rpartition("-")[2]): json.loads(path.read_text()) for path in paths}


def order(job: Job, rank: int, status: int) -> None:
    job.lab.write(job.directory / f"order-{rank}", str(status), user=job.user)


def with_puppets(lab: Cluster, resume: str = "") -> tuple[Job, str]:
    """A job that is not submitted yet, and its program."""
    job = new_job(lab, resume=resume)
    lab.write(job.directory / "puppet.py", PUPPET.read_text(), user=job.user)
    return job, f"/usr/bin/python3 {job.directory}/puppet.py {job.directory}"


def spliced(lab: Cluster, srun: str, dead: str = "n3", *, salloc: bool = False) -> Job:
    """A job whose step of three ranks has lost a node and runs again with n4."""
    job, program = with_puppets(lab)
    line = f"srun --auto-resume=1 -N3 -n3 --gres=gpu:2 {srun.format(dir=job.directory, program=program)}"
    script = f"{line} & echo $! > {job.directory}/pid; wait $!; echo status $? >> {job.directory}/status; sleep 300"
    if salloc:
        job.submit_by_salloc(script, "-N3", "-w", "n1,n2,n3", *GPUS)
    else:
        job.submit(script, "-N3", "-w", "n1,n2,n3", *GPUS)
    until("three ranks", lambda: len(puppets(job, 0)) == 3, 20)
    lab.power_off(dead)
    until("three ranks again", lambda: len(puppets(job, 1)) == 3, 20)
    return job


def status(job: Job) -> str:
    path = job.directory / "status"
    return path.read_text().strip() if path.exists() else ""


def helpers(lab: Cluster, job: Job) -> list[str]:
    named = f"stepguard-{job.id}"
    return lab.run(["squeue", "-h", "-t", "PD,R", "-n", named, "-o", "%A"], user="root").stdout.split()


def test_a_task_that_fails_in_the_helper_ends_the_step_with_its_status(lab: Cluster) -> None:
    job = spliced(lab, "{program}")
    assert puppets(job, 1)[2]["host"] == "n4"
    order(job, 2, 3)
    until("the step has ended", lambda: status(job), 10)
    assert status(job) == "status 3"
    assert helpers(lab, job) == []
    assert "Not resumed: application: the program ended with status 3, and its nodes are healthy" in job.out()


def test_a_task_that_fails_in_the_job_ends_the_helpers_part_too(lab: Cluster) -> None:
    job = spliced(lab, "{program}")
    order(job, 0, 7)
    order(job, 1, 0)
    until("the step has ended", lambda: status(job), 10)
    assert status(job) == "status 7"
    assert helpers(lab, job) == []
    assert not [line for line in lab.processes("n4").values() if "puppet.py" in line]


def test_a_part_that_ends_well_waits_for_the_other(lab: Cluster) -> None:
    job = spliced(lab, "{program}")
    order(job, 2, 0)
    assert not status(job)
    order(job, 0, 0)
    order(job, 1, 0)
    until("the step has ended", lambda: status(job), 10)
    assert status(job) == "status 0"
    assert helpers(lab, job) == []


def test_signals_reach_all_parts(lab: Cluster) -> None:
    job = spliced(lab, "{program}")
    pid = (job.directory / "pid").read_text().strip()
    lab.run(["kill", "-USR1", pid], host="n1")
    answers = [job.directory / f"usr1-1-{rank}" for rank in range(3)]
    until("all ranks got the signal", lambda: all(path.exists() for path in answers), 10)
    lab.run(["kill", "-TERM", pid], host="n1")
    until("the step has ended", lambda: status(job), 10)
    assert status(job) != "status 0"
    assert helpers(lab, job) == []
    assert job.journal()[-1]["cause"] == "cancelled"


def test_output_of_both_parts_is_in_one_file_named_by_the_job(lab: Cluster) -> None:
    job = spliced(lab, "-o {dir}/of-%j-%3j.out {program}")
    until("all have written", lambda: (job.directory / f"of-{job.id}-{job.id:0>3}.out").exists(), 5)
    for rank in range(3):
        order(job, rank, 0)
    until("the step has ended", lambda: status(job), 10)
    lines = (job.directory / f"of-{job.id}-{job.id:0>3}.out").read_text().splitlines()
    for rank in range(3):
        assert [f"rank {rank} attempt {attempt}" in lines for attempt in (0, 1)] == [True, True]
    assert len(list(job.directory.glob("of-*"))) == 1


def test_stdin_goes_to_the_part_with_rank_0_and_all_tasks_know_all_nodes(lab: Cluster) -> None:
    """Under salloc on the login host any node may be lost, the first too."""
    job = spliced(lab, "{program} < {dir}/puppet.py", dead="n1", salloc=True)
    seen = puppets(job, 1)
    assert [seen[rank]["host"] for rank in range(3)] == ["n4", "n2", "n3"]
    assert seen[0]["stdin"] == puppets(job, 0)[0]["stdin"] == "# SPDX-License-Identifier: Apache-2.0\n"
    assert all(seen[rank]["nodes"] == ["n4", "n2", "n3"] for rank in range(3))
    assert seen[0]["env"]["STEPGUARD_HELPER_JOB_ID"] == helpers(lab, job)[0]
    assert "STEPGUARD_HELPER_JOB_ID" not in seen[1]["env"]
    ids = {(seen[rank]["env"]["SLURM_JOB_ID"], seen[rank]["env"]["SLURM_STEP_ID"]) for rank in range(3)}
    assert len(ids) == 1
    # The id is that of the real step in the job: who ends that ends all.
    lab.run(["scancel", ".".join(ids.pop())])
    until("the step has ended", lambda: status(job), 10)
    assert helpers(lab, job) == []
