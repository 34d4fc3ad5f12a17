# SPDX-License-Identifier: Apache-2.0
"""Which GPUs a job has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepguard.agent.health.job_gpus import JobGpus
from stepguard.records import wire
from stepguard.records.spool import AttemptKey, message_name

KEY = AttemptKey(7, 0)


def gpu(index: int, mig: int = 0) -> dict[str, Any]:
    return {"index": index, "mig": {"mode": mig}}


GPUS = {"GPU-a": gpu(0), "GPU-b": gpu(1), "GPU-c": gpu(2)}


@pytest.fixture
def jobs() -> JobGpus:
    known = JobGpus({})
    known.learn(GPUS)
    return known


@pytest.mark.parametrize(
    ("environment", "gpus"),
    [
        (b"SLURM_JOB_GPUS=0,2\0SLURM_JOB_ID=7\0", ("GPU-a", "GPU-c")),
        (b"SLURM_JOB_GPUS=0-1\0", ("GPU-a", "GPU-b")),
        (b"SLURM_JOB_ID=7\0", ()),
        (b"SLURM_JOB_GPUS=0,9\0", None),
        (b"SLURM_JOB_GPUS=all of them\0", None),
    ],
)
def test_by_the_prologs_environment(jobs: JobGpus, environment: bytes, gpus: tuple[str, ...] | None) -> None:
    assert jobs.begin(KEY, environment) == gpus


def test_what_nvml_has_not_told_yet_is_all() -> None:
    assert JobGpus({}).begin(KEY, b"SLURM_JOB_GPUS=0\0") is None


def test_mig_devices_have_indices_of_their_own(jobs: JobGpus) -> None:
    jobs.learn({"GPU-a": gpu(0, mig=1)})
    assert jobs.begin(KEY, b"SLURM_JOB_GPUS=0\0") is None


@pytest.mark.parametrize(
    ("devices", "gpus"),
    [
        ("MIG-GPU-b/3/0,MIG-GPU-a/1/0,MIG-GPU-b/4/0", ("GPU-b", "GPU-a")),
        ("MIG-device-of-a", ("GPU-a",)),
        ("GPU-b,MIG-device-of-a", ("GPU-b", "GPU-a")),
        ("MIG-of-somewhere-else", None),
        ("MIG-GPU-b/3/0,2", None),
        ("0,1", None),
        ("", None),
    ],
)
def test_mig_devices_by_their_names(devices: str, gpus: tuple[str, ...] | None) -> None:
    jobs = JobGpus({})
    jobs.learn(
        {
            "GPU-a": {"index": 0, "mig": {"mode": 1, "devices": {"MIG-device-of-a": {}}}},
            "GPU-b": {"index": 1, "mig": {"mode": 1, "devices": {"MIG-device-of-b": {}}}},
        }
    )
    environment = f"SLURM_JOB_GPUS=0,1\0CUDA_VISIBLE_DEVICES={devices}\0".encode()
    assert jobs.begin(KEY, environment) == gpus
    assert JobGpus(jobs.state()).begin(KEY, environment) == gpus


def test_a_gpu_that_leaves_the_enumeration_moves_nobodys_gpus(jobs: JobGpus, tmp_path: Path) -> None:
    jobs.begin(KEY, b"SLURM_JOB_GPUS=1\0")
    jobs.learn({"GPU-a": gpu(0), "GPU-c": gpu(1)})
    assert jobs.of(KEY, tmp_path) == ("GPU-b",)
    assert JobGpus(jobs.state()).of(KEY, tmp_path) == ("GPU-b",)


def test_a_prolog_that_came_by_a_note_is_in_the_spool(jobs: JobGpus, tmp_path: Path) -> None:
    message = {"kind": b"prolog", "environment": b"SLURM_JOB_GPUS=2\0"}
    (tmp_path / message_name(3, "prolog")).write_bytes(wire.encode(message))
    assert jobs.of(KEY, tmp_path) == ("GPU-c",)
    assert jobs.of(AttemptKey(8, 0), tmp_path / "nothing") is None


def test_only_so_many_jobs_are_remembered(jobs: JobGpus) -> None:
    for job_id in range(1, 3000):
        jobs.begin(AttemptKey(job_id, 0), b"SLURM_JOB_GPUS=0\0")
    assert len(jobs.state()["of"]) == 1000
