# SPDX-License-Identifier: Apache-2.0
"""The source that is read, and the next one where it cannot be."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Mapping
from typing import Any

from stepguard.agent.health.kernel_log.choice import sources, told
from stepguard.agent.health.kernel_log.source import Line, Listener, Source, boottime_s, seconds_of
from stepguard.agent.log import Log
from stepguard.config import Health

RETRY_S = 60.0
# One that could be read for as long as that is asked again at once.
_SOON_S = 1.0
# What two sources tell of a line's time: syslog's is of whole seconds.
_TIMES_APART_S = 1.0
_NONE_YET = "it has told no line yet"


class KernelLog:
    """`take` gets the lines of a batch, `fail` why nothing can be read ("" once it can). `cursor` is what an earlier
    `cursor()` gave: of another boot or another source it says little. Raises ValueError, TypeError and the like where
    it is none.

    Where another source is read than before, lines count from behind the time of the last line on."""

    def __init__(
        self,
        config: Health,
        boot_id: str,
        selector: selectors.BaseSelector,
        log: Log,
        take: Callable[[list[Line]], None],
        fail: Callable[[str], None],
        cursor: Mapping[str, Any],
    ) -> None:
        self._setting = config.kernel_log
        self._boot_id = boot_id
        self._log = log
        self._take = take
        self._fail = fail
        if cursor and not isinstance(cursor["boot_id"], str):
            raise ValueError(f"a boot {cursor['boot_id']}")
        listener = Listener(boot_id, selector, log, self._said, self._heard, self._waits, self._failed)
        self._sources = sources(config, listener, cursor)
        # The time of the last line of this boot, and by which source.
        self._last_s = seconds_of(cursor, "at_s") if cursor.get("boot_id") == boot_id else None
        self._path = str(cursor.get("path", ""))
        self._after_s = seconds_of(cursor, "after_s") if self._last_s is not None else None
        if max(self._last_s or 0.0, self._after_s or 0.0) > boottime_s():
            raise ValueError("a line of the future")
        self._current: Source | None = None
        self._whys: dict[str, str] = {}
        self._why = self._said_why = self._instead = ""
        self._heard_at_s: float | None = None
        self._begin_at_s = 0.0 if self._sources else float("inf")

    @property
    def due_s(self) -> float:
        """When `turn` is to be called, by time.monotonic()."""
        return self._current.due_s if self._current is not None else self._begin_at_s

    def cursor(self) -> dict[str, Any]:
        """How far it has been read, for the next agent."""
        of_source = next((one.cursor() for one in self._sources if one.name == self._path), {})
        common = {"boot_id": self._boot_id, "path": self._path, "at_s": self._last_s, "after_s": self._after_s}
        return {**common, **of_source}

    def document(self) -> dict[str, Any]:
        """What is told of it. `path`: of the source that is read; `instead`: why those before it are not."""
        source = self._current or (self._sources[0] if self._sources else None)
        told = {"path": source.name if source and self._current else self._setting, "why": self._why}
        counts = {key: sum(getattr(one, key) for one in self._sources) for key in ("lost", "garbage")}
        return {**told, **counts, "instead": self._instead, **(source.document() if source else {})}

    def turn(self) -> None:
        """Goes on, where it is time."""
        if self._current is not None:
            self._current.turn()
        elif time.monotonic() >= self._begin_at_s:
            self._whys = {}
            self._begin(self._sources[0])

    def stop(self) -> None:
        """Lets go of it."""
        if self._current is not None:
            self._current.stop()
            self._current = None

    def _begin(self, source: Source) -> None:
        self._current = source
        if self._path not in ("", source.name):
            self._after_s = self._last_s
        self._heard_at_s = None
        source.begin()
        if self._current is source and self._heard_at_s is None and not self._why:
            self._why = _NONE_YET
            self._fail(self._why)

    def _said(self, lines: list[Line]) -> None:
        assert self._current is not None
        if self._after_s is not None:
            lines = [line for line in lines if line.at_s > self._after_s + _TIMES_APART_S]
        self._path = self._current.name
        if lines:
            self._last_s = max(lines[-1].at_s, self._last_s or 0.0)
            self._take(lines)

    def _heard(self) -> None:
        assert self._current is not None
        self._heard_at_s = time.monotonic()
        self._whys.pop(self._current.name, None)
        instead = self._all_whys()
        if instead and instead != self._instead:
            self._log.info(f"the kernel's log is read from {self._current.name}: {instead}")
        elif self._said_why:
            self._log.info(f"the kernel's log is read again: {self._current.name}")
        self._why, self._said_why, self._instead = "", "", instead
        self._fail("")

    def _waits(self, why: str) -> None:
        assert self._current is not None
        self._whys[self._current.name] = why
        self._why = self._all_whys()
        if self._why != self._said_why:
            self._log.warning(f"the kernel's log cannot be read yet: {self._why}")
        self._said_why, self._instead = self._why, ""
        self._fail(self._why)

    def _failed(self, why: str) -> None:
        source = self._current
        assert source is not None
        source.stop()
        self._current = None
        self._whys[source.name] = why
        now_s = time.monotonic()
        if self._heard_at_s is not None and now_s - self._heard_at_s >= RETRY_S:
            self._log.warning(f"the kernel's log is not read for {_SOON_S:g} s: {why}", "kernel-log")
            self._begin_at_s = now_s + _SOON_S
        elif rest := self._sources[self._sources.index(source) + 1 :]:
            self._why = self._all_whys()  # until the next one has told something
            self._fail(self._why)
            self._begin(rest[0])
        else:
            self._nothing(now_s)

    def _nothing(self, now_s: float) -> None:
        """None of them can be read."""
        self._why = self._all_whys()
        if self._why != self._said_why:
            self._log.warning(f"the kernel's log cannot be read: {self._why}; tried again every {RETRY_S:g} s")
        self._said_why, self._instead = self._why, ""
        self._begin_at_s = now_s + RETRY_S
        self._fail(self._why)

    def _all_whys(self) -> str:
        return told({one.name: self._whys.get(one.name, "") for one in self._sources})
