# SPDX-License-Identifier: Apache-2.0
"""All that is known of the nodes of an attempt while it runs: the watch steps of its jobs, and one pulse."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from stepguard.config import Resume
from stepguard.resume.findings import lost_finding, told_findings
from stepguard.resume.pulse import Pulse
from stepguard.resume.reach import Probe, answering
from stepguard.resume.verdict import Finding
from stepguard.resume.watch_step import WatchStep

# A slurmctld that says nothing for so long cannot be reached from here.
_LINK_S = 0.5
# Numbers of pings go on from one attempt to the next, for the watches do, too.
_SEQUENCE = itertools.count(1)


class Lookout:
    """`own` is the watch of the job; those of helper jobs live as long as these do. None of them is ended here.

    `places` are address and port of each node's slurmd, `controllers` those of the slurmctlds. `began_s` is when the
    guarded step began, by the monotonic clock.
    """

    def __init__(
        self,
        own: WatchStep,
        helpers: Sequence[WatchStep],
        places: Mapping[str, tuple[str, int]],
        controllers: Sequence[tuple[str, int]],
        config: Resume,
        began_s: float,
    ) -> None:
        self._own = own
        self._steps = (own, *helpers)
        self._controllers = tuple(controllers)
        self._config = config
        self._next_ping_s = 0.0
        self._link_probes: list[Probe] = []
        # What the attempt before had asked may still be answered, about its tasks.
        self._first_seq = next(_SEQUENCE)
        self.step_id = "-"
        self.pulse = Pulse(config, places, time.monotonic(), began_s)

    def filenos(self) -> list[int]:
        """The descriptors that are readable when a node has said something."""
        return [fd for step in self._steps if (fd := step.fileno()) is not None]

    def runs(self) -> bool:
        """Whether any node can be asked by its watch."""
        return bool(self.filenos())

    def ping(self, question: str = "-") -> int:
        """Asks every node for an answer now; returns its number, for `Pulse.unanswered` and `Pulse.emptied`.

        `question` is "count" for the number of the step's processes, "tasks" for what its tasks were told of
        themselves, "-" for neither.
        """
        seq = next(_SEQUENCE)
        self._next_ping_s = time.monotonic() + self._config.heartbeat_s
        for step in self._steps:
            step.ping(seq, self.step_id, question)
        return seq

    def read(self) -> None:
        """Takes what the nodes said. Never blocks."""
        now_s = time.monotonic()
        for step in self._steps:
            for report in step.read():
                seq = report.get("seq")
                if not isinstance(seq, int) or seq >= self._first_seq:
                    self.pulse.heard(report, now_s)

    def tick(self, now_s: float, question: Callable[[], str] = lambda: "-") -> None:
        """Pings when it is time to, with what `question` says then, starts an ended watch again, and lets the pulse
        decide. Never blocks."""
        for step in self._steps:
            step.tick(now_s, self.pulse.lost())
        if now_s >= self._next_ping_s:
            self.ping(question())
        self.pulse.look(now_s)
        self._check_own_link(now_s)

    def faults_under(self, nodes: Sequence[str]) -> tuple[Finding, ...]:
        """Which of a step's nodes are lost or have told of a fault that hangs or ends its program."""
        lost = [name for name in nodes if name in self.pulse.lost()]
        if lost and not self.own_link_works():
            self.pulse.start_over(time.monotonic())
            lost = []
        return tuple(lost_finding(name) for name in lost) + told_findings(self, nodes)

    def start_again(self, lost: Collection[str]) -> None:
        """Starts the job's own watch anew, without `lost`: one that was launched on a dead node says nothing at all."""
        self._own.stop()
        self._own.tick(time.monotonic(), {*lost, *self.pulse.lost()})
        self.ping()

    def _check_own_link(self, now_s: float) -> None:
        """When nodes fall silent, a slurmctld must answer too, or it is this host that is cut off.

        Asked when the first node becomes suspect, a second before any is given up: after a cut of our own that heals
        just then, `own_link_works` alone would come too late.
        """
        if not self.pulse.suspects() or not self._controllers:
            self._close_link_probes()
            return
        if not self._link_probes:
            self._link_probes = [Probe(*place) for place in self._controllers]
        elif any(probe.result() for probe in self._link_probes):
            return
        elif now_s - self._link_probes[0].started_s > _LINK_S:
            self.pulse.start_over(now_s)
            self._close_link_probes()

    def _close_link_probes(self) -> None:
        for probe in self._link_probes:
            probe.close()
        self._link_probes = []

    def own_link_works(self) -> bool:
        """Whether a slurmctld answers: if not, it is this host that is cut off, not all the others."""
        controllers = {str(n): place for n, place in enumerate(self._controllers)}
        return bool(answering(controllers, self._config.probe_s, enough=1))

    def close(self) -> None:
        """Lets go of what it holds itself."""
        self._close_link_probes()
