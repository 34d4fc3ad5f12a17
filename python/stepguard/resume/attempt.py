# SPDX-License-Identifier: Apache-2.0
"""One attempt: the real srun with its watch beside it, from start to end."""

from __future__ import annotations

import os
import select
import signal
import stat
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from stepguard import process
from stepguard.config import Resume
from stepguard.errors import SlurmError
from stepguard.resume.messages import Messages
from stepguard.resume.signals import ENDING, SignalInbox
from stepguard.resume.verdict import Finding
from stepguard.resume.watch_step import WatchStep
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import Step

# How often the loop turns over: while all is well, and while a node is overdue.
_CALM_S = 0.25
_ALERT_S = 0.05
# A longer turn means that we were stopped ourselves, not that the nodes were silent.
_STOPPED_S = 1.5
# srun has ended for a signal if it ended so soon after it. One Ctrl-C alone only asks srun for its status.
_ENDS_WITHIN_S = {signal.SIGINT: 10.0}
_ENDS_WITHIN_DEFAULT_S = 60.0
# When to ask Slurm which step our srun has become: soon, then ever more rarely while it waits for resources.
_FIRST_LOOKUP_S = 0.05
_LAST_LOOKUP_S = 30.0
# How long slurmctld gets to take note of the end of a step: 0.1 to 0.25 s is usual. From this many nodes on, their
# slurmstepds report along a tree, in which the parent of a dead one waits for it for a minute.
_LET_GO_S = 1.0
_LET_GO_POLL_S = 0.03
_TREE_NODES = 7


@dataclass
class AttemptEnd:
    """How an attempt ended. `findings` are those for which we give it up; `silent_s` is how long their nodes had
    been silent by then, 0 for nodes that told of their fault themselves."""

    status: int
    ran_s: float
    step_nodes: tuple[str, ...]
    interrupted_by: int | None = None
    findings: tuple[Finding, ...] = ()
    silent_s: float = 0.0


@dataclass
class Stdio:
    """Remembers what a killed srun leaves changed: the offset of a file on stdin, the modes of the terminal."""

    offset: int | None = None
    modes: Any = None

    @staticmethod
    def remember() -> Stdio:
        """As it is now, before the first attempt."""
        remembered = Stdio()
        try:
            if stat.S_ISREG(os.fstat(0).st_mode):
                remembered.offset = os.lseek(0, 0, os.SEEK_CUR)
            elif os.isatty(0):
                remembered.modes = termios.tcgetattr(0)
        except OSError:
            return Stdio()  # stdin is closed
        return remembered

    def restore(self) -> None:
        """As it was: the next attempt reads the same input, and a terminal that --pty made raw is usable again."""
        if self.offset is not None:
            os.lseek(0, self.offset, os.SEEK_SET)
        if self.modes is not None:
            termios.tcsetattr(0, termios.TCSANOW, self.modes)


