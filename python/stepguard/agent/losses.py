# SPDX-License-Identifier: Apache-2.0
"""What is lost when somebody removes the spool, or a part of it, under the agent; and how it goes on with the rest.

Jobs that run stay open: what is told of them from now on is recorded, with a finding that says what is not. What was
waiting for the archive there is gone, which nobody but the log can tell.
"""

from __future__ import annotations

from pathlib import Path

from stepguard.agent.archiver import Archiver
from stepguard.agent.health.keeper import Keeper
from stepguard.agent.intake import Intake
from stepguard.agent.log import Log
from stepguard.agent.usage import Usage
from stepguard.records.spool import SpoolLayout

_NAMED = 20


class Losses:
    """`look` with each tick, after `renewed` where something was made anew."""

    def __init__(
        self,
        layout: SpoolLayout,
        usage: Usage,
        intake: Intake,
        archiver: Archiver,
        health: Keeper,
        boot_id: str,
        log: Log,
    ) -> None:
        self._layout = layout
        self._usage = usage
        self._intake = intake
        self._archiver = archiver
        self._health = health
        self._boot_id = boot_id
        self._log = log
        self._removed: list[Path] = []

    def renewed(self, removed: list[Path]) -> None:
        """These were removed from the spool, and have been made anew, empty."""
        self._removed = removed
        self._archiver.renew()
        self._health.write_again()
        self._intake.retry()

    def look(self) -> None:
        """Says what has gone. Raises OSError when the spool cannot be looked at."""
        gone = self._usage.look()
        has_lost_jobs = self._layout.jobs in self._removed
        lost = self._intake.note_losses(gone, self._boot_id, also_finishing=has_lost_jobs)
        said = []
        if self._removed:
            names = ", ".join(path.name for path in self._removed)
            said.append(f"{names} of the spool {self._layout.root} had been removed, and were made anew")
        if lost:
            said.append(f"the records of these jobs, which are open, begin anew: {_named(lost)}")
        if has_lost_jobs and (waiting := sorted(gone.difference(lost))):
            said.append(f"of these jobs, only what is in the archive is left: {_named(waiting)}")
        self._removed = []
        if said:
            self._log.error("; ".join(said))


def _named(keys: list[str]) -> str:
    return ", ".join(keys[:_NAMED]) + (f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else "")
