# SPDX-License-Identifier: Apache-2.0
"""One attempt: the real srun (of a spliced step, several) with its watch beside it, from start to end."""

from __future__ import annotations

import math
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from stepguard.config import Resume
from stepguard.errors import SlurmError
from stepguard.resume.messages import Messages
from stepguard.resume.parts import Part, Relaunch
from stepguard.resume.signals import ENDING, SignalInbox
from stepguard.slurm.protocol import SlurmClient

if TYPE_CHECKING:  # what the watch needs is imported when it is made, and the user's own step runs
    from stepguard.resume.lookout import Lookout
    from stepguard.resume.told import Told
    from stepguard.resume.verdict import Finding

# How often the loop turns over: while all is well, and while a node is overdue.
_CALM_S = 0.25
_ALERT_S = 0.05
# A longer turn means that we were stopped ourselves, not that the nodes were silent.
_STOPPED_S = 1.5
# srun has ended for a signal if it ended so soon after it. One Ctrl-C alone only asks srun for its status.
_ENDS_WITHIN_S = {signal.SIGINT: 10.0}
_ENDS_WITHIN_DEFAULT_S = 60.0
# How long slurmctld gets to take note of the end of a step: 0.1 to 0.25 s is usual. From this many nodes on, their
# slurmstepds report along a tree, in which the parent of a dead one waits for it for a minute.
_LET_GO_S = 1.0
_LET_GO_POLL_S = 0.03
_TREE_NODES = 7
# Of a spliced step whose parts end together the one that ended for want of the other may be seen first.
_END_TOGETHER_S = 1.0
# A program that cleans its environment never shows what it was told.
_ASK_TASKS = 20


@dataclass
class AttemptEnd:
    """How an attempt ended. `findings` are those for which we give it up; `detect_s` is how long their nodes had been
    silent by then, or how long ago the fault was that they told of."""

    status: int
    ran_s: float
    step_nodes: tuple[str, ...]
    interrupted_by: int | None = None
    findings: tuple[Finding, ...] = ()
    detect_s: float = 0.0

    @property
    def exit_status(self) -> int:
        """srun's, as a shell would see it."""
        return shell_status(self.status)


def shell_status(status: int) -> int:
    """A status as a shell would see it: an srun that died of a signal gives 128 + its number."""
    return 128 - status if status < 0 else status


