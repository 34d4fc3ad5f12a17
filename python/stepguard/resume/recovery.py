# SPDX-License-Identifier: Apache-2.0
"""What follows when an attempt did not end well: why, whether there is one more, and where it runs.

Its watches begin a moment after the user's own step, and outlive its attempts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stepguard.config import Config
from stepguard.errors import SlurmError
from stepguard.resume.attempt import Attempt, AttemptEnd
from stepguard.resume.claims import Claims
from stepguard.resume.evidence import gather
from stepguard.resume.findings import as_record
from stepguard.resume.hearsay import Hearsay
from stepguard.resume.helper_job import ENDED_EVENT
from stepguard.resume.journal import Journal
from stepguard.resume.limits import Limits
from stepguard.resume.lookout import Lookout
from stepguard.resume.messages import Messages
from stepguard.resume.parts import Relaunch
from stepguard.resume.ranks import Ranks
from stepguard.resume.replacement import Replacement, await_old_processes
from stepguard.resume.resized import ResizeScript
from stepguard.resume.signals import Patience
from stepguard.resume.stdio import Stdio
from stepguard.resume.strategies import Choice, Failed, Placement, Requeued
from stepguard.resume.told import Told
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


@dataclass
class Recovery:
    """Of one guarded step, which began at `began_s` by the monotonic clock. `resumes` counts those that there were, in
    earlier runs of a requeued job too."""

    config: Config
    slurm: SlurmClient
    command: SrunCommand
    environment: Mapping[str, str]
    job: Job
    journal: Journal
    messages: Messages
    patience: Patience
    stdio: Stdio
    resize_script: ResizeScript
    began_s: float
    resumes: int
    _cluster: ClusterConfig | None = None
    # Set once the step runs on another number of nodes than the user's.
    _new_num_nodes: int | None = None

    def __post_init__(self) -> None:
        resume, messages = self.config.resume, self.messages
        self._ranks = Ranks(resume, self.command, self.environment)
        self._hearsay = Hearsay(self.journal, messages, self.began_s)
        self._limits = Limits(resume, resumes=self.resumes)
        self._watching = Watching(
            self.command.words[0],
            self.environment.get("SLURMD_NODENAME", ""),
            self.slurm,
            resume,
            self.config.agent.socket,
            self.journal,
            messages,
            self.began_s,
        )
        self._replacement = Replacement(
            resume,
            self.slurm,
            self.command,
            messages,
            self.patience.pause,
            Claims(self.journal.path.with_name(f"claims-{os.uname().nodename}"), messages.error),
            self._watching.of_nodes,
            self.resize_script.follow,
        )

    def lookout(self) -> Lookout:
        """The watch over all nodes of the step, for its next attempt. Raises SlurmError."""
        return self._watching.lookout(self.job, self._cluster_config(), self._replacement.helpers)

    def hear(self, node: str, told: Told) -> None:
        """Takes what a node of the step tells of itself."""
        self._hearsay.hear(node, told)

    def stop(self) -> None:
        """Ends the watches and the helper jobs."""
        self._watching.stop()
        self._replacement.release()

    def follow(self, number: int, attempt: Attempt, end: AttemptEnd) -> int | Relaunch:
        """Decides about an attempt that did not end well: the sruns of the next one, or srun's exit status.

        Returns where the job went back into the queue, or somebody wants the step to end, the status for that.
        """
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
            self.patience.pause,
        )
        verdict = judge(evidence)
        decided_s = time.monotonic()
        self._record_end(number, attempt, end, verdict, decided_s - known_s)
        refusal = self._limits.refusal(verdict, end.ran_s, job_now.time_left_s if job_now else None)
        self._tell(verdict, refusal)
        if refusal or job_now is None:
            attempt.end()
            self.stdio.restore()
            return end.exit_status
        self.job = job_now
        self.resize_script.follow(job_now)
        self._limits.resumes += 1
        return self._go_on(number, attempt, end, verdict, decided_s)

    def _record_end(self, number: int, attempt: Attempt, end: AttemptEnd, verdict: Verdict, decide_s: float) -> None:
        self.journal.write(
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
        self.journal.write(
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
        self.stdio.restore()
        if not isinstance(outcome, Placement):
            if self.patience.interrupted_by:
                return self.patience.interrupted_status()
            self.messages.error("Not resumed: no strategy is left")
            return end.exit_status
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
            record["event"] == ENDED_EVENT and record.get("helper") == helper_id for record in self.journal.records()
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
        self.patience.pause(_REQUEUED_S)
        return self.patience.interrupted_status()

    def _patiently(self, decide: Callable[[], Choice]) -> Choice:
        """Tries again while slurmctld does not answer: it may be restarting just now."""
        end_s = time.monotonic() + _CONTROLLER_S
        while True:
            try:
                return decide()
            except SlurmError as error:
                if time.monotonic() > end_s or not self.patience.pause(_CONTROLLER_PAUSE_S):
                    return Choice("", Failed(str(error)), ())
                self.messages.error(f"{error}; trying again")

    def _cluster_config(self) -> ClusterConfig:
        if self._cluster is None:
            self._cluster = self.slurm.config()
        return self._cluster
