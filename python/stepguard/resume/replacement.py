# SPDX-License-Identifier: Apache-2.0
"""Finds the nodes of the next attempt, and makes way for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stepguard.config import Resume
from stepguard.errors import SlurmError
from stepguard.resume.attempt import Attempt, AttemptEnd
from stepguard.resume.claims import Claims
from stepguard.resume.evidence import node_finding
from stepguard.resume.helper_job import HelperJob
from stepguard.resume.layout import Layout
from stepguard.resume.lookout import Lookout
from stepguard.resume.messages import Messages
from stepguard.resume.reach import answering
from stepguard.resume.situation import Situation
from stepguard.resume.strategies import Choice, Placement, choose
from stepguard.resume.strategies.spare import by_preference
from stepguard.resume.verdict import Verdict
from stepguard.resume.watch_step import NAME as WATCH_NAME
from stepguard.resume.watch_step import WatchStep
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import ClusterConfig, Job
from stepguard.slurm.srun_arguments import SrunCommand

# Steps that use no node in the sense of a spare: the batch script's own, and Slurm's.
_NOT_IN_USE = frozenset({"batch", "extern", "interactive"})
_TURN_S = 0.02
_COUNT_AGAIN_S = 0.1
# A watch says its first word so soon after its start, on a busy node too.
_FIRST_WORD_S = 5.0
# A living watch answers a ping sooner.
_ASK_AGAIN_S = 0.3


@dataclass
class Replacement:
    """Remembers over all attempts which nodes are bad (must not be used again), which of them are lost, and the helper
    jobs that lend nodes to the step."""

    config: Resume
    slurm: SlurmClient
    command: SrunCommand
    messages: Messages
    pause: Callable[[float], bool]
    claims: Claims
    open_watch: Callable[[str, tuple[str, ...]], WatchStep]
    tell_job: Callable[[Job], None]
    helpers: list[HelperJob] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    with_plugin: set[str] = field(default_factory=set)
    _bad: dict[str, None] = field(default_factory=dict)

    def find(
        self,
        job: Job,
        cluster: ClusterConfig,
        attempt: Attempt,
        end: AttemptEnd,
        verdict: Verdict,
        layout: Layout | None,
    ) -> Choice:
        """Chooses and carries out a strategy. Raises SlurmError while Slurm does not answer."""
        self.messages.info("Job failed - replacing nodes")
        self.lost.update(finding.node for finding in verdict.findings if finding.lost)
        asked = [name for name in (*job.nodes, *self._lent()) if name not in self.lost]
        self.lost.update(_unreachable(attempt.watch, asked, self.config))
        self._bad.update(dict.fromkeys((*verdict.nodes, *self.lost)))
        self._learn_plugins(attempt.watch, [name for name in asked if name not in self._bad])
        self._end_helpers(lambda helper: not set(helper.nodes).isdisjoint(self._bad))
        step_nodes = end.step_nodes or job.nodes
        usable: tuple[str, ...] = ()

        def choose_usable(others: set[str]) -> tuple[str, ...]:
            nonlocal usable
            usable = self._usable(job, step_nodes, others, attempt)
            return usable[: len(step_nodes)]

        self.claims.claim(choose_usable)
        limit_s = None if job.time_left_s is None else job.time_left_s - self.config.min_time_left_s
        choice = choose(
            Situation(
                slurm=self.slurm,
                cluster=cluster,
                config=self.config,
                job=job,
                command=self.command,
                step_nodes=step_nodes,
                bad=tuple(self._bad),
                lost=frozenset(self.lost),
                usable=usable,
                deadline_s=limit_s,
                messages=self.messages,
                pause=self.pause,
                end_attempt=attempt.end,
                helpers=self.helpers,
                layout=layout if layout and len(layout.slots) == len(step_nodes) else None,
                have_plugin=self.with_plugin.issuperset,
                open_watch=self.open_watch,
                tell_job=self.tell_job,
            )
        )
        used: tuple[str, ...] = choice.outcome.nodes if isinstance(choice.outcome, Placement) else ()
        self._end_helpers(lambda helper: set(helper.nodes).isdisjoint(used))
        if isinstance(choice.outcome, Placement):
            nodes = choice.outcome.nodes
            self.with_plugin.update(choice.outcome.proven)
            self.claims.claim(lambda _: nodes)
            # A node that came back (wait) is as good as any.
            self.lost.difference_update(nodes)
            for name in nodes:
                self._bad.pop(name, None)
        return choice

    def _usable(self, job: Job, step_nodes: tuple[str, ...], others: set[str], attempt: Attempt) -> tuple[str, ...]:
        """The job's healthy nodes that nobody else uses, in the order in which they are to be taken."""
        own = {part.step.id for part in attempt.parts if part.step and not part.plan.helper}
        in_use = others - set(step_nodes)  # steps that shared nodes from the start go on sharing them
        for step in self.slurm.steps(job.id):
            if step.id not in _NOT_IN_USE and step.id not in own and step.name != WATCH_NAME:
                in_use |= set(step.nodes) - set(step_nodes)
        candidates = [name for name in (*job.nodes, *self._lent()) if name not in self._bad and name not in in_use]
        faulty = {node.name for node in self.slurm.nodes(candidates) if node_finding(node, self.config)}
        pulse = attempt.watch.pulse
        faulty |= pulse.faults().keys() | (pulse.standing_faults().keys() - set(step_nodes))
        return by_preference([name for name in candidates if name not in faulty], step_nodes, pulse.offences)

    def _learn_plugins(self, watch: Lookout, names: list[str]) -> None:
        """Which nodes have the plugin; watches that were started just now are given a moment to say so."""
        unknown = [name for name in names if name not in self.with_plugin]
        end_s = time.monotonic() + _FIRST_WORD_S
        if watch.runs() and watch.pulse.unheard(unknown):
            watch.start_again(self.lost)
        while watch.runs() and watch.pulse.unheard(unknown) and time.monotonic() < end_s and self.pause(_TURN_S):
            watch.tick(time.monotonic())
            watch.read()
        self.with_plugin |= watch.pulse.with_plugin()

    def _lent(self) -> list[str]:
        return [name for helper in self.helpers for name in helper.nodes]

    def _end_helpers(self, which: Callable[[HelperJob], bool]) -> None:
        for helper in [helper for helper in self.helpers if which(helper)]:
            self.helpers.remove(helper)
            try:
                helper.end()
            except SlurmError as error:
                self.messages.error(f"helper job {helper.id} cannot be ended: {error}")

    def release(self) -> None:
        """Gives up what was claimed, and the helper jobs."""
        self._end_helpers(lambda _: True)
        self.claims.release()


