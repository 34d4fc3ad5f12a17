# SPDX-License-Identifier: Apache-2.0
"""expand: a helper job brings new nodes, which Slurm merges into the job.

Slurm refuses this for any job that holds GRES (22.05 to 26.05), under PrologFlags=Alloc or Contain (the helper then
has an extern step; and the prolog never runs for the job on the merged node), and without permit_job_expansion.
"""

from __future__ import annotations

import time

from stepguard.errors import SlurmRefused
from stepguard.resume import helper_job, proof
from stepguard.resume.helper_job import HelperJob
from stepguard.resume.situation import Situation
from stepguard.resume.strategies.outcome import Failed, Outcome, Placement

_POLL_S = 0.02
_BLOCKING_PROLOG_FLAGS = frozenset({"ALLOC", "CONTAIN", "X11", "RUNINJOB", "DEFERBATCH"})


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
    """The helper is gone on every path out of here; once it is merged it is an empty job."""
    job = situation.job
    options = helper_job.like(job, situation.missing, tuple(dict.fromkeys((*job.nodes, *situation.bad))))
    options |= {"--dependency": f"expand:{job.id}"}
    if job.exclusive:
        options["--exclusive"] = ""
    helper = HelperJob(situation.slurm, options)
    try:
        refusal = _await_start(situation, helper)
        if refusal:
            return Failed(f"no helper job within {situation.config.expand_s:.0f} s: {refusal}")
        situation.slurm.merge_into(helper.id)
        situation.refresh()
        added = tuple(n for n in situation.job.nodes if n not in situation.usable and n not in situation.bad)
        nodes = (situation.usable + added)[: len(situation.step_nodes)]
        if len(nodes) < len(situation.step_nodes):
            return Failed("the merge brought no nodes")
        situation.messages.info("Job Expansion complete")
        return Placement(situation.in_order(nodes), proven=added if _have_plugin(situation, added) else ())
    finally:
        helper.end()


def _have_plugin(situation: Situation, nodes: tuple[str, ...]) -> bool:
    """Whether the new nodes' tasks can be given the places of the lost ones; without the plugin Slurm numbers all."""
    watch = situation.open_watch("", nodes)
    try:
        proof.begin(watch)
        return proof.finish(watch, situation.pause, lambda waiting: waiting) is None
    finally:
        watch.stop()


def _await_start(situation: Situation, helper: HelperJob) -> str:
    """Why the helper does not run within its time; "" once it does."""
    end_s = time.monotonic() + situation.config.expand_s
    while time.monotonic() < end_s:
        if helper.granted():
            return ""
        if refusal := helper.refused():
            return refusal
        if not situation.pause(_POLL_S):
            return "interrupted"
    return "it waits in the queue"
