# SPDX-License-Identifier: Apache-2.0
"""Which lines of a log file are new, and when they were said.

A line's time is of the wall's clock, which may be set at any moment, and is wrong at a boot until it is: what tells
first is the order in the file. What comes behind a line that was read in this boot is new, whatever its time. Only
where no such line is known does the time decide: of a file that was never read in this boot, lines from the boot on
count; of one that does not hold what was read, those from the last line's time on.

A boot whose clock was behind has its lines dated before it. They begin with the kernel's first line, and are of this
boot if the line after them is, and if they were not said later in theirs than that one was in this.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stepguard.agent.health.kernel_log.source import seconds_of

if TYPE_CHECKING:  # it has patterns, for when there is something to read
    from stepguard.agent.health.kernel_log.syslog import Said

# init/version-timestamp.c (linux_banner) of the kernel, printed first of all by start_kernel().
_BANNER = "Linux version "
# The time since boot that printk may put before a text.
_STAMP = re.compile(r"kernel: ?\[ *(\d{1,10}\.\d{6})\]")
_MAX_HELD = 10_000

Told = list[tuple[float, "Said"]]
"""Lines, each with the time since boot when it was said."""


class _By(enum.Enum):
    """What tells whether a line is new."""

    ORDER = enum.auto()
    BOOT = enum.auto()
    LAST_LINE = enum.auto()


class Times:
    """`last_s`: when the last line of this boot was said, since then; `wall_s`: and what it says itself. `passed`: so
    many lines were taken for ones that had been read."""

    def __init__(self, cursor: Mapping[str, Any], is_of_this_boot: bool) -> None:
        """Raises ValueError or TypeError where that is no cursor."""
        self._last_s = seconds_of(cursor, "at_s") if is_of_this_boot else None
        self._wall_s = seconds_of(cursor, "wall_s") if is_of_this_boot else None
        # All behind the place is of this boot.
        self._is_settled = self._last_s is not None or (is_of_this_boot and bool(cursor.get("is_settled", False)))
        self._by = _By.ORDER
        self._since_s = float("-inf")
        self._held: Told | None = None
        self.passed = 0

    def cursor(self) -> dict[str, Any]:
        return {"wall_s": self._wall_s, "is_settled": self._is_settled}

    @property
    def holds(self) -> bool:
        """Whether lines are kept back until the next one tells of which boot they are."""
        return bool(self._held)

    def go_on(self) -> None:
        """What comes is behind what was read."""
        self._by = _By.ORDER if self._is_settled else _By.BOOT

    def begin_anew(self) -> None:
        """Nobody knows whether what comes has been read."""
        self._by = _By.BOOT if self._last_s is None else _By.LAST_LINE
        self._since_s = float("-inf") if self._wall_s is None else self._wall_s

    def settle(self) -> None:
        """All that there was has been read."""
        self._by = _By.ORDER
        self._is_settled = not self._held

    def told(self, one: Said, is_live: bool, now_s: float, offset_s: float) -> Told:
        """What is new with this line. `is_live`: it has just been written. `offset_s`: from the wall's clock to that
        since boot."""
        said_s = now_s if is_live else self._when(one, now_s, offset_s)
        if said_s is None:
            return []
        said_s = min(said_s, now_s)
        before = self._released(said_s, one) if self._held else []
        self._last_s, self._wall_s = said_s, one.at_s or self._wall_s
        return [*before, (said_s, one)]

    def _when(self, one: Said, now_s: float, offset_s: float) -> float | None:
        """When something was said that was there before; None for what is not to be told, or not yet."""
        at_s = None if one.at_s is None else one.at_s + offset_s
        if self._by is _By.ORDER:
            return max(self._last_s or 0.0, at_s or 0.0)
        if self._by is _By.LAST_LINE:
            if one.at_s is not None and one.at_s >= self._since_s:
                return at_s
            self.passed += 1
        elif at_s is not None:
            if at_s >= 0:
                return at_s
            self._hold(one, now_s)
        return None

    def _hold(self, one: Said, now_s: float) -> None:
        """Keeps a line that is dated before the boot."""
        if one.text.startswith(_BANNER):
            self._held = [(0.0, one)]
            return
        if not self._held:
            return
        begun_s, before_s = self._held[0][1].at_s, self._held[-1][0]
        assert begun_s is not None and one.at_s is not None
        stamp = _STAMP.search(one.line)
        since_s = float(stamp[1]) if stamp else max(before_s, one.at_s - begun_s)
        if before_s <= since_s <= now_s and len(self._held) < _MAX_HELD:
            self._held.append((since_s, one))
        else:
            self._held = None  # it went on for longer than this boot does

    def _released(self, at_s: float, before: Said) -> Told:
        """What was kept back, where it is of this boot: `before` this line, that was said then."""
        held, self._held = self._held or [], None
        if not held:
            return []
        self._is_settled = True
        is_ours = not before.text.startswith(_BANNER) and held[-1][0] <= at_s
        return held if is_ours else []
