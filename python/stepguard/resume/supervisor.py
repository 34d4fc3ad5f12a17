# SPDX-License-Identifier: Apache-2.0
"""The loop over attempts: run, and when hardware failed, decide, find a place, run again."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stepguard.config import Config
from stepguard.errors import SlurmError
from stepguard.resume import journal as journals
from stepguard.resume.attempt import Attempt, AttemptEnd, Stdio
from stepguard.resume.claims import Claims
from stepguard.resume.evidence import gather, node_finding
from stepguard.resume.journal import Journal
from stepguard.resume.limits import Limits
from stepguard.resume.messages import Messages
from stepguard.resume.orders import Orders
from stepguard.resume.signals import ENDING, SignalInbox
from stepguard.resume.situation import Situation
from stepguard.resume.strategies import Choice, Failed, Placement, Requeued, choose
from stepguard.resume.verdict import Cause, Verdict, judge
from stepguard.resume.watch_step import NAME as WATCH_NAME
from stepguard.resume.watch_step import WatchStep
from stepguard.slurm.environment import rebuilt
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import ClusterConfig, Job
from stepguard.slurm.srun_arguments import SrunCommand, with_overrides

# Steps that use no node in the sense of a spare: the batch script's own, Slurm's, and our watches.
_NOT_IN_USE = frozenset({"batch", "extern", "interactive"})
# After a requeue the batch script must not go on to its next line; Slurm ends us within KillWait (30 s).
_REQUEUED_S = 120.0
_OLD_PROCESSES_TURN_S = 0.02
# A restart of slurmctld in the middle of a decision is waited for.
_CONTROLLER_S = 120.0
_CONTROLLER_PAUSE_S = 2.0


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
    _cluster: ClusterConfig | None = None
    _bad: dict[str, None] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)
    _interrupted_by: int | None = None
    _attempt: Attempt | None = None

    @property
    def started(self) -> bool:
        """Whether any attempt was started, so that the step must not be run a second time by mistake."""
        return self._attempt is not None

    def wait_unguarded(self) -> int:
        """Waits for the end of the attempt that runs, without guarding it any more; srun's exit status."""
        assert self._attempt is not None
        return _exit_status(self._attempt.wait_out())

    def run(self) -> int:
        """Runs the step to its end, over as many attempts as it takes. Returns srun's exit status, 1 where we
        ended the last attempt ourselves."""
        key = journals.step_key(self.command.words)
        cluster_name = self.environment.get("SLURM_CLUSTER_NAME") or self._cluster_config().cluster_name
        path = journals.directory(self.environment, cluster_name, self.job.id) / "resumes.jsonl"
        self._journal = Journal(path, key, self.job.restart_count)
        earlier = self._journal.earlier_attempts()
        self._limits = Limits(self.config.resume, resumes=earlier)
        self._claims = Claims(self.job.id)
        self._stdio = Stdio.remember()
        number, words = earlier, list(self.command.words)
        if earlier:
            self.messages.info(f"job was requeued, Attempt number: {earlier}")
        try:
            while True:
                next_words = self._one_attempt(number, words)
                if isinstance(next_words, int):
                    return next_words
                if not self._pause(0):
                    return 128 + (self._interrupted_by or 0)
                number, words = number + 1, next_words
                self._limits.resumes += 1
                self.messages.info(f"Retrying step. Attempt number: {number}")
        finally:
            self._claims.release()

    def _one_attempt(self, number: int, words: Sequence[str]) -> int | list[str]:
        """Runs one attempt; the words of the next one, or the exit status."""
        attempt = Attempt(
            words=words,
            environment=self._attempt_environment(number),
            job_id=self.job.id,
            slurm=self.slurm,
            inbox=self.inbox,
            make_watch=self._new_watch,
            config=self.config.resume,
            messages=self.messages,
        )
        self._attempt = attempt
        self._journal.write("start", attempt=number, words=_printable(words))
        try:
            end = attempt.run()
            if end.status == 0:
                self._journal.write("end", attempt=number, status=0, ran_s=round(end.ran_s, 3))
                return 0
            return self._after(number, attempt, end)
        finally:
            attempt.stop_watch()

    def _after(self, number: int, attempt: Attempt, end: AttemptEnd) -> int | list[str]:
        """Decides about a failed attempt: the words of the next one, or the exit status."""
        known_s = time.monotonic()
        evidence, job_now = gather(self.slurm, self.config.resume, self.job, attempt, end)
        verdict = judge(evidence)
        decided_s = time.monotonic()
        self._stdio.restore()
        self._journal.write(
            "end",
            attempt=number,
            step_id=attempt.step.id if attempt.step else None,
            status=end.status,
            ran_s=round(end.ran_s, 3),
            running_after_s=_rounded(attempt.running_after_s),
            cause=verdict.cause.value,
            why=verdict.why,
            nodes=list(verdict.nodes),
            action=verdict.action,
            detect_s=round(end.silent_s, 3),
            decide_s=round(decided_s - known_s, 3),
        )
        time_left_s = job_now.time_left_s if job_now else None
        refusal = self._limits.refusal(verdict, end.ran_s, time_left_s)
        self._tell(verdict, refusal)
        if refusal or job_now is None:
            return _exit_status(end.status)
        self.job = job_now
        choice = self._patiently(lambda: self._replace(attempt, end, verdict))
        self._journal.write(
            "choice",
            attempt=number,
            strategy=choice.name,
            passed_over=dict(choice.passed_over),
            nodes=list(choice.outcome.nodes) if isinstance(choice.outcome, Placement) else [],
            replace_s=round(time.monotonic() - decided_s, 3),
        )
        if isinstance(choice.outcome, Placement):
            self._await_old_processes(attempt)
            return self._next_words(choice.outcome)
        return self._stop(choice, _exit_status(end.status))

    def _tell(self, verdict: Verdict, refusal: str) -> None:
        if verdict.cause in (Cause.HARDWARE, Cause.NETWORK):
            self.messages.info("Initiating diagnosis of the health of nodes")
            self.messages.error(f"Verdict: {verdict.cause.value}: {verdict.why}")
            if refusal:
                self.messages.error(f"Not resumed: {refusal}")
        else:
            self.messages.info(f"Not resumed: {verdict.cause.value}: {verdict.why}")

    def _replace(self, attempt: Attempt, end: AttemptEnd, verdict: Verdict) -> Choice:
        """Finds a place for the next attempt."""
        self.messages.info("Job failed - replacing nodes")
        self._bad.update(dict.fromkeys(verdict.nodes))
        self._lost.update(finding.node for finding in verdict.findings if finding.lost)
        step_nodes = end.step_nodes or self.job.nodes
        self._lost.update(attempt.watch.pulse.lost())
        self._bad.update(dict.fromkeys(name for name in self.job.nodes if name in self._lost))
        usable: tuple[str, ...] = ()

        def choose_usable(others: set[str]) -> tuple[str, ...]:
            nonlocal usable
            usable = self._usable(step_nodes, others, attempt)
            return usable[: len(step_nodes)]

        self._claims.claim(choose_usable)
        situation = Situation(
            slurm=self.slurm,
            cluster=self._cluster_config(),
            config=self.config.resume,
            job=self.job,
            command=self.command,
            step_nodes=step_nodes,
            bad=tuple(self._bad),
            lost=frozenset(self._lost),
            usable=usable,
            deadline_s=_minus(self.job.time_left_s, self.config.resume.min_time_left_s),
            messages=self.messages,
            pause=self._pause,
        )
        choice = choose(situation)
        self.job = situation.job
        if isinstance(choice.outcome, Placement):
            nodes = choice.outcome.nodes
            self._claims.claim(lambda _: nodes)
        return choice

    def _usable(self, step_nodes: tuple[str, ...], others: set[str], attempt: Attempt) -> tuple[str, ...]:
        """The job's healthy nodes that nobody else uses: survivors first, then spares, each in the job's order."""
        own = attempt.step.id if attempt.step else None
        for step in self.slurm.steps(self.job.id):
            if step.id not in _NOT_IN_USE and step.id != own and step.name != WATCH_NAME:
                others = others | set(step.nodes)
        candidates = [name for name in self.job.nodes if name not in self._bad and name not in others]
        faulty = {node.name for node in self.slurm.nodes(candidates) if node_finding(node, self.config.resume)}
        faulty |= attempt.watch.pulse.faults().keys()
        healthy = [name for name in candidates if name not in faulty]
        return tuple(sorted(healthy, key=lambda name: name not in step_nodes))

    def _next_words(self, placement: Placement) -> list[str]:
        """The user's command line, on these nodes. --overlap: the old step may hold its resources until Slurm
        itself has noticed that a node is dead (22.05 to 26.05)."""
        nodes = placement.nodes
        self.messages.info(f"Updating to new node list {','.join(nodes)}")
        overrides: dict[str, str | None] = {"nodes": str(len(nodes)), "nodelist": ",".join(nodes), "overlap": None}
        if not self.command.open_mode:
            overrides["open-mode"] = "append"
        return with_overrides(self.command, overrides, drop={"exclude", "nodefile", "relative", "exclusive", "exact"})

    def _await_old_processes(self, attempt: Attempt) -> None:
        """The old tasks are gone from the surviving nodes, so that ports and GPU memory are free again."""
        watch = attempt.watch
        if attempt.step is None or watch.fileno() is None:
            return
        survivors = [name for name in attempt.step.nodes if name not in self._lost]
        end_s = time.monotonic() + self.config.resume.old_step_end_s
        while time.monotonic() < end_s:
            seq = watch.ping(count=True)
            turn_end_s = time.monotonic() + 1.0
            while time.monotonic() < turn_end_s and not watch.pulse.answered(seq, survivors):
                time.sleep(_OLD_PROCESSES_TURN_S)
                if watch.fileno() is None:
                    return
                watch.read()
            if watch.pulse.emptied(seq, survivors):
                return
            time.sleep(_OLD_PROCESSES_TURN_S)
        self.messages.error("tasks of the old step are still running; going on beside them")

    def _stop(self, choice: Choice, status: int) -> int:
        if isinstance(choice.outcome, Requeued):
            self.messages.info("Job requeued, its next run continues the attempts")
            end_s = time.monotonic() + _REQUEUED_S
            while time.monotonic() < end_s and self._pause(1.0):
                continue
            return 128 + (self._interrupted_by or signal.SIGTERM)
        if self._interrupted_by:
            return 128 + self._interrupted_by
        self.messages.error("Not resumed: no strategy is left")
        return status

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

    def _new_watch(self) -> WatchStep:
        cluster = self._cluster_config()
        places = {node.name: (node.address, node.port) for node in self.slurm.nodes(self.job.nodes)}
        supervisor_node = self.environment.get("SLURMD_NODENAME", "")
        orders = Orders(
            job_id=self.job.id,
            restart_count=self.job.restart_count,
            requeue=self.job.is_batch and self.job.requeue_allowed and supervisor_node in places,
            supervisor_node=supervisor_node,
            supervisor=places.get(supervisor_node),
            controllers=tuple((host, cluster.slurmctld_port) for host in cluster.slurmctld_hosts),
            silence_s=self.config.resume.silence_s,
            probe_s=self.config.resume.probe_s,
            fault_file=self.config.resume.fault_file,
            journal=str(self._journal.path),
            step_key=journals.step_key(self.command.words),
        )
        return WatchStep(self.command.words[0], orders, places, self.config.resume, self.messages)

    def _cluster_config(self) -> ClusterConfig:
        if self._cluster is None:
            self._cluster = self.slurm.config()
        return self._cluster

    def _attempt_environment(self, number: int) -> dict[str, str]:
        environment = dict(self.environment) if number == 0 else rebuilt(self.environment, self.job)
        environment["STEPGUARD_ATTEMPT"] = str(number)
        return environment


def _printable(words: Sequence[str]) -> list[str]:
    return [word.encode(errors="surrogateescape").decode(errors="backslashreplace") for word in words]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _minus(value: float | None, less: float) -> float | None:
    return None if value is None else value - less


def _exit_status(status: int) -> int:
    """A status as a shell would see it: an srun that died of a signal gives 128 + its number."""
    return 128 - status if status < 0 else status
