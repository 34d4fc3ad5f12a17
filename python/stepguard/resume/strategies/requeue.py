# SPDX-License-Identifier: Apache-2.0
"""requeue: the whole job goes back into the queue, without the bad nodes. The last resort, and the only way when
the batch host is lost."""

from __future__ import annotations

from stepguard.errors import SlurmRefused
from stepguard.resume.situation import Situation
from stepguard.resume.strategies.outcome import Failed, Outcome, Requeued

# slurmctld needs a moment to make a running job a pending one that can be told which nodes to avoid.
_TRIES = 20
_PAUSE_S = 0.1


class Requeue:
    """`scontrol requeue`. From 25.11 on it is at once for jobs submitted with --requeue=expedite."""

    def probe(self, situation: Situation) -> str:
        """Needs a batch job that may be requeued."""
        if not situation.job.is_batch:
            return "only batch jobs can be requeued, this one was started by salloc or srun"
        if not situation.job.requeue_allowed:
            return "the job was submitted with --no-requeue (or JobRequeue=0)"
        return ""

    def carry_out(self, situation: Situation) -> Outcome:
        """Requeues, then keeps the job off the bad nodes."""
        # Somebody may have cancelled the job a moment ago: slurmctld would put that one back into the queue too.
        situation.refresh()
        if situation.job.state != "RUNNING":
            return Failed(f"the job is ending ({situation.job.state})")
        # A job with GRES that is requeued with a dead node in it runs again without them (22.05.8); and it would wait
        # until Slurm has noticed that the node is DOWN.
        situation.shrink()
        situation.slurm.requeue(situation.job.id)
        for _ in range(_TRIES):
            try:
                situation.slurm.exclude_nodes(situation.job.id, situation.bad)
            except SlurmRefused:
                situation.pause(_PAUSE_S)
            else:
                return Requeued()
        situation.messages.error(f"the requeued job may get {','.join(situation.bad)} again")
        return Requeued()
