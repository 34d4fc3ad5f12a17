# SPDX-License-Identifier: Apache-2.0
"""What a node's watch does when it no longer hears the supervisor.

supervisor's host answers                 → the supervisor is only stopped (Ctrl-Z): wait
it does not, nor does any slurmctld       → this node is cut off: wait for the link to heal
it does not, slurmctld does               → the supervisor's host is lost: requeue the job
slurmctld answers again after a cut       → has the job left this node behind? then end its old tasks here
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

# All at the start, for an upgrade may replace the files while a step runs.
from stepguard import config
from stepguard.errors import StepguardError
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


class Orphaned:
    """Keeps what is known since the last ping."""

    def __init__(self, orders: Orders, node: str, rank: int, watched_step: Callable[[], str]) -> None:
        self._orders = orders
        self._node = node
        self._watched_step = watched_step
        self._turn_s = rank * _TURN_S
        self._was_cut_off = False
        self._host_lost_since_s: float | None = None
        self._next_question_s = time.monotonic() + _QUESTION_S

    def found_again(self) -> None:
        """The supervisor is heard again."""
        self._next_question_s = time.monotonic() + _QUESTION_S
        self._was_cut_off = False
        self._host_lost_since_s = None

    def look_around(self, end_old_tasks: Callable[[], int]) -> bool:
        """One look; blocks for at most probe_s and a few Slurm commands. True: the watch has nothing left to do."""
        places = {f"controller {n}": place for n, place in enumerate(self._orders.controllers)}
        if self._orders.supervisor is not None:
            places["supervisor"] = self._orders.supervisor
        alive = answering(places, self._orders.probe_s)
        now_s = time.monotonic()
        if alive - {"supervisor"} and (self._was_cut_off or now_s >= self._next_question_s):
            self._next_question_s = now_s + _QUESTION_S
            if self._left_behind():
                end_old_tasks()
                return True
        if "supervisor" in alive:
            self._host_lost_since_s = None
        elif not alive:
            self._was_cut_off = True
            self._host_lost_since_s = None
        else:
            self._host_lost_since_s = self._host_lost_since_s or now_s
            if self._orders.requeue and now_s - self._host_lost_since_s >= self._orders.batch_host_s + self._turn_s:
                return self._requeue()
        time.sleep(_PAUSE_S)
        return False

    def _slurm(self) -> SlurmClient:
        return connect(config.load().slurm)

    def _left_behind(self) -> bool:
        try:
            job = self._slurm().job(self._orders.job_id)
            steps = [step.id for step in self._slurm().steps(self._orders.job_id)]
        except StepguardError:
            return False  # no answer yet: look again
        if self._node not in job.nodes or job.restart_count != self._orders.restart_count:
            return True
        return self._watched_step() not in steps

    def _requeue(self) -> bool:
        """Puts the job back into the queue without the lost host. True when that is done, by whomever."""
        orders = self._orders
        try:
            slurm = self._slurm()
            job = slurm.job(orders.job_id)
            if job.state != "RUNNING" or job.restart_count != orders.restart_count:
                return True
            journal = Journal(Path(orders.journal), orders.step_key, orders.restart_count)
            journal.write("batch-host-lost", node=orders.supervisor_node, seen_by=self._node, strategy="requeue")
            slurm.requeue(orders.job_id)
            slurm.exclude_nodes(orders.job_id, [orders.supervisor_node])
        except StepguardError:
            return False  # tried again at the next look
        return True
