# SPDX-License-Identifier: Apache-2.0
"""The probes of the node, all at once every so often, each in a child of its own; the loop waits for none."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterable, Mapping

from stepguard.config import Health
from stepguard.errors import ConfigError
from stepguard.health.model import Report, Status
from stepguard.health.probes.settings import Settings
from stepguard.health.probes.table import PROBES
from stepguard.health.probing import Probes, Running

ALL = "all"
# Whoever wakes it again and again, a flood of XIDs or of health checks, gets no more than this.
WAKE_S = 5.0
# Whether there is anything to look at, where there was not, is asked this seldom: it takes some ms of the loop.
_NOTHING_S = 600.0


def probe_names(config: Health) -> tuple[str, ...]:
    """The probes that are to run. Raises ConfigError for one that there is not."""
    if ALL in config.probes:
        return tuple(PROBES)
    for name in config.probes:
        if name not in PROBES:
            raise ConfigError(f"no probe {name!r}", "[health] probes", f"there are: {ALL}, {', '.join(PROBES)}")
    return tuple(dict.fromkeys(config.probes))


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
        # Probes with nothing to look at, and when they are asked again.
        self._idle: dict[str, float] = {}
        self._started_s = float("-inf")
        self._due_s = 0.0

    def look(self) -> None:
        """Starts a cycle where it is time, and ends probes that are over theirs."""
        now_s = time.monotonic()
        for running in list(self._running.values()):
            if now_s >= running.deadline_s:
                self._take(running)
        if not self._running and now_s >= self._due_s:
            self._start(now_s)

    def wake(self) -> None:
        """The next one comes soon: when that which runs has ended, and not too soon after its start."""
        self._due_s = min(self._due_s, self._started_s + WAKE_S)

    def running_s(self) -> Mapping[str, float]:
        """Those that run now, and since how long."""
        return {name: round(time.monotonic() - self._started_s, 1) for name in self._running}

    def stop(self) -> None:
        """Kills what runs, and does not wait for it."""
        for running in self._running.values():
            self._selector.unregister(running)
            running.close()
        self._running.clear()
        self._probes.close()

    def _start(self, now_s: float) -> None:
        self._started_s, self._due_s = now_s, now_s + self._cycle_s
        reports = []
        for name in self._names:
            if now_s < self._idle.get(name, now_s):
                continue
            started = self._probes.start(name, self._settings(PROBES[name].deadline_s))
            if isinstance(started, Running):
                self._running[name] = started
                self._selector.register(started, selectors.EVENT_READ, lambda _, one=started: self._take(one))
                continue
            reports.append(started)
            if started.status is Status.OK:
                self._idle[name] = now_s + _NOTHING_S
        for report in reports:
            self._took(report)
        if not self._running:
            self._ended()

    def _take(self, running: Running) -> None:
        report = running.take()
        if report is None:
            return
        self._selector.unregister(running)
        running.close()
        del self._running[running.name]
        self._took(report)
        if not self._running:
            self._ended()
