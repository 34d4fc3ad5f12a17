# SPDX-License-Identifier: Apache-2.0
"""expand: a helper job brings new nodes, which Slurm merges into the job.

Slurm refuses this for any job that holds GRES (22.05 to 26.05), under PrologFlags=Alloc or Contain (the helper then
has an extern step; and the prolog never runs for the job on the merged node), and without permit_job_expansion.
"""

from __future__ import annotations

import os
import select
import sys
import time

from stepguard import process
from stepguard.errors import SlurmRefused
from stepguard.resume.situation import Situation
from stepguard.resume.strategies.outcome import Failed, Outcome, Placement

_POLL_S = 0.1
_BLOCKING_PROLOG_FLAGS = frozenset({"ALLOC", "CONTAIN", "X11", "RUNINJOB", "DEFERBATCH"})
# What runs in the helper: says its job id and ends when our end of the pipe is closed, also by kill -9 of us.
_LIFELINE = "import os, sys; print(os.environ['SLURM_JOB_ID'], flush=True); sys.stdin.read()"


def helper_name(job_id: str) -> str:
    """The name by which people, hooks and a surviving watch know whose helper a job is."""
    return f"stepguard-{job_id}"


class Expand:
    """Drops the bad nodes, gets as many new ones by a helper job, and merges them."""

    def probe(self, situation: Situation) -> str:
        """Needs a cluster and a job that Slurm lets grow."""
        job, cluster = situation.job, situation.cluster
        if situation.batch_host_lost:
            return "the batch host is lost"
        if job.has_gres:
            return "Slurm lets no job with GRES grow"
        if "permit_job_expansion" not in cluster.scheduler_parameters:
            return "SchedulerParameters lacks permit_job_expansion"
        blocking = {flag.upper() for flag in cluster.prolog_flags} & _BLOCKING_PROLOG_FLAGS
        if blocking:
            return f"PrologFlags={','.join(sorted(blocking))} keeps Slurm from merging a helper job"
        if job.stepmgr:
            return "the job manages its steps itself (stepmgr)"
        if situation.command.distribution.startswith("arbitrary"):
            return "--distribution=arbitrary fixes each task to a node"
        return ""

    def carry_out(self, situation: Situation) -> Outcome:
        """One helper, and a second one if slurmctld has forgotten what the first is for: a restart makes it."""
        situation.drop_bad_nodes()
        for tries_left in (1, 0):
            try:
                return _with_helper(situation)
            except SlurmRefused as refused:
                if not tries_left:
                    raise
                situation.messages.info(f"the helper job cannot be merged ({refused}), trying another")
        raise AssertionError("the last try returns or raises")


def _with_helper(situation: Situation) -> Outcome:
    """The helper lives by a pipe to us until it is merged; it is gone on every path out of here."""
    to_helper_read, to_helper = os.pipe2(os.O_CLOEXEC)
    from_helper, from_helper_write = os.pipe2(os.O_CLOEXEC)
    helper = process.spawn(
        _command(situation), stdin=to_helper_read, stdout=from_helper_write, stderr=from_helper_write, new_session=True
    )
    os.close(to_helper_read)
    os.close(from_helper_write)
    try:
        helper_id, said = _await_start(situation, helper, from_helper)
        if not helper_id:
            return Failed(f"no helper job within {situation.config.expand_s:.0f} s: {said}")
        situation.slurm.merge_into(helper_id)
        situation.refresh()
        added = tuple(n for n in situation.job.nodes if n not in situation.usable and n not in situation.bad)
        nodes = (situation.usable + added)[: len(situation.step_nodes)]
        if len(nodes) < len(situation.step_nodes):
            return Failed("the merge brought no nodes")
        situation.messages.info("Job Expansion complete")
        return Placement(situation.in_job_order(nodes))
    finally:
        os.close(to_helper)
        os.close(from_helper)
        _end(situation, helper)


def _command(situation: Situation) -> list[str]:
    job = situation.job
    options = {
        "--job-name": helper_name(job.id),
        "--comment": f"stepguard: helper of job {job.id}",
        "--dependency": f"expand:{job.id}",
        "--nodes": str(situation.missing),
        "--partition": job.partition,
        "--account": job.account,
        "--qos": job.qos,
        "--constraint": job.features,
        "--reservation": job.reservation,
        "--exclude": ",".join(dict.fromkeys((*job.nodes, *situation.bad))),
        "--immediate": str(int(situation.config.expand_s)),
    }
    given = [f"{name}={value}" for name, value in options.items() if value]
    exclusive = ["--exclusive"] if job.exclusive else []
    # A helper that still waits in the queue knows nothing of the pipe: salloc is sent SIGTERM when we die.
    return [
        "setpriv",
        "--pdeathsig=TERM",
        "salloc",
        "--no-bell",
        *given,
        *exclusive,
        sys.executable,
        "-I",
        "-S",
        "-c",
        _LIFELINE,
    ]


def _await_start(situation: Situation, helper: process.Child, from_helper: int) -> tuple[str, str]:
    """The helper's job id once it runs, else "" and the last thing that salloc said."""
    end_s = time.monotonic() + situation.config.expand_s
    said = ""
    while time.monotonic() < end_s:
        if select.select([from_helper], [], [], _POLL_S)[0]:
            said += os.read(from_helper, 4096).decode(errors="replace")
            for line in said.splitlines():
                if line.strip().isdigit():
                    return line.strip(), said
        if helper.poll() is not None or not situation.pause(0):
            break
    return "", (said.strip().splitlines() or ["it waits in the queue"])[-1]


def _end(situation: Situation, helper: process.Child) -> None:
    """Takes the helper job away whatever became of it; salloc cancels a waiting job when it is told to end."""
    end_s = time.monotonic() + 2.0
    while helper.poll() is None and time.monotonic() < end_s:
        time.sleep(0.02)
    if helper.poll() is None:
        helper.send_signal(15)
        for job_id in situation.slurm.jobs_named(helper_name(situation.job.id), str(situation.job.user_id)):
            situation.slurm.cancel_job(job_id)
        helper.reap()
