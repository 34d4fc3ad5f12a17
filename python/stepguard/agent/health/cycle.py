# SPDX-License-Identifier: Apache-2.0
"""The probes of the node, all at once every so often and some when they are asked for, each in a child of its own; the
loop waits for none."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from stepguard.health.model import Report, Status
from stepguard.health.probes.settings import Settings
from stepguard.health.probes.table import PROBES
from stepguard.health.probing import Probes, Running

# Whoever wakes it again and again, a flood of XIDs or of health checks, gets no more than this.
WAKE_S = 5.0
# Jobs that begin or end one upon another are told of by one look: a probe starts no more often than this.
APART_S = 0.25
# A hook has just been answered, and slurmd starts the job's tasks or goes on to the next job: where there are few
# cores, a probe beside that would take of their time.
_AFTER_S = 0.1
# The process of a probe that is over its deadline ends a moment after it was killed; no other is started before.
_REAP_S = 1.0
# Whether there is anything to look at, where there was not, is asked this seldom: it takes some ms of the loop.
_NOTHING_S = 600.0

Told = Callable[[list[Report]], None]


@dataclass
class _Asked:
    """Somebody waits for looks that began since `since_s`, until `until_s`."""

    since_s: float
    until_s: float
    names: tuple[str, ...]
    told: Told
    reports: dict[str, Report] = field(default_factory=dict)

    @property
    def lacking(self) -> list[str]:
        return [name for name in self.names if name not in self.reports]


class Cycle:
    """`took` gets each report as it comes, `ended` is called when those of a cycle have all come. `settings`: what a
    probe is told, from its deadline."""

    def __init__(
        self,
        names: Iterable[str],
        cycle_s: float,
        settings: Callable[[float], Settings],
        selector: selectors.BaseSelector,
        took: Callable[[Report], None],
        ended: Callable[[], None],
    ) -> None:
        self._names = tuple(names)
        self._cycle_s = cycle_s
        self._settings = settings
        self._selector = selector
        self._took = took
        self._ended = ended
        self._probes = Probes()
        self._running: dict[str, Running] = {}
        self._begun_s: dict[str, float] = {}
        # Probes with nothing to look at: what they say, and when they are asked again.
        self._idle: dict[str, tuple[Report, float]] = {}
        self._asked: list[_Asked] = []
        self._of_cycle: set[str] = set()
        self._started_s = float("-inf")
        self._due_s = 0.0

    @property
    def due_s(self) -> float:
        """When `turn` is to be called, by time.monotonic(); infinity where nobody waits for a look."""
        wanted = {name for asked in self._asked for name in self._to_start(asked)}
        since_s = min((asked.since_s for asked in self._asked), default=0.0) + _AFTER_S
        starts = (max(since_s, self._begun_s.get(name, float("-inf")) + APART_S) for name in wanted)
        return min([*starts, *(asked.until_s for asked in self._asked)], default=float("inf"))

    def look(self) -> None:
        """Starts a cycle where it is time, and ends probes that are over theirs."""
        now_s = time.monotonic()
        for running in list(self._running.values()):
            if now_s >= running.deadline_s:
                self._take(running)
                self._due_s = max(self._due_s, now_s + _REAP_S)
        if not self._of_cycle and now_s >= self._due_s:
            self._start_cycle(now_s)

    def turn(self) -> None:
        """Goes on with the looks that somebody waits for."""
        now_s = time.monotonic()
        for asked in list(self._asked):
            for name in self._to_start(asked):
                if now_s >= max(asked.since_s + _AFTER_S, self._begun_s.get(name, float("-inf")) + APART_S):
                    self._start(name, now_s)
            if now_s >= asked.until_s or not asked.lacking:
                self._answer(asked)

    def ask(self, names: Iterable[str], within_s: float, told: Told) -> None:
        """Has these probes look, if they are configured, and tells what they say once all have: looks that began after
        this call. Those that do not answer within this time are told as unknown."""
        now_s = time.monotonic()
        wanted = tuple(name for name in names if name in self._names)
        self._asked.append(_Asked(now_s, now_s + within_s if wanted else now_s, wanted, told))

    def wake(self) -> None:
        """The next one comes soon: when that which runs has ended, and not too soon after its start."""
        self._due_s = min(self._due_s, self._started_s + WAKE_S)

    def running_s(self) -> Mapping[str, float]:
        """Those that run now, and since how long."""
        now_s = time.monotonic()
        return {name: round(now_s - self._begun_s[name], 1) for name in self._running}

    def stop(self) -> None:
        """Kills what runs, and does not wait for it."""
        for running in self._running.values():
            self._selector.unregister(running)
            running.close()
        self._running.clear()
        self._probes.close()

    def _start_cycle(self, now_s: float) -> None:
        self._started_s, self._due_s = now_s, now_s + self._cycle_s
        self._of_cycle = set(self._names)
        for name in self._names:
            if name not in self._running:
                self._start(name, now_s)

    def _start(self, name: str, now_s: float) -> None:
        idle, again_s = self._idle.get(name, (None, 0.0))
        if idle is not None and now_s < again_s:
            self._reported(idle, now_s, is_news=False)
            return
        self._begun_s[name] = now_s
        started = self._probes.start(name, self._settings(PROBES[name].deadline_s))
        if isinstance(started, Running):
            self._running[name] = started
            self._selector.register(started, selectors.EVENT_READ, lambda _: self._take(started))
            return
        if started.status is Status.OK:
            self._idle[name] = started, now_s + _NOTHING_S
        self._reported(started, now_s)

    def _take(self, running: Running) -> None:
        report = running.take()
        if report is None:
            return
        self._selector.unregister(running)
        running.close()
        del self._running[running.name]
        self._reported(report, self._begun_s[running.name])

    def _reported(self, report: Report, begun_s: float, *, is_news: bool = True) -> None:
        if is_news:
            self._took(report)
        for asked in list(self._asked):
            if begun_s >= asked.since_s and report.probe in asked.lacking:
                asked.reports[report.probe] = report
                if not asked.lacking:
                    self._answer(asked)
        if self._of_cycle:
            self._of_cycle.discard(report.probe)
            if not self._of_cycle:
                self._ended()

    def _to_start(self, asked: _Asked) -> list[str]:
        """Of which nothing runs that will answer."""
        return [name for name in asked.lacking if name not in self._running]

    def _answer(self, asked: _Asked) -> None:
        if asked not in self._asked:
            return
        self._asked.remove(asked)
        waited_s = asked.until_s - asked.since_s
        late = (Report(name, Status.UNKNOWN, f"no answer within {waited_s:g} s") for name in asked.lacking)
        asked.told([*asked.reports.values(), *late])