@dataclass
class Attempt:
    """One run of srun. `words` is its command line; the watch is made, by `make_watch`, once the step exists."""

    words: Sequence[str]
    environment: Mapping[str, str]
    job_id: str
    slurm: SlurmClient
    inbox: SignalInbox
    make_watch: Callable[[], WatchStep]
    config: Resume
    messages: Messages
    step: Step | None = None
    running_after_s: float | None = None
    _started_s: float = 0.0
    _child: process.Child | None = None
    _next_lookup_s: float = 0.0
    _lookup_pause_s: float = _FIRST_LOOKUP_S
    _let_go: bool | None = None
    _received: dict[int, float] = field(default_factory=dict)

    @cached_property
    def watch(self) -> WatchStep:
        """The watch step beside this attempt. It is made at first need: not before the user's own step runs."""
        return self.make_watch()

    def stop_watch(self) -> None:
        """Ends the watch if there is one."""
        if "watch" in self.__dict__:
            self.watch.stop()

    def run(self) -> AttemptEnd:
        """Runs to the end: srun's own, or ours when hardware under the step has failed."""
        self._started_s = time.monotonic()
        self._next_lookup_s = self._started_s + _FIRST_LOOKUP_S
        self._child = process.spawn(self.words, env=self.environment)
        last_s = self._started_s
        while self._child.poll() is None:
            findings = self._faults_under_step() if self.step else ()
            if findings:
                return self._given_up(findings)
            self._turn(self._child.pidfd)
            now_s = time.monotonic()
            if self.step is not None and now_s - last_s > _STOPPED_S:
                self.watch.pulse.excuse(now_s - last_s)
            last_s = now_s
            if self.step is None and now_s >= self._next_lookup_s:
                self._look_up_step(now_s)
            if self.step is not None:
                self.watch.tick(now_s)
        return AttemptEnd(self._child.status or 0, self._ran_s(), self._nodes(), self._interruption())

    def _ran_s(self) -> float:
        return time.monotonic() - self._started_s

    def _nodes(self) -> tuple[str, ...]:
        return self.step.nodes if self.step else ()

    def _turn(self, pidfd: int) -> None:
        """Waits for the next thing to happen and serves signals and answers."""
        wanted = [pidfd, self.inbox.fileno()]
        watch_fd = self.watch.fileno() if self.step is not None else None
        if watch_fd is not None:
            wanted.append(watch_fd)
        ready = select.select(wanted, [], [], self._timeout_s())[0]
        if watch_fd in ready:
            self.watch.read()
        if self.inbox.fileno() in ready:
            self.relay_signals()

    def _timeout_s(self) -> float:
        if self.step is None:
            return max(0.01, min(_CALM_S, self._next_lookup_s - time.monotonic()))
        return _ALERT_S if self.watch.pulse.overdue(time.monotonic()) else _CALM_S

    def relay_signals(self) -> None:
        """Passes on to srun what only we have received, and stops with it on Ctrl-Z."""
        for number, from_terminal in self.inbox.take():
            if number in ENDING:
                self._received[number] = time.monotonic()
            if self._child is not None and not from_terminal:
                self._child.send_signal(number)
            if number == signal.SIGTSTP:
                os.kill(os.getpid(), signal.SIGSTOP)

    def _interruption(self) -> int | None:
        now_s = time.monotonic()
        for number, at_s in self._received.items():
            if now_s - at_s < _ENDS_WITHIN_S.get(signal.Signals(number), _ENDS_WITHIN_DEFAULT_S):
                return number
        return None

    def _look_up_step(self, now_s: float) -> None:
        """Finds the step that our srun has become, by srun's pid, and starts the watch."""
        assert self._child is not None
        self._next_lookup_s = now_s + self._lookup_pause_s
        self._lookup_pause_s = min(self._lookup_pause_s * 2, _LAST_LOOKUP_S)
        try:
            steps = self.slurm.steps(self.job_id)
            watch = self.watch
        except SlurmError:
            return  # slurmctld restarts: asked again at the next look-up
        host = os.uname().nodename.partition(".")[0]
        for step in steps:
            if (
                step.srun_pid == self._child.pid
                and step.srun_host.partition(".")[0] == host
                and step.nodes
                and step.id.isdigit()
            ):
                self.running_after_s = self._ran_s()
                self.messages.step_id = step.id
                watch.step_id = step.id
                self.step = step
                return

    def _faults_under_step(self) -> tuple[Finding, ...]:
        """Nodes of the step that are lost or have told of a fault that hangs or ends the program."""
        nodes = self._nodes()
        lost = [name for name in nodes if name in self.watch.pulse.lost()]
        if lost and not self.watch.own_link_works():
            self.watch.pulse.start_over(time.monotonic())
            lost = []
        return tuple(lost_finding(name) for name in lost) + told_findings(self.watch, nodes)

    def _given_up(self, findings: tuple[Finding, ...]) -> AttemptEnd:
        """The attempt is lost, and still to be ended: `end` comes after the bad nodes have left the job."""
        now_s = time.monotonic()
        silent_s = max((self.watch.pulse.silence_s(f.node, now_s) for f in findings if f.lost), default=0.0)
        return AttemptEnd(1, self._ran_s(), self._nodes(), self._interruption(), findings, silent_s)

    def end(self) -> bool:
        """Ends the step and its srun, if they have not ended; whether slurmctld has let go of the step.

        To be called after the job was shrunk: only then does slurmctld take the survivors' word for the end of the
        whole step. Before, a step with a dead node stays RUNNING in its books and keeps CPUs and memory until the
        node is DOWN (22.05.8). srun must live until then, for each slurmstepd tries for 2 s to tell it of its tasks.
        """
        assert self._child is not None
        if self.step is None:
            return True
        if self._let_go is not None:
            return self._let_go
        if self._child.poll() is None:
            if self.config.term_grace_s > 0:
                self._cancel("TERM")
                self._wait_child(self.config.term_grace_s)
            self._cancel(None)
        self._let_go = self._await_let_go()
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGKILL)
            self._child.reap()
        return self._let_go

    def _await_let_go(self) -> bool:
        assert self.step is not None
        end_s = time.monotonic() + (_LET_GO_S if len(self.step.nodes) < _TREE_NODES else 0)
        while True:
            try:
                if all(step.id != self.step.id for step in self.slurm.steps(self.job_id)):
                    return True
            except SlurmError:
                return False
            if time.monotonic() > end_s:
                return False
            time.sleep(_LET_GO_POLL_S)

    def wait_out(self) -> int:
        """Waits for srun's end and passes signals on, nothing more; its exit status."""
        assert self._child is not None
        while self._child.poll() is None:
            self._turn(self._child.pidfd)
        return self._child.status or 0

    def _cancel(self, name: str | None) -> None:
        assert self.step is not None
        try:
            self.slurm.cancel_step(self.job_id, self.step.id, name)
        except SlurmError as error:
            self.messages.error(f"the step cannot be ended through Slurm: {error}")

    def _wait_child(self, seconds: float) -> None:
        assert self._child is not None
        end_s = time.monotonic() + seconds
        while self._child.poll() is None and time.monotonic() < end_s:
            self._turn(self._child.pidfd)


def lost_finding(name: str) -> Finding:
    """The finding on a node that neither its watch nor its kernel speaks for."""
    return Finding(name, "silence", "reboot", "does not answer", lost=True)


def told_findings(watch: WatchStep, nodes: Sequence[str]) -> tuple[Finding, ...]:
    """The findings that those nodes told of themselves."""
    return tuple(
        Finding(name, source, action, f"{text} ({source})")
        for name, faults in watch.pulse.faults().items()
        if name in nodes
        for source, action, text in faults
    )
