# SPDX-License-Identifier: Apache-2.0
"""Each strategy against the cluster's configuration. What depends on the job is decided anew for each job."""

from __future__ import annotations

from stepguard.config import Resume
from stepguard.doctor.result import Result, fail, ok, warn
from stepguard.slurm.records import ClusterConfig

# Slurm merges a helper job only when it has no step, and these give every job an extern step, or have the tasks on a
# merged node wait for a prolog that nobody sends (22.05 to 26.05). As in resume/strategies/expand.py.
BLOCKING_PROLOG_FLAGS = frozenset({"ALLOC", "CONTAIN", "X11", "RUNINJOB", "DEFERBATCH"})
# As in resume/strategies/wait.py.
SHARE_OF_SLURMD_TIMEOUT = 0.8
# sbatch --requeue=expedite, where the cluster allows it.
EXPEDITE_RELEASE, EXPEDITE = (25, 11), "enable_expedited_requeue"
_REQUEUE_DELAY_RELEASE = (26, 5)


def check_strategies(cluster: ClusterConfig, resume: Resume, has_gres: bool) -> list[Result]:
    """One result for each configured strategy, in the order in which they are tried."""
    checks = {
        "spare": _spare(cluster),
        "expand": _expand(cluster, has_gres),
        "splice": _splice(cluster, resume),
        "wait": _wait(cluster, resume),
        "shrink": ok("shrink", "for steps that srun was given a range of nodes for (-N min-max)"),
        "requeue": _requeue(cluster),
    }
    return [checks[name] for name in resume.strategies]


def _spare(cluster: ClusterConfig) -> Result:
    if "disable_job_shrink" not in cluster.scheduler_parameters:
        return ok("spare", "for jobs with more nodes than the step uses")
    found = (
        "SchedulerParameters has disable_job_shrink: a dead node stays in the job, and takes it along "
        f"once Slurm notices (SlurmdTimeout={cluster.slurmd_timeout_s})"
    )
    return fail("spare", found, "remove disable_job_shrink, or have users submit with --no-kill")


def _expand(cluster: ClusterConfig, has_gres: bool) -> Result:
    never = "; jobs with GRES never expand" if has_gres else ""
    blocking = ",".join(sorted(flag for flag in cluster.prolog_flags if flag.upper() in BLOCKING_PROLOG_FLAGS))
    if "permit_job_expansion" not in cluster.scheduler_parameters:
        advice = "" if blocking else "to have it for jobs without GRES: SchedulerParameters=permit_job_expansion"
        return ok("expand", f"off: SchedulerParameters lacks permit_job_expansion{never}", advice)
    if blocking:
        found = f"permit_job_expansion is set, and PrologFlags={blocking} keeps Slurm from merging a helper job"
        return warn("expand", found, "remove permit_job_expansion, which then only lets users fail at it")
    return ok("expand", f"for jobs without GRES{never}")


def _splice(cluster: ClusterConfig, resume: Resume) -> Result:
    if resume.splice_wait == 0:
        return ok("splice", "off: [resume] splice_wait = 0")
    what = f"a node from outside the job, waited for up to {resume.splice_wait:.0f} s"
    if cluster.mpi_default not in ("", "none") and resume.pmi == "auto":
        found = f"{what}, only for steps with --mpi=none (MpiDefault={cluster.mpi_default})"
        return ok("splice", found, '[resume] pmi = "never" where programs do not need PMI whatever MpiDefault says')
    return ok("splice", f"{what}; not for programs started through PMI")


def _wait(cluster: ClusterConfig, resume: Resume) -> Result:
    if resume.wait_s == 0:
        return ok("wait", "off: [resume] wait_s = 0")
    if cluster.slurmd_timeout_s == 0:
        found = "SlurmdTimeout=0: Slurm never gives a silent node up, and stepguard does not wait for one"
        return warn("wait", found, "set SlurmdTimeout, or [resume] wait_s = 0")
    bound_s = min(resume.wait_s, cluster.slurmd_timeout_s * SHARE_OF_SLURMD_TIMEOUT)
    reboot = (
        "a rebooted node too (ReturnToService=2)"
        if cluster.return_to_service == 2
        else f"not a rebooted one, whose job Slurm ends (ReturnToService={cluster.return_to_service})"
    )
    return ok("wait", f"up to {bound_s:.0f} s for a node out of reach, {reboot}")


def _requeue(cluster: ClusterConfig) -> Result:
    if not cluster.job_requeue:
        advice = "JobRequeue=1, or have users submit with --requeue; without it a lost batch host ends the job"
        return warn("requeue", "JobRequeue=0: only jobs submitted with --requeue", advice)
    if cluster.release >= EXPEDITE_RELEASE and EXPEDITE in cluster.slurmctld_parameters:
        return ok("requeue", f"batch jobs, at once where submitted with --requeue=expedite ({EXPEDITE})")
    return ok("requeue", f"batch jobs, which then wait at least {_requeue_delay_s(cluster)} s")


def _requeue_delay_s(cluster: ClusterConfig) -> int:
    for word in cluster.scheduler_parameters:
        name, _, value = word.partition("=")
        if name == "requeue_delay" and value.isdigit() and cluster.release >= _REQUEUE_DELAY_RELEASE:
            return int(value)
    return cluster.credential_lifetime_s + 1