def _unreachable(watch: Lookout, names: list[str], config: Resume) -> set[str]:
    """Those of these nodes that do not answer just now: a spare may have died unnoticed, a second node a moment after
    the first. A node whose watch is silent is asked by its kernel."""
    seq = watch.ping()
    end_s = time.monotonic() + _ASK_AGAIN_S
    while watch.pulse.unanswered(seq, names) and time.monotonic() < end_s:
        time.sleep(_TURN_S)
        watch.read()
    silent = {name: watch.pulse.place(name) for name in watch.pulse.unanswered(seq, names)}
    lost = watch.pulse.lost() & set(names)
    return lost | (silent.keys() - answering(silent, config.probe_s))


def await_old_processes(attempt: Attempt, placement: Placement, bound_s: float, messages: Messages) -> None:
    """Waits until the old tasks are gone from the nodes that go on, so that ports and GPU memory are free again."""
    watch = attempt.watch
    if not attempt.started or not watch.runs():
        return
    survivors = [name for name in attempt.nodes if name in placement.nodes]
    end_s = time.monotonic() + bound_s
    while time.monotonic() < end_s:
        seq = watch.ping("count")
        turn_end_s = time.monotonic() + 1.0
        while time.monotonic() < turn_end_s and watch.pulse.unanswered(seq, survivors):
            time.sleep(_TURN_S)
            if not watch.runs():
                return
            watch.read()
            watch.tick(time.monotonic())
        if watch.pulse.emptied(seq, survivors):
            return
        time.sleep(_COUNT_AGAIN_S)
    messages.error("tasks of the old step are still running; going on beside them")
