# SPDX-License-Identifier: Apache-2.0
"""The example for torchrun, as it is delivered, goes on when a node dies, that of rank 0 included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from guarded import PLUGSTACK, Job, new_job
from lab.cluster import Cluster
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]

EXAMPLES = Path(__file__).parents[2] / "slurm-conf-examples"
PROGRAMS = Path(__file__).with_name("programs")
GPUS = 8
STEPS = 60


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    """Three nodes for each job."""
    with Cluster(6, gpus_per_node=GPUS, plugstack=PLUGSTACK, prefix=installed()) as cluster:
        yield cluster


@pytest.fixture
def job(lab: Cluster) -> Job:
    """A directory with the example's files, a training, and torchrun in bin/."""
    job = new_job(lab)
    for name in ("torchrun-job.sh", "torchrun-node.sh"):
        lab.write(job.directory / name, (EXAMPLES / name).read_text())
    lab.write(job.directory / "train.py", (PROGRAMS / "torch_train.py").read_text())
    lab.run(["mkdir", str(job.directory / "bin")])
    lab.write(job.directory / "bin/torchrun", (PROGRAMS / "torchrun.py").read_text(), mode=0o755)
    return job


def words_of(job: Job) -> tuple[list[str], dict[str, str]]:
    """The example's command line, and the environment that it is given in."""
    path = f"{job.directory}/bin:/usr/bin:/bin"
    return ["torchrun-job.sh", "train.py", str(job.directory), str(STEPS)], {"PATH": path}


def assert_trains(job: Job, attempt: int, first: str, second: str) -> None:
    """Ranks of an attempt are on these nodes in this order, and meet on the first, whose address is its name."""
    for step in job.await_steps(5, attempt):
        assert step["hosts"] == [f"{node} {local}" for node in (first, second) for local in range(GPUS)]
        assert step["master"] == [first, 29500]


def test_a_batch_job_loses_a_node(lab: Cluster, job: Job) -> None:
    words, env = words_of(job)
    sbatch = ["sbatch", "--parsable", f"--output={job.directory}/out", "-w", "n[1-3]", *words]
    job.id = lab.run(sbatch, cwd=job.directory, env=env).stdout.strip()
    assert_trains(job, 0, "n1", "n2")
    lab.power_off("n2")
    assert_trains(job, 1, "n1", "n3")
    assert job.await_end() == "COMPLETED"
    assert job.progress()[-1]["step"] == STEPS


def test_the_node_where_the_ranks_meet_is_lost(lab: Cluster, job: Job) -> None:
    words, env = words_of(job)
    salloc = ["salloc", "-Q", "-w", "n[4-6]", "-N3", "--exclusive", f"--gres=gpu:{GPUS}", "bash", *words]
    shell = lab.start(salloc, cwd=job.directory, env=env)
    assert_trains(job, 0, "n4", "n5")
    lab.power_off("n4")
    assert_trains(job, 1, "n6", "n5")
    assert shell.wait(60) == 0
    assert job.progress()[-1]["step"] == STEPS
