# SPDX-License-Identifier: Apache-2.0
"""Shared libraries made by the compiler that builds the product, and records of a cluster and a job."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard.slurm.records import ClusterConfig, Job
from unit.everybody import let_in


@pytest.fixture(scope="session")
def compile_library(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A function (C text, *linker options) → the path of a shared library."""

    def build(text: str, *options: str) -> Path:
        folder = tmp_path_factory.mktemp("library")
        source, target = folder / "library.c", folder / "library.so"
        source.write_text(text)
        command = ["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", str(target), str(source), *options]
        subprocess.run(command, check=True, capture_output=True)
        target.chmod(0o644)
        return target

    return build


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """A PREFIX whose folders let everybody in, as an installation's do and a test's own folder does not."""
    let_in(tmp_path)
    return tmp_path


@pytest.fixture
def cluster() -> ClusterConfig:
    """A cluster at Slurm's defaults, with accounting."""
    return ClusterConfig(
        cluster_name="lab",
        release=(24, 11, 5),
        slurmctld_places=(("10.0.0.1", 6817),),
        prolog_flags=frozenset(),
        scheduler_parameters=(),
        slurmctld_parameters=(),
        launch_parameters=(),
        slurmd_timeout_s=300,
        return_to_service=0,
        select_type="select/cons_tres",
        mpi_default="",
        kill_on_bad_exit=False,
        accounting_storage_type="accounting_storage/slurmdbd",
        job_requeue=True,
        credential_lifetime_s=120,
    )


@pytest.fixture
def job() -> Job:
    """A running exclusive batch job of three nodes."""
    return Job(
        id="71",
        user_id=1000,
        state="RUNNING",
        reason="",
        partition="main",
        qos="",
        account="",
        nodes=("n1", "n2", "n3"),
        batch_host="n1",
        is_batch=True,
        requeue_allowed=True,
        restart_count=0,
        exclusive=True,
        has_gres=False,
        time_left_s=3600.0,
        end_time=None,
        num_cpus=24,
        cpus_per_node="8(x3)",
        stepmgr=False,
        het_job_id="",
        array_job_id="",
        array_task_id="",
        comment="",
        reservation="",
        features="",
        exit_code="0:0",
    )
