# SPDX-License-Identifier: Apache-2.0
"""A GPU job gets a new node from outside its allocation, and the step goes on as one over two jobs."""

from __future__ import annotations

import pytest

from guarded import PLUGSTACK, Job, hosts_of, new_job
from lab.cluster import Cluster
from product import installed

pytestmark = [pytest.mark.live, pytest.mark.timeout(150)]

GPUS = ("--exclusive", "--gres=gpu:2")


def spliced_lab(nodes: int, **slurm_conf: str) -> Cluster:
    return Cluster(nodes, gpus_per_node=2, slurm_conf=slurm_conf, plugstack=PLUGSTACK, prefix=installed())


def queue(lab: Cluster) -> list[str]:
    """Ids of all jobs that have not ended."""
    return lab.run(["squeue", "-h", "-o", "%A"], user="root").stdout.split()


def test_a_gpu_job_without_a_spare_goes_on_with_a_node_from_outside() -> None:
    with spliced_lab(4) as lab:
        job = new_job(lab)
        job.submit(f"srun --auto-resume=1 --gres=gpu:2 {job.ring(150)}", "-N3", "-n3", *GPUS)
        before = job.await_steps(20)
        assert hosts_of(before) == {"n1", "n2", "n3"}
        lab.power_off("n3")
        after = job.await_steps(10, attempt=1)
        assert hosts_of(after) == {"n1", "n2", "n4"}
        assert job.await_end() == "COMPLETED"
        assert queue(lab) == []
