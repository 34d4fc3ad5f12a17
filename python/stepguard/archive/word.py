# SPDX-License-Identifier: Apache-2.0
"""What the archiver says of itself, in SPOOL/archiver.json: for `stepguard agent`'s status, and for people.

It is written before each visit to the archive: an archive that hangs hangs the archiver too, and what was said last
then tells with what, and since when. Not synced, for it says nothing that matters after a power cut.

    state         idle, busy (with an attempt), waiting (the archive took nothing, tried again later),
                  stopped (it could not start: `last_error` says why)
    since_s       since when, in seconds since 1970
    with          the attempt, JOBID.ATTEMPT, when busy
    backlog       attempts in the spool that are complete and not in the archive
    set_aside     attempts that failed again and again while others did not: a fault of ours, tried on seldom
    last_success_s, last_error {time_s, since_s, what}    since_s: since when nothing has succeeded
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCHEMA = 1


class Word:
    """The file, replaced at every change. One that cannot be written is `untold` and otherwise nothing: records are
    more than what is said of them."""

    def __init__(self, path: Path, untold: Callable[[OSError], None]) -> None:
        self._path = path
        self._untold = untold
        self._is_written = False
        self._says: dict[str, Any] = {
            "schema": SCHEMA,
            "pid": os.getpid(),
            "state": "idle",
            "since_s": round(time.time(), 3),
            "with": "",
            "backlog": 0,
            "set_aside": [],
            "last_success_s": None,
            "last_error": None,
        }

    def state(self, state: str, key: str = "", **more: object) -> None:
        """What it does from now on."""
        says = {**self._says, "state": state, "with": key, **more}
        if says == self._says and self._is_written:
            return
        self._says = {**says, "since_s": round(time.time(), 3)}
        self._write()

    def succeeded(self) -> None:
        """An attempt went into the archive; written with the next state."""
        self._says.update(last_success_s=round(time.time(), 3), last_error=None)

    def failed(self, what: str) -> None:
        """The archive took nothing; written with the next state."""
        now_s = round(time.time(), 3)
        since_s = (self._says["last_error"] or {"since_s": now_s})["since_s"]
        self._says["last_error"] = {"time_s": now_s, "since_s": since_s, "what": what}

    def stopped(self, what: str) -> None:
        """It ends, for it cannot do its work."""
        self.failed(what)
        self.state("stopped")

    def _write(self) -> None:
        content = json.dumps(self._says).encode("ascii") + b"\n"
        temporary = self._path.with_name(f".{self._path.name}.new")
        try:
            try:
                temporary.write_bytes(content)
                temporary.rename(self._path)
            except OSError:
                with contextlib.suppress(OSError):
                    temporary.unlink()
                _overwrite(self._path, content)
        except OSError as error:
            self._is_written = False
            self._untold(error)
        else:
            self._is_written = True


def _overwrite(path: Path, content: bytes) -> None:
    """On a full disk what lies there can still be written over, in one piece. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)
