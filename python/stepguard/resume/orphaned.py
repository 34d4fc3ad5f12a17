# SPDX-License-Identifier: Apache-2.0
"""What a node's watch does when it no longer hears the supervisor.

supervisor's host answers                 → the supervisor is only stopped (Ctrl-Z): wait
it does not, nor does any slurmctld       → this node is cut off: wait for the link to heal
it does not, slurmctld does               → the supervisor's host is lost: end its helper jobs, then requeue the job
slurmctld answers again after a cut       → has the job left this node behind? then end its old tasks here
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

# All at once, for an upgrade may replace the files while a step runs.
from stepguard import config
from stepguard.errors import StepguardError
from stepguard.resume import helper_job
from stepguard.resume.journal import Journal
from stepguard.resume.orders import Orders
from stepguard.resume.reach import answering
from stepguard.slurm import connect
from stepguard.slurm.protocol import SlurmClient

# Between two looks around; each look itself takes up to probe_s.
_PAUSE_S = 0.3
# Watches act one after the other by rank, so that normally only the first has to.
_TURN_S = 1.5
# A watch that hears nothing, although nobody is cut off, asks Slurm so often whether its step is still there.
_QUESTION_S = 60.0
# A helper job is given back sooner than the job is requeued: a new one is had in a moment. Only so many watches see to
# those that still wait in the queue.
_HELPERS_S = 2.0
_HELPERS_RANKS = 3


class Orphaned:
    """Keeps what is known since the last ping."""

    def __init__(self, orders: Orders, node: str, rank: int, watched_step: Callable[[], str]) -> None:
        self._orders = orders
        self._node = node
        # The batch host is the first node of its job, and dies with the supervisor.
        on_batch_host = orders.supervisor is not None and not orders.helper_id
        self._rank = max(0, rank - 1) if on_batch_host else rank
        self._watched_step = watched_step
        self._turn_s = self._rank * _TURN_S
        self._supervisor = orders.supervisor or _own_srun()
        self._was_cut_off = False
        self._host_lost_since_s: float | None = None
        self._helpers_ended = False
        self._next_question_s = time.monotonic() + _QUESTION_S

    def found_again(self) -> None:
        """The supervisor is heard again."""
        self._next_question_s = time.monotonic() + _QUESTION_S
        self._was_cut_off = False
        self._host_lost_since_s = None
        self._helpers_ended = False

    def end_helper(self) -> None:
        """Ends the helper job that is watched, if it is one: the supervisor is done with it, or was killed."""
        if not self._orders.helper_id:
            return
        try:
            self._slurm().cancel_job(self._orders.helper_id)
        except StepguardError:
            # slurmctld is silent: the supervisor's salloc ends the job as well, and at the latest its time limit.
            return

    def look_around(self, end_old_tasks: Callable[[], int]) -> bool:
        """One look; blocks for at most probe_s and a few Slurm commands. True: the watch has nothing left to do."""
        places = {f"controller {n}": place for n, place in enumerate(self._orders.controllers)}
        if self._supervisor is not None:
            places["supervisor"] = self._supervisor
        alive = answering(places, self._orders.probe_s)
        now_s = time.monotonic()
        if alive - {"supervisor"} and (self._was_cut_off or now_s >= self._next_question_s):
            self._next_question_s = now_s + _QUESTION_S
            if self._left_behind():
                end_old_tasks()
                self.end_helper()
                return True
        if "supervisor" in alive:
            self._host_lost_since_s = None
        elif not alive:
            self._was_cut_off = True
            self._host_lost_since_s = None
        elif self._supervisor is not None and self._host_is_lost(now_s):
            return True
        time.sleep(_PAUSE_S)
        return False

    def _host_is_lost(self, now_s: float) -> bool:
        self._host_lost_since_s = self._host_lost_since_s or now_s
        lost_s = now_s - self._host_lost_since_s
        if not self._helpers_ended and self._rank < _HELPERS_RANKS and lost_s >= _HELPERS_S + self._turn_s:
            self._helpers_ended = self._end_helpers()
        if self._orders.helper_id:
            return self._helpers_ended
        return self._orders.requeue and lost_s >= self._orders.batch_host_s + self._turn_s and self._requeue()

    def _slurm(self) -> SlurmClient:
        return connect(config.load().slurm)

    def _journal(self) -> Journal:
        return Journal(Path(self._orders.journal), self._orders.step_key, self._orders.restart_count)

    def _end_helpers(self) -> bool:
        """Ends the job's helpers, those that wait in the queue too; says so for a supervisor that was only cut off."""
        try:
            slurm = self._slurm()
            owner = str(slurm.job(self._orders.job_id).user_id)
            for helper_id in slurm.jobs_named(helper_job.name(self._orders.job_id), owner):
                self._journal().write(helper_job.ENDED_EVENT, helper=helper_id, seen_by=self._node)
                slurm.cancel_job(helper_id)
        except StepguardError:
            return False
        return True

    def _left_behind(self) -> bool:
        orders = self._orders
        try:
            slurm = self._slurm()
            job = slurm.job(orders.job_id)
            if job.state != "RUNNING" or job.restart_count != orders.restart_count:
                return True
            if orders.helper_id:
                return slurm.job(orders.helper_id).state != "RUNNING"
            steps = [step.id for step in slurm.steps(orders.job_id)]
        except StepguardError:
            return False  # no answer yet: look again
        return self._node not in job.nodes or self._watched_step() not in steps

    def _requeue(self) -> bool:
        """Puts the job back into the queue without the lost host. True when that is done, by whomever."""
        orders = self._orders
        try:
            slurm = self._slurm()
            job = slurm.job(orders.job_id)
            if job.state != "RUNNING" or job.restart_count != orders.restart_count:
                return True
            seen = {"node": orders.supervisor_node, "seen_by": self._node}
            self._journal().write("batch-host-lost", **seen, strategy="requeue")
            slurm.requeue(orders.job_id)
            slurm.exclude_nodes(orders.job_id, [orders.supervisor_node])
        except StepguardError:
            return False  # tried again at the next look
        return True


def _own_srun() -> tuple[str, int] | None:
    """Where the srun of this watch listens: on the supervisor's host, which need not be a node."""
    host, port = os.environ.get("SLURM_SRUN_COMM_HOST", ""), os.environ.get("SLURM_SRUN_COMM_PORT", "")
    return (host, int(port)) if host and port.isdigit() else None
