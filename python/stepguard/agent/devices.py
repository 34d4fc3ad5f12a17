# SPDX-License-Identifier: Apache-2.0
"""Two looks at a node's devices for each attempt of a job, at its beginning and at its end. Neither hooks nor the loop
wait for them; the record of the job does, for the second.

The first is in memory, and in the spool once the attempt has run for a while: most jobs of a flood are shorter, and
need no file for it.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stepguard.agent.attempts import Attempt
from stepguard.agent.health.keeper import Keeper
from stepguard.agent.intake import Intake
from stepguard.agent.message import HEALTH, LOOKED
from stepguard.health.model import Report
from stepguard.health.snapshot import Snapshot, same_gpus, take
from stepguard.records import spool, wire
from stepguard.records.manifest import to_json
from stepguard.records.spool import AttemptKey, SpoolLayout

_IN_MEMORY_S = 5.0
_SNAPSHOT_MAX_BYTES = 16 << 20
_REMEMBERED = 1000


@dataclass
class _Taken:
    snapshot: Snapshot
    at_s: float
    is_stored: bool = False


class Devices:
    """`settle` is called with an attempt that has waited for a look."""

    def __init__(
        self, health: Keeper, intake: Intake, layout: SpoolLayout, boot_id: str, settle: Callable[[Attempt], None]
    ) -> None:
        self._health = health
        self._intake = intake
        self._layout = layout
        self._boot_id = boot_id
        self._settle = settle
        self._before: dict[AttemptKey, _Taken] = {}

    def look(self) -> None:
        """With each tick of the agent: has kept on disk what has been in memory for long enough."""
        now_s = time.monotonic()
        for key, taken in self._before.items():
            if not taken.is_stored and now_s >= taken.at_s + _IN_MEMORY_S:
                taken.is_stored = True
                self._tell(key, LOOKED, {"snapshot": zlib.compress(json.dumps(taken.snapshot).encode(), 1)})

    def look_at(self, attempt: Attempt) -> None:
        """Has the devices looked at for an attempt that has begun, or that slurmd has ended, if they have not been."""
        if not attempt.has_begun:
            return
        if attempt.has_epilog:
            self.look_again(attempt)
        elif not attempt.is_looked_at:
            attempt.is_looked_at = True
            self._look_first(attempt.key)

    def look_again(self, attempt: Attempt) -> bool:
        """Has the devices looked at for an attempt that is over; returns whether that has to be waited for. There is
        no second look where nobody knows when it ended."""
        if not attempt.has_begun or attempt.closed or attempt.is_looked_at_again:
            return attempt.awaits_look
        attempt.is_looked_at_again = attempt.awaits_look = True

        def told(reports: list[Report]) -> None:
            before = self._taken_before(attempt.key)
            after = take(reports, self._health.looked_for(attempt.key) if before is None else same_gpus(before))
            found = self._health.told_of(attempt.key, attempt.begin_boottime_ns / 1e9, before, after)
            attempt.awaits_look = False
            self._tell(attempt.key, HEALTH, {"record": to_json(found).encode("ascii")})
            self._settle(attempt)

        self._health.look_for(told)
        return True

    def _look_first(self, key: AttemptKey) -> None:
        def told(reports: list[Report]) -> None:
            # Which GPUs it has is asked now: an agent that has just started learns their indices by this look.
            self._before[key] = _Taken(take(reports, self._health.looked_for(key)), time.monotonic())
            if len(self._before) > _REMEMBERED:
                del self._before[next(iter(self._before))]

        self._health.look_for(told)

    def _tell(self, key: AttemptKey, kind: str, fields: Mapping[str, bytes]) -> None:
        if (attempt := self._intake.attempts.get(key)) is not None:
            self._intake.tell(attempt, kind, self._boot_id, fields)

    def _taken_before(self, key: AttemptKey) -> Snapshot | None:
        if (taken := self._before.pop(key, None)) is not None:
            return taken.snapshot
        found = [path for _, kind, path in spool.messages(self._layout.attempt(key)) if kind == LOOKED]
        try:
            packed = wire.decode(found[0].read_bytes()).get("snapshot", b"") if found else b""
            unpacked = zlib.decompressobj().decompress(packed, _SNAPSHOT_MAX_BYTES)
            return dict(json.loads(unpacked)) if unpacked else None
        except (OSError, ValueError, wire.MalformedMessage, zlib.error):
            return None  # damaged: as if there had been none
