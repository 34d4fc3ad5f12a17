# SPDX-License-Identifier: Apache-2.0
"""One srun of an attempt. Most attempts have one; a spliced step has one in each job that gives it nodes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stepguard import process
from stepguard.errors import SlurmError
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import Step

# When to ask Slurm which step an srun has become: soon, then ever more rarely while it waits for resources.
_FIRST_LOOKUP_S = 0.05
_LAST_LOOKUP_S = 30.0


class Plan(NamedTuple):
    """What a part is to run. `helper` says that its job is a helper, `leads` that it has rank 0 and with it stdin.

    `alone`: it is the whole step, and lives on as srun does if we are killed.
    """

    job_id: str
    words: Sequence[str]
    environment: Mapping[str, str]
    leads: bool = True
    helper: bool = False
    alone: bool = True


class Relaunch(NamedTuple):
    """The sruns of an attempt: the one in the job itself, and, once its step id is known, those in helper jobs."""

    first: Plan
    others: Callable[[str], list[Plan]]

    def with_environment(self, added: Mapping[str, str]) -> Relaunch:
        """The same, with these variables added for every srun."""

        def extended(plan: Plan) -> Plan:
            return plan._replace(environment={**plan.environment, **added})

        return Relaunch(extended(self.first), lambda step_id: [extended(plan) for plan in self.others(step_id)])


def one_srun(plan: Plan) -> Relaunch:
    """An attempt that is one srun."""
    return Relaunch(plan, lambda _: [])


@dataclass
class Part:
    """A running srun; `step` is known a moment after its start."""

    plan: Plan
    child: process.Child
    step: Step | None = None
    _next_lookup_s: float = 0.0
    _lookup_pause_s: float = _FIRST_LOOKUP_S

    @staticmethod
    def start(plan: Plan) -> Part:
        """Starts it. Raises ProcessError."""
        # Without us nobody would end the others when one part fails.
        guard = [] if plan.alone else ["setpriv", "--pdeathsig=TERM"]
        nothing = -1 if plan.leads else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        try:
            child = process.spawn([*guard, *plan.words], env=plan.environment, stdin=0 if plan.leads else nothing)
        finally:
            if nothing >= 0:
                os.close(nothing)
        return Part(plan, child, _next_lookup_s=time.monotonic() + _FIRST_LOOKUP_S)

    def status(self) -> int | None:
        """srun's exit status once it has ended (negative: the signal that ended it). Never blocks."""
        return self.child.poll()

    def lookup_due_s(self) -> float | None:
        """When to look for its step, on the monotonic clock; None once it is known, or srun has ended."""
        return None if self.step is not None or self.status() is not None else self._next_lookup_s

    def look_up_step(self, slurm: SlurmClient, now_s: float) -> None:
        """Finds the step that srun has become, by srun's pid. Raises SlurmError."""
        self._next_lookup_s = now_s + self._lookup_pause_s
        self._lookup_pause_s = min(self._lookup_pause_s * 2, _LAST_LOOKUP_S)
        host = os.uname().nodename.partition(".")[0]
        for step in slurm.steps(self.plan.job_id):
            own = step.srun_pid == self.child.pid and step.srun_host.partition(".")[0] == host
            if own and step.nodes and step.id.isdigit():
                self.step = step
                return

    def cancel(self, slurm: SlurmClient, name: str | None) -> None:
        """Ends the step, or sends it a signal. Raises SlurmError."""
        if self.step is not None:
            slurm.cancel_step(self.plan.job_id, self.step.id, name)

    def has_step(self, slurm: SlurmClient) -> bool:
        """Whether slurmctld still has a record of the step. Raises SlurmError."""
        if self.step is None:
            return False
        try:
            return any(step.id == self.step.id for step in slurm.steps(self.plan.job_id))
        except SlurmError:
            if self.plan.helper:
                return False  # its job is gone
            raise

    def kill(self) -> None:
        """Ends srun itself."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.reap()
