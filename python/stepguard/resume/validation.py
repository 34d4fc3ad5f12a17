# SPDX-License-Identifier: Apache-2.0
"""Whether a step can be guarded at all, as far as only Slurm can tell. The command line and the environment were
judged before, by stepguard.bridge."""

from __future__ import annotations

from stepguard.config import Resume
from stepguard.errors import PlacementError
from stepguard.slurm.records import Job


def check_job(job: Job, config: Resume) -> None:
    """Raises PlacementError, with the way out, when this job's steps cannot be guarded."""
    on = f"job {job.id}"
    if job.het_job_id:
        raise PlacementError(
            "--auto-resume does not work in a heterogeneous job",
            on,
            "its components cannot lose a node; remove it",
        )
    if job.stepmgr:
        raise PlacementError(
            "--auto-resume does not work with --stepmgr",
            on,
            "submit the job without --stepmgr (or enable_stepmgr)",
        )
    if config.require_exclusive and job.exclusive is False:
        raise PlacementError(
            "--auto-resume needs an allocation that shares its nodes with no other job",
            on,
            "add --exclusive to the sbatch or salloc line (or #SBATCH --exclusive)",
        )
