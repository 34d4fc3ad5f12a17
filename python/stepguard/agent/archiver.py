# SPDX-License-Identifier: Apache-2.0
"""Keeps `stepguard archiver` running: it alone touches the archive, whose file system may hang at any time."""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from pathlib import Path

from stepguard.agent.log import Log
from stepguard.errors import ConfigError, ProcessError
from stepguard.process import Child, own_command, spawn

_BACKOFF_MIN_S, _BACKOFF_MAX_S = 1.0, 60.0
# One that has lived this long has worked: the next start comes soon again.
_WELL_S = 60.0
_WORD_MAX_BYTES = 1 << 16


class Archiver:
    """The child. It gets neither our lock nor our socket: all of our descriptors are closed by exec."""

    def __init__(self, config_path: Path | None, selector: selectors.BaseSelector, log: Log) -> None:
        self._environment = dict(os.environ)
        self._environment.pop("NOTIFY_SOCKET", None)
        if config_path is not None:
            self._environment["STEPGUARD_CONFIG"] = str(config_path)
        self._selector = selector
        self._log = log
        self._child: Child | None = None
        self._started_s = 0.0
        self._start_at_s = 0.0
        self._backoff_s = _BACKOFF_MIN_S
        self._is_renewed = False

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def look(self) -> None:
        """Starts it where it is time."""
        now_s = time.monotonic()
        if self._child is not None or now_s < self._start_at_s:
            return
        devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            # It is told who started it: that may have ended before it can look. Its output is the same journal as
            # ours; a session of its own keeps a terminal's Ctrl-C from it.
            argv = [*own_command(), "archiver", str(os.getpid())]
            self._child = spawn(argv, env=self._environment, stdin=devnull, stdout=2, new_session=True)
        except ProcessError as error:
            self._log.error(f"cannot start the archiver: {error}", "archiver")
            self._later(now_s)
            return
        finally:
            os.close(devnull)
        self._started_s = now_s
        self._selector.register(self._child.pidfd, selectors.EVENT_READ, self._ended)

    def renew(self) -> None:
        """Has a new one started, which looks at the spool with fresh eyes: what it says and remembers there is gone."""
        if self._child is not None:
            self._child.send_signal(signal.SIGKILL)
            self._is_renewed = True

    def stop(self) -> None:
        """Kills it, and does not wait: it may hang in the archive's file system. All that it does it can do again."""
        if self._child is not None:
            self._selector.unregister(self._child.pidfd)
            self._child.send_signal(signal.SIGKILL)
            self._child.poll()
            self._child = None

    def _ended(self, _events: int) -> None:
        assert self._child is not None
        self._selector.unregister(self._child.pidfd)
        status = self._child.poll()
        self._child = None
        now_s = time.monotonic()
        if now_s - self._started_s >= _WELL_S:
            self._backoff_s = _BACKOFF_MIN_S
        if self._is_renewed:
            self._is_renewed = False
            return
        why = "its configuration is wrong, see `stepguard agent --check`; " if status == ConfigError.exit_status else ""
        self._log.error(f"the archiver ended with status {status}; {why}it is started again", "archiver")
        self._later(now_s)

    def _later(self, now_s: float) -> None:
        self._start_at_s = now_s + self._backoff_s
        self._backoff_s = min(2 * self._backoff_s, _BACKOFF_MAX_S)


def word(path: Path) -> object:
    """What the archiver says of itself, as JSON; None where it has said nothing yet."""
    try:
        with path.open("rb") as file:
            return json.loads(file.read(_WORD_MAX_BYTES))
    except (OSError, ValueError):
        return None
