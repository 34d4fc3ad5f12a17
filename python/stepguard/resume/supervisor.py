# SPDX-License-Identifier: Apache-2.0
"""The loop over attempts: run, and when one does not end well, run what its recovery finds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from stepguard.config import Config
from stepguard.resume import journal as journals
from stepguard.resume import places
from stepguard.resume.attempt import Attempt, shell_status
from stepguard.resume.journal import Journal
from stepguard.resume.messages import Messages
from stepguard.resume.parts import Plan, Relaunch, one_srun
from stepguard.resume.resized import ResizeScript
from stepguard.resume.signals import Patience, SignalInbox
from stepguard.resume.stdio import Stdio
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import Job
from stepguard.slurm.srun_arguments import SrunCommand

if TYPE_CHECKING:
    from stepguard.resume.recovery import Recovery

# slurmctld refuses a step ("Memory required by task is not available", 22.05.8) until it has freed the resources of
# the one before, which after a restart of slurmctld took up to 3 s. Such an srun is tried again so often. srun tells
# its own failures from the program's by the status in SLURM_EXIT_ERROR (srun(1)).
_EXIT_ERROR = "SLURM_EXIT_ERROR"
_OWN_EXIT_ERROR = "121"
_CREATION_TRIES = 6
_CREATION_PAUSE_S = 1.0


@dataclass
class Supervisor:
    """Guards one step. `command` is what the user typed, without our option; `job` is checked already."""

    config: Config
    slurm: SlurmClient
    command: SrunCommand
    job: Job
    environment: Mapping[str, str]
    inbox: SignalInbox
    messages: Messages
    _attempts: list[Attempt] = field(default_factory=list)
    _stdio: Stdio = field(default_factory=Stdio.remember)

    @property
    def started(self) -> bool:
        """Whether an srun was started: then the step has begun, and must not be begun once more."""
        return any(attempt.parts for attempt in self._attempts)

    def run(self) -> int:
        """Runs the step to its end, over as many attempts as it takes.

        Returns srun's exit status, or 1 where we ended the last attempt because of its hardware.
        """
        self._began_s = time.monotonic()
        # Ours to set: what somebody else put there would be taken for ours.
        self.environment = {name: value for name, value in self.environment.items() if name != places.VARIABLE}
        self._journal = self._open_journal()
        self._earlier_attempts = number = self._journal.earlier_attempts()
        self._patience = Patience(self.inbox)
        self._resize_script = ResizeScript(self._journal.path.parent, self.job, self.messages.error)
        if number:
            self.messages.info(f"the job was requeued, Attempt number: {number}")
        sruns = one_srun(Plan(self.job.id, self.command.words, self.environment))
        try:
            while True:
                outcome = self._one_attempt(number, sruns)
                if isinstance(outcome, int):
                    return outcome
                if not self._patience.pause(0):
                    return self._patience.interrupted_status()
                sruns = outcome
                number += 1
                self.messages.info(f"Retrying step. Attempt number: {number}")
        finally:
            if "_recovery" in self.__dict__:
                self._recovery.stop()

    @cached_property
    def _recovery(self) -> Recovery:
        """Made at first need, once the user's own step runs, which need not wait the 10 ms of its imports. Not later:
        of a stepguard that was upgraded in the meantime they would be another release's."""
        from stepguard.resume.recovery import Recovery

        return Recovery(
            config=self.config,
            slurm=self.slurm,
            command=self.command,
            environment=self.environment,
            job=self.job,
            journal=self._journal,
            messages=self.messages,
            patience=self._patience,
            stdio=self._stdio,
            resize_script=self._resize_script,
            began_s=self._began_s,
            resumes=self._earlier_attempts,
        )

    def wait_unguarded(self) -> int:
        """Waits for the end of the attempt that runs, without guarding it any more; srun's exit status."""
        return shell_status(self._attempts[-1].wait_out())

    def _open_journal(self) -> Journal:
        cluster_name = self.environment.get("SLURM_CLUSTER_NAME") or self.slurm.config().cluster_name
        path = journals.directory(self.environment, cluster_name, self.job.id) / "resumes.jsonl"
        return Journal(path, journals.step_key(self.command.words), self.job.restart_count, self.messages.error)

    def _one_attempt(self, number: int, sruns: Relaunch) -> int | Relaunch:
        """Runs one attempt; the sruns of the next one, or the exit status."""
        first = sruns.first.words is self.command.words
        added = {"STEPGUARD_ATTEMPT": str(number)}
        if not first:
            added[_EXIT_ERROR] = self.environment.get(_EXIT_ERROR, _OWN_EXIT_ERROR)
        sruns = sruns.with_environment(added)
        self._journal.write("start", attempt=number, words=_printable(sruns.first.words))
        for tries_left in reversed(range(1 if first else _CREATION_TRIES)):
            attempt = self._new_attempt(sruns)
            self._attempts.append(attempt)
            try:
                end = attempt.run()
                if end.status == 0:
                    self._journal.write("end", attempt=number, status=0, ran_s=round(end.ran_s, 3))
                    return 0
                refused = not attempt.started and str(end.status) == added.get(_EXIT_ERROR)
                if not refused or not tries_left or end.interrupted_by:
                    end.status = 1 if refused else end.status
                    return self._recovery.follow(number, attempt, end)
                attempt.end()
            finally:
                attempt.close()
            self.messages.info("Slurm has not freed the resources of the old step yet, trying again")
            self._patience.pause(_CREATION_PAUSE_S)
        raise AssertionError("the last try always decides")

    def _new_attempt(self, sruns: Relaunch) -> Attempt:
        return Attempt(
            sruns=sruns,
            slurm=self.slurm,
            inbox=self.inbox,
            make_watch=lambda: self._recovery.lookout(),
            config=self.config.resume,
            messages=self.messages,
            hear=lambda node, told: self._recovery.hear(node, told),
        )


def _printable(words: Sequence[str]) -> list[str]:
    return [word.encode(errors="surrogateescape").decode(errors="backslashreplace") for word in words]
