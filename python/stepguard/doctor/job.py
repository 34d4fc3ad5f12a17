# SPDX-License-Identifier: Apache-2.0
"""Inside a job: could a step of this very job be guarded, and what could be done for it?"""

from __future__ import annotations

from stepguard.config import Resume
from stepguard.doctor.result import Result, ok, warn
from stepguard.slurm.records import Job

CHECK = "this job"


def check_job(job: Job, refusal: str, resume: Resume) -> list[Result]:
    """`refusal` is what a guarded step of this job would be told, empty when it would start."""
    if refusal:
        return [warn(CHECK, refusal, "until then, run its steps without --auto-resume")]
    results = []
    if job.time_left_s is not None and job.time_left_s < resume.min_time_left_s:
        found = f"{job.time_left_s:.0f} s are left, too few for a resume ([resume] min_time_left_s)"
        results.append(warn(CHECK, found, "ask for a longer --time"))
    if not job.is_batch:
        found = f"job {job.id} was not started by sbatch: it cannot be requeued when no node is left for the step"
        results.append(warn(CHECK, found, "submit it with sbatch, or keep spare nodes"))
    elif not job.requeue_allowed:
        found = f"job {job.id} may not be requeued: it ends with its batch host ({job.batch_host})"
        results.append(warn(CHECK, found, "submit it with --requeue"))
    nodes = len(job.nodes)
    spare = f"a step of at most {nodes - 1} of its {nodes} nodes leaves a spare" if nodes > 1 else "it has one node"
    return [*results, ok(CHECK, f"steps of job {job.id} can be guarded; {spare}")]
