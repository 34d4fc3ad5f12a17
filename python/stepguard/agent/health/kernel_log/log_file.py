# SPDX-License-Identifier: Apache-2.0
"""A file of a syslog daemon's with the kernel's lines, followed over its rotations.

From the place where it is left off (file_place) all is read that is newer, up to the file itself. What was compressed
meanwhile is lost, which is said.

A file that was renamed may be written to until the daemon opens a new one: it is left once something stands there. So
the place is always in a file that was read, and what has come since is looked for at the last moment: a file may be
copied and cut off twice between two looks.

A file may be of all programs, or of the kernel and never written to: nothing is well before a first line of the
kernel's. What tells is the tag, which a program may take too, so these lines are trusted only where the administrator
says so. log_times says which are new.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stepguard.agent.health.kernel_log.file_place import (
    BATCH_BYTES,
    START,
    Place,
    beginning,
    beside,
    check_kind,
    head,
    opened,
)
from stepguard.agent.health.kernel_log.log_times import Times
from stepguard.agent.health.kernel_log.source import Line, Listener, boottime_s
from stepguard.errors import reason

# No selector can wait for a file; a look costs 10 us.
POLL_S = 1.0
_NONE_YET = "it has no line of the kernel's yet"


class LogFile:
    """A Source. A cursor of another boot tells the place all the same."""

    lost = 0  # nobody knows how many

    def __init__(self, path: str, listener: Listener, cursor: Mapping[str, Any], is_trusted: bool) -> None:
        self.name = path
        self._listener = listener
        self._is_trusted = is_trusted
        self._place = Place.of(cursor)
        # What was written last before that is what has been read.
        self._written_ns = int(cursor.get("written_ns", 0))
        # Where lines begin that are kept back until it is known of which boot they are.
        self._held_from: Place | None = None
        self._has_kernels = bool(cursor.get("has_kernels", False))
        self._times = Times(cursor, cursor.get("boot_id") == listener.boot_id)
        self._descriptor = -1
        self._is_live = self._has_heard = self._was_found = False
        self.garbage = 0
        self._due_s = float("inf")

    @property
    def due_s(self) -> float:
        return self._due_s

    def cursor(self) -> dict[str, Any]:
        place = self._held_from or self._place
        more = {"written_ns": self._written_ns, "has_kernels": self._has_kernels}
        return {**place.cursor(), **more, **self._times.cursor()}

    def document(self) -> dict[str, Any]:
        return {"is_trusted": self._is_trusted}

    def begin(self) -> None:
        self._is_live = self._has_heard = False
        try:
            try_it(self.name)
            if self._has_kernels:
                self._heard()
            self._due_s = 0.0
            if self._place == START or not self._is_found():
                self._first()
            self._read()
        except OSError as error:
            self._listener.failed(reason(error))

    def turn(self) -> None:
        if time.monotonic() < self._due_s:
            return
        try:
            self._read()
        except OSError as error:
            self._listener.failed(reason(error))

    def stop(self) -> None:
        self._due_s = float("inf")
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # -- where it stands --

    def _is_found(self) -> bool:
        """Opens the file that holds the place; where none does, it says so. Raises OSError."""
        self._is_live = False
        if self._newer() is not None:
            self._times.go_on()
            return True
        return self._is_found_edited() or self._is_gone()

    def _is_gone(self) -> bool:
        what = f"the place where {self.name} was left is in no file: lines may be lost"
        self._listener.log.warning(what, "kernel-log-place")
        return False

    def _is_found_edited(self) -> bool:
        """Opens the newest file that holds a line of the last ones. Raises OSError."""
        for path in (Path(self.name), *reversed(self._written_since())):
            descriptor = opened(path)
            place = self._place.found_in(descriptor)
            if place is None:
                os.close(descriptor)
                continue
            what = f"{self.name} was written anew, and is read on behind the last line that was read: others may be"
            self._listener.log.warning(f"{what} lost", "kernel-log-place")
            self._hold(descriptor)
            self._place, self._is_live = place, False
            self._times.go_on()
            return True
        return False

    def _written_since(self) -> list[Path]:
        """The older files of this boot that have not been read, the oldest first. Raises OSError."""
        booted_ns = (time.time() - boottime_s()) * 1e9
        return [path for path in beside(self.name) if path.stat().st_mtime_ns > max(booted_ns, self._written_ns)]

    def _newer(self) -> list[Path] | None:
        """Opens the newest file that holds the place; those with more that have come since, the oldest first. None
        where no file holds it. Raises OSError."""
        files = [*beside(self.name), Path(self.name)]
        for index in reversed(range(len(files))):
            try:
                descriptor = opened(files[index])
            except FileNotFoundError:
                continue  # it was renamed, and is not there anew yet
            if self._place.is_in(descriptor):
                self._hold(descriptor)
                newer = files[index + 1 :]
                if len(newer) > 1:
                    # Somebody's copy of what has been read is newer than that, and nothing new.
                    known = {*map(head, files[: index + 1])} - {b""}
                    newer = [path for path in newer[:-1] if head(path) not in known] + newer[-1:]
                return newer
            os.close(descriptor)
        return None

    def _first(self) -> None:
        """Begins with what is of this boot. Raises OSError."""
        self._times.begin_anew()
        if not self._goes_on([*self._written_since(), Path(self.name)], is_first=True):
            self._hold(opened(self.name))
            self._place = START  # what will come is new

    def _goes_on(self, paths: list[Path], is_first: bool = False) -> bool:
        """Whether there is something in one of these files; it is read from there. Raises OSError."""
        for path in paths:
            descriptor = opened(path)
            place = beginning(descriptor, is_first)
            content = place.read(descriptor) or b""
            is_whole = path != paths[-1] and len(content) < BATCH_BYTES
            behind, lines = place.taken(content, is_whole)
            if behind != place:
                self._hold(descriptor)
                self._is_live = False
                self._take(place, behind, lines)
                return True
            os.close(descriptor)
        return False

    def _hold(self, descriptor: int) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor

    def _is_left(self) -> bool:
        """Whether the daemon writes somewhere else by now. Raises OSError."""
        try:
            there = os.stat(self.name)  # noqa: PTH116 - the path may be anything
        except FileNotFoundError:
            return False  # it was renamed, and is not there anew yet
        if os.path.samestat(there, os.fstat(self._descriptor)):
            return False
        check_kind(there)
        return there.st_size > 0

    # -- what it says --

    def _read(self) -> None:
        """Reads a batch, or finds out that there is none. Raises OSError."""
        is_left = self._is_left()
        place = beginning(self._descriptor) if self._place == START else self._place
        content = place.read(self._descriptor)
        if content is None:
            self._again()
            return
        self._was_found = False
        self._take(place, *place.taken(content, is_whole=False))
        if self._descriptor < 0:
            return
        if len(content) < BATCH_BYTES and not self._moves_on(is_left):
            if self._descriptor >= 0:
                self._has_read_all()
        else:
            self._due_s = 0.0

    def _again(self) -> None:
        """It was cut off, or written anew. Raises OSError."""
        if not self._is_found():
            self._first()
        # Once at once, as it may be cut off again soon.
        self._due_s = time.monotonic() + POLL_S if self._was_found else 0.0
        self._was_found = True

    def _moves_on(self, is_left: bool) -> bool:
        """Whether there is a newer file with something in it. Raises OSError."""
        if self._is_live and not is_left:
            return False
        if self._place == START:
            if is_left:
                self._take_rest(beginning(self._descriptor))
                if self._place == START and self._descriptor >= 0:
                    self._hold(opened(self.name))
            return is_left
        newer = self._newer()
        if newer is None:
            return is_left and self._moves_on_from_nowhere()
        if not newer or not (is_left or len(newer) > 1):
            return False
        self._take_rest(self._place)
        return self._descriptor >= 0 and self._goes_on(newer)

    def _moves_on_from_nowhere(self) -> bool:
        """The file that has been read to its end is there no more. Raises OSError."""
        if self._is_found_edited():
            return True
        if not self._is_live:  # nor may those be that came between
            self._is_gone()
            self._first()
            return True
        self._take_rest(self._place)
        self._times.begin_anew()
        return self._descriptor >= 0 and self._goes_on([Path(self.name)])

    def _take_rest(self, place: Place) -> None:
        """A last line without an end is one: nothing comes behind it. Raises OSError."""
        if (rest := place.read(self._descriptor)) and len(rest) < BATCH_BYTES:
            self._take(place, *place.taken(rest, is_whole=True))

    def _has_read_all(self) -> None:
        self._is_live = True
        self._times.settle()
        if passed := self._times.passed:
            self._times.passed = 0
            what = f"{passed} lines of {self.name} are from before the last one that was read, and were passed over"
            self._listener.log.warning(f"{what}: some may be lost", "kernel-log-passed")
        self._due_s = time.monotonic() + POLL_S
        if not self._has_heard:
            self._listener.failed(_NONE_YET)

    def _take(self, place: Place, behind: Place, lines: bytes) -> None:
        """Goes on behind these lines."""
        if behind == place:
            return
        self._place = behind
        self._written_ns = os.fstat(self._descriptor).st_mtime_ns
        self.garbage += behind.is_cutting and not place.is_cutting
        if told := list(self._lines(lines)) if lines else []:
            self._listener.take(told)
        self._held_from = (self._held_from or place) if self._times.holds else None

    def _lines(self, content: bytes) -> Iterator[Line]:
        from stepguard.agent.health.kernel_log.syslog import said  # patterns, once there is something to read

        now_s, wall_s = boottime_s(), time.time()
        for raw in content.split(b"\n"):
            if (one := said(raw, wall_s)) is None:
                continue
            self._has_kernels = True
            self._heard()
            for at_s, new in self._times.told(one, self._is_live, now_s, now_s - wall_s):
                yield Line(at_s, new.text, new.level, self._is_trusted)

    def _heard(self) -> None:
        if not self._has_heard:
            self._has_heard = True
            self._listener.heard()


def try_it(path: str) -> None:
    """Raises OSError where it cannot be read, as far as that can be told beforehand."""
    os.close(opened(path))
