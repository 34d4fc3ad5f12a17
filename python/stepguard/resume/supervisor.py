# SPDX-License-Identifier: Apache-2.0
"""The loop over attempts: run, and when hardware failed, decide, find a place, run again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stepguard.config import Config
from stepguard.errors import SlurmError
from stepguard.resume import journal as journals
from stepguard.resume import places
from stepguard.resume.attempt import Attempt, AttemptEnd
from stepguard.resume.claims import Claims
from stepguard.resume.evidence import gather
from stepguard.resume.findings import as_record
from stepguard.resume.hearsay import Hearsay
from stepguard.resume.helper_job import ENDED_EVENT
from stepguard.resume.journal import Journal
from stepguard.resume.limits import Limits
from stepguard.resume.messages import Messages
from stepguard.resume.parts import Plan
from stepguard.resume.ranks import Ranks
from stepguard.resume.relaunch import Relaunch, one_srun
from stepguard.resume.replacement import Replacement, await_old_processes
from stepguard.resume.resized import ResizeScript
from stepguard.resume.signals import ENDING, SignalInbox
from stepguard.resume.stdio import Stdio
from stepguard.resume.strategies import Choice, Failed, Placement, Requeued
from stepguard.resume.verdict import Cause, Verdict, judge
from stepguard.resume.watching import Watching
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import ClusterConfig, Job
from stepguard.slurm.srun_arguments import SrunCommand

# After a requeue the batch script must not go on to its next line; Slurm ends us within KillWait (30 s).
_REQUEUED_S = 120.0
# A restart of slurmctld in the middle of a decision is waited for.
_CONTROLLER_S = 120.0
_CONTROLLER_PAUSE_S = 2.0
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
    started: bool = False
    _cluster: ClusterConfig | None = None
    _interrupted_by: int | None = None
    _attempt: Attempt | None = None
    # Set once the step runs on another number of nodes than the user's.
    _new_num_nodes: int | None = None
    _stdio: Stdio = field(default_factory=Stdio.remember)

    def run(self) -> int:
        """Runs the step to its end, over as many attempts as it takes.

        Returns srun's exit status, or 1 where we ended the last attempt because of its hardware.
        """
        # Ours to set: what somebody else put there would be taken for ours.
        self.environment = {name: value for name, value in self.environment.items() if name != places.VARIABLE}
        self._journal = self._open_journal()
        number = self._journal.earlier_attempts()
        self._ranks = Ranks(self.config.resume, self.command, self.environment)
        self._watching = Watching(
            self.command.words[0],
            self.environment.get("SLURMD_NODENAME", ""),
            self.slurm,
            self.config.resume,
            self.config.agent.socket,
            self._journal,
            self.messages,
        )
        self._hearsay = Hearsay(self._journal, self.messages)
        self._limits = Limits(self.config.resume, resumes=number)
        self._resize_script = ResizeScript(self._journal.path.parent, self.job, self.messages.error)
        self._replacement = Replacement(
            self.config.resume,
            self.slurm,
            self.command,
            self.messages,
            self._pause,
            Claims(self._journal.path.with_name(f"claims-{os.uname().nodename}"), self.messages.error),
            self._watching.of_nodes,
            self._resize_script.follow,
        )
        if number:
            self.messages.info(f"the job was requeued, Attempt number: {number}")
        sruns = one_srun(Plan(self.job.id, self.command.words, self.environment))
        try:
            while True:
                outcome = self._one_attempt(number, sruns)
                if isinstance(outcome, int):
                    return outcome
                if not self._pause(0):
                    return self._interrupted_status()
                sruns = outcome
                number += 1
                self._limits.resumes += 1
                self.messages.info(f"Retrying step. Attempt number: {number}")
        finally:
            self._watching.stop()
            self._replacement.release()

    def wait_unguarded(self) -> int:
        """Waits for the end of the attempt that runs, without guarding it any more; srun's exit status."""
        assert self._attempt is not None
        return _exit_status(self._attempt.wait_out())

    def _open_journal(self) -> Journal:
        cluster_name = self.environment.get("SLURM_CLUSTER_NAME") or self._cluster_config().cluster_name
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
            attempt = self._attempt = self._new_attempt(sruns)
            try:
                end = attempt.run()
                if end.status == 0:
                    self._journal.write("end", attempt=number, status=0, ran_s=round(end.ran_s, 3))
                    return 0
                refused = not attempt.started and str(end.status) == added.get(_EXIT_ERROR)
                if not refused or not tries_left or end.interrupted_by:
                    end.status = 1 if refused else end.status
                    return self._after(number, attempt, end)
                attempt.end()
            finally:
                attempt.close()
            self.messages.info("Slurm has not freed the resources of the old step yet, trying again")
            self._pause(_CREATION_PAUSE_S)
        raise AssertionError("the last try always decides")

    def _new_attempt(self, sruns: Relaunch) -> Attempt:
        return Attempt(
            sruns=sruns,
            slurm=self.slurm,
            inbox=self.inbox,
            make_watch=lambda: self._watching.lookout(self.job, self._cluster_config(), self._replacement.helpers),
            config=self.config.resume,
            messages=self.messages,
            hear=self._hearsay.hear,
        )

    def _after(self, number: int, attempt: Attempt, end: AttemptEnd) -> int | Relaunch:
        """Decides about a failed attempt: the sruns of the next one, or the exit status."""
        known_s = time.monotonic()
        self._ranks.remember(attempt)
        evidence, job_now = gather(
            self.slurm,
            self.config.resume,
            self.job,
            attempt,
            end,
            self._replacement.helpers,
            self._ended_by_watch,
            self.command.kills_on_bad_exit(self._cluster is not None and self._cluster.kill_on_bad_exit),
            self._pause,
        )
        verdict = judge(evidence)
        decided_s = time.monotonic()
        self._record_end(number, attempt, end, verdict, decided_s - known_s)
        refusal = self._limits.refusal(verdict, end.ran_s, job_now.time_left_s if job_now else None)
        self._tell(verdict, refusal)
        if refusal or job_now is None:
            attempt.end()
            self._stdio.restore()
            return _exit_status(end.status)
        self.job = job_now
        self._resize_script.follow(job_now)
        return self._go_on(number, attempt, end, verdict, decided_s)

    def _record_end(self, number: int, attempt: Attempt, end: AttemptEnd, verdict: Verdict, decide_s: float) -> None:
        self._journal.write(
            "end",
            attempt=number,
            step_id=attempt.step_id or None,
            parts=[
                {"job": part.plan.job_id, "step": part.step and part.step.id, "nodes": part.step and part.step.nodes}
                for part in attempt.parts
            ],
            status=end.status,
            ran_s=round(end.ran_s, 3),
            ranks_told_by=len(attempt.watch.pulse.tasks(attempt.nodes)) if attempt.started else 0,
            running_after_s=attempt.running_after_s and round(attempt.running_after_s, 3),
            cause=verdict.cause.value,
            why=verdict.why,
            nodes=list(verdict.nodes),
            action=verdict.action,
            evidence=[as_record(finding) for finding in verdict.findings],
            detect_s=round(end.detect_s, 3),
            decide_s=round(decide_s, 3),
        )

    def _go_on(
        self, number: int, attempt: Attempt, end: AttemptEnd, verdict: Verdict, decided_s: float
    ) -> int | Relaunch:
        """Finds a place for the next attempt: its sruns, or the exit status where there is none."""
        choice = self._patiently(
            lambda: self._replacement.find(self.job, self._cluster_config(), attempt, end, verdict, self._ranks.layout)
        )
        outcome, helpers = choice.outcome, self._replacement.helpers
        self._journal.write(
            "choice",
            attempt=number,
            strategy=choice.name,
            passed_over=dict(choice.passed_over),
            nodes=list(outcome.nodes) if isinstance(outcome, Placement) else [],
            helpers={helper.id: list(helper.nodes) for helper in helpers},
            replace_s=round(time.monotonic() - decided_s, 3),
        )
        if isinstance(outcome, Requeued):
            return self._await_requeue()
        let_go = attempt.end()
        self._stdio.restore()
        if not isinstance(outcome, Placement):
            if self._interrupted_by:
                return self._interrupted_status()
            self.messages.error("Not resumed: no strategy is left")
            return _exit_status(end.status)
        self.job = self.slurm.job(self.job.id)
        if not let_go:
            await_old_processes(attempt, outcome, self.config.resume.old_step_end_s, self.messages)
        if len(outcome.nodes) != len(end.step_nodes or self.job.nodes):
            self._new_num_nodes = len(outcome.nodes)
        self.messages.info(f"Updating to new node list {','.join(outcome.nodes)}")
        have_plugin = self._replacement.with_plugin.issuperset(outcome.nodes)
        return self._ranks.sruns(self.job, self._cluster_config(), outcome, helpers, have_plugin, self._new_num_nodes)

    def _ended_by_watch(self, helper_id: str) -> bool:
        return any(
            record["event"] == ENDED_EVENT and record.get("helper") == helper_id for record in self._journal.records()
        )

    def _tell(self, verdict: Verdict, refusal: str) -> None:
        if verdict.cause in (Cause.HARDWARE, Cause.NETWORK):
            self.messages.info("Initiating diagnosis of the health of nodes")
            self.messages.error(f"Verdict: {verdict.cause.value}: {verdict.why}")
            if refusal:
                self.messages.error(f"Not resumed: {refusal}")
        else:
            self.messages.info(f"Not resumed: {verdict.cause.value}: {verdict.why}")

    def _await_requeue(self) -> int:
        """Waits for Slurm to end us: the batch script must not go on to its next line."""
        self.messages.info("Job requeued, its next run goes on with the attempts")
        self._pause(_REQUEUED_S)
        return self._interrupted_status()

    def _interrupted_status(self) -> int:
        return 128 + (self._interrupted_by or signal.SIGTERM)

    def _patiently(self, decide: Callable[[], Choice]) -> Choice:
        """Tries again while slurmctld does not answer: it may be restarting just now."""
        end_s = time.monotonic() + _CONTROLLER_S
        while True:
            try:
                return decide()
            except SlurmError as error:
                if time.monotonic() > end_s or not self._pause(_CONTROLLER_PAUSE_S):
                    return Choice("", Failed(str(error)), ())
                self.messages.error(f"{error}; trying again")

    def _pause(self, seconds: float) -> bool:
        """Waits while no attempt runs; False once somebody wants the step to end."""
        end_s = time.monotonic() + seconds
        while self._interrupted_by is None:
            for number, _ in self.inbox.take():
                if number in ENDING:
                    self._interrupted_by = number
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                break
            time.sleep(min(left_s, 0.1))
        return self._interrupted_by is None

    def _cluster_config(self) -> ClusterConfig:
        if self._cluster is None:
            self._cluster = self.slurm.config()
        return self._cluster


def _printable(words: Sequence[str]) -> list[str]:
    return [word.encode(errors="surrogateescape").decode(errors="backslashreplace") for word in words]


def _exit_status(status: int) -> int:
    """A status as a shell would see it: an srun that died of a signal gives 128 + its number."""
    return 128 - status if status < 0 else status