@dataclass
class Attempt:
    """One run of the step. The watch is made, by `make_watch`, once the step exists. `hear` is given whatever nodes of
    the step tell of themselves, again and again."""

    sruns: Relaunch
    slurm: SlurmClient
    inbox: SignalInbox
    make_watch: Callable[[], Lookout]
    config: Resume
    messages: Messages
    hear: Callable[[str, Told], None]
    parts: list[Part] = field(default_factory=list)
    running_after_s: float | None = None
    began_s: float = 0.0
    _all_begun: bool = False
    _tasks_asked: int = 0
    _let_go: bool | None = None
    _received: dict[int, float] = field(default_factory=dict)

    @cached_property
    def watch(self) -> Lookout:
        """The watch beside this attempt. It is made at first need: not before the user's own step runs."""
        return self.make_watch()

    def close(self) -> None:
        """Lets go of the watch, which lives on for the next attempt."""
        if "watch" in self.__dict__:
            self.watch.close()

    @property
    def started(self) -> bool:
        """Whether every srun has become a step, as far as it lived for long enough to be seen as one."""
        return self._all_begun and all(part.step is not None or part.status() is not None for part in self.parts)

    @property
    def step_id(self) -> str:
        """The step's id as its tasks see it, "" before it is known."""
        step = self.parts[0].step if self.parts else None
        return step.id if step else ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes of all parts; () until the step is known."""
        return tuple(name for part in self.parts if part.step for name in part.step.nodes) if self.started else ()

    def run(self) -> AttemptEnd:
        """Runs to the end: its sruns' own, or ours when hardware under the step has failed."""
        last_s = self.began_s = time.monotonic()
        self.parts.append(Part.start(self.sruns.first))
        while self._goes_on():
            findings = self.watch.faults_under(self.nodes) if self.started else ()
            if findings:
                return self._given_up(findings)
            self._turn()
            now_s = time.monotonic()
            if self.started and now_s - last_s > _STOPPED_S:
                self.watch.pulse.excuse(now_s - last_s)
            last_s = now_s
            if not self.started:
                self._look_up_steps(now_s)
            if self.started:
                self.watch.tick(now_s, self._question)
        self._wait(self.parts, _END_TOGETHER_S)
        return AttemptEnd(self._status(), self._ran_s(), self.nodes, self._interruption())

    def _goes_on(self) -> bool:
        """Whether no part has failed and not all have ended: a part that fails ends the others."""
        if not self._all_begun and self.parts[0].status() == 0:
            self._begin_others()  # its step came and went between two look-ups
        statuses = [part.status() for part in self.parts]
        return None in statuses and all(status in (None, 0) for status in statuses)

    def _status(self) -> int:
        """The worst of the parts that have ended, as srun gives that of its tasks; 1 where none could be started."""
        return max((part.status() or 0 for part in self.parts), key=shell_status, default=1)

    def _ran_s(self) -> float:
        return time.monotonic() - self.began_s

    def _turn(self) -> None:
        """Waits for the next thing to happen and serves signals and answers."""
        wanted = [part.child.pidfd for part in self.parts if part.status() is None]
        watched = self.watch.filenos() if self.started else []
        ready = select.select([*wanted, *watched, self.inbox.fileno()], [], [], self._timeout_s())[0]
        if any(fd in ready for fd in watched):
            self.listen()
        if self.inbox.fileno() in ready:
            self.relay_signals()

    def listen(self) -> None:
        """Takes what the watches said. Never blocks."""
        self.watch.read()
        nodes = self.nodes
        for name, told in self.watch.pulse.told().items():
            if name in nodes:
                for one in told:
                    self.hear(name, one)

    def _timeout_s(self) -> float:
        if not self.started:
            # An srun may end at any moment, and is not looked up then.
            due_s = min((due for part in self.parts if (due := part.lookup_due_s()) is not None), default=0.0)
            return max(0.01, min(_CALM_S, due_s - time.monotonic()))
        return _ALERT_S if self.watch.pulse.overdue(time.monotonic()) else _CALM_S

    def relay_signals(self) -> None:
        """Passes on to srun what only we have received, and stops with it on Ctrl-Z."""
        for number, from_terminal in self.inbox.take():
            if number in ENDING:
                self._received[number] = time.monotonic()
            for part in self.parts:
                if not from_terminal:
                    part.child.send_signal(number)
            if number == signal.SIGTSTP:
                os.kill(os.getpid(), signal.SIGSTOP)

    def _interruption(self) -> int | None:
        now_s = time.monotonic()
        for number, at_s in self._received.items():
            if now_s - at_s < _ENDS_WITHIN_S.get(signal.Signals(number), _ENDS_WITHIN_DEFAULT_S):
                return number
        return None

    def _look_up_steps(self, now_s: float) -> None:
        """Finds the steps that our sruns have become, and starts the watch."""
        due = [part for part in self.parts if (due_s := part.lookup_due_s()) is not None and now_s >= due_s]
        try:
            watch = self.watch if due else None
            for part in due:
                part.look_up_step(self.slurm, now_s)
        except SlurmError:
            return  # slurmctld restarts: asked again at the next look-up
        if self.step_id and not self._all_begun:
            self._begin_others()
        if watch is not None and self.started:
            self.running_after_s = self._ran_s()
            self.messages.step_id = self.step_id
            watch.step_id = self.step_id or "-"

    def _begin_others(self) -> None:
        """Only once the step in the job is known, for the tasks of all parts see its id."""
        self.parts += [Part.start(plan) for plan in self.sruns.others(self.step_id)]
        self._all_begun = True

    def _question(self) -> str:
        """The nodes are asked for what their tasks were told until each has said it, within reason."""
        if self._tasks_asked >= _ASK_TASKS or len(self.watch.pulse.tasks(self.nodes)) == len(self.nodes):
            return "-"
        self._tasks_asked += 1
        return "tasks"

    def _given_up(self, findings: tuple[Finding, ...]) -> AttemptEnd:
        """The attempt is lost, and still to be ended: `end` comes after the bad nodes have left the job."""
        now_s = time.monotonic()
        silent_s = [self.watch.pulse.silence_s(finding.node, now_s) for finding in findings if finding.lost]
        ages_s = [now_s - finding.seen_s for finding in findings if finding.seen_s is not None]
        detect_s = max((*silent_s, *ages_s), default=0.0)
        return AttemptEnd(1, self._ran_s(), self.nodes, self._interruption(), findings, detect_s)

    def end(self) -> bool:
        """Ends the step and its sruns, if they have not ended; whether slurmctld has let go of the step.

        To be called after the job was shrunk: only then does slurmctld take the survivors' word for the end of the
        whole step. Before, a step with a dead node stays RUNNING in its books and keeps CPUs and memory until the
        node is DOWN (22.05.8). srun must live until then, for each slurmstepd tries for 2 s to tell it of its tasks.
        """
        if self._let_go is not None:
            return self._let_go
        if len(self.parts) > 1:
            self._look_up_steps(math.inf)
        running = [part for part in self.parts if part.status() is None and part.step is not None]
        if running:
            if self.config.term_grace_s > 0:
                self._cancel(running, "TERM")
                self._wait(running, self.config.term_grace_s)
            self._cancel(running, None)
        # Of a step whose tasks ended before the job was shrunk slurmctld does not let go until the node is DOWN.
        self._let_go = self._await_let_go(_LET_GO_S if running else 0)
        for part in self.parts:
            if part.step is not None or len(self.parts) > 1:
                part.kill()
        return self._let_go

    def _await_let_go(self, bound_s: float) -> bool:
        stepped = [part for part in self.parts if part.step is not None]
        is_tree = any(len(part.step.nodes) >= _TREE_NODES for part in stepped if part.step)
        end_s = time.monotonic() + (0 if is_tree else bound_s)
        while stepped:
            try:
                stepped = [part for part in stepped if part.has_step(self.slurm)]
            except SlurmError:
                return False
            if stepped and time.monotonic() > end_s:
                return False
            if stepped:
                time.sleep(_LET_GO_POLL_S)
        return True

    def wait_out(self) -> int:
        """Waits for the sruns' end and passes signals on, nothing more; the exit status."""
        while any(part.status() is None for part in self.parts):
            self._turn()
        return self._status()

    def _cancel(self, parts: Sequence[Part], name: str | None) -> None:
        for part in parts:
            try:
                part.cancel(self.slurm, name)
            except SlurmError as error:
                self.messages.error(f"the step cannot be ended through Slurm: {error}")

    def _wait(self, parts: Sequence[Part], seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while any(part.status() is None for part in parts) and time.monotonic() < end_s:
            self._turn()
