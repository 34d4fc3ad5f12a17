# SPDX-License-Identifier: Apache-2.0
"""The spool and the socket while an agent runs: what is removed under it is made anew.

A lock keeps others out by its name: one that was removed does so no more. So an agent that finds its lock gone takes
the new one, as it took the first; where another agent was quicker, it ends. Two may live side by side until it looks
again, a second later, and then only where the socket was removed too, for an agent does not start where one answers.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from stepguard.agent import place
from stepguard.agent.log import Log
from stepguard.agent.place import AnotherAgentError
from stepguard.agent.server import Server
from stepguard.errors import StepguardError
from stepguard.records.spool import SpoolLayout


class Spool:
    """Held from its making to the end of the process. Making it raises StepguardError."""

    def __init__(self, layout: SpoolLayout) -> None:
        self._layout = layout
        place.make_spool(layout)
        self._lock = place.lock_spool(layout)

    def mend(self) -> list[Path]:
        """Makes anew what was removed; returns that. Raises StepguardError, AnotherAgentError among them."""
        removed = [path for path in (self._layout.notes, self._layout.jobs) if not _is_there(path)]
        if not self._has_lock():
            removed.insert(0, self._layout.lock)
        if removed:
            place.make_spool(self._layout)
        if self._layout.lock in removed:
            lock = place.lock_spool(self._layout)
            os.close(self._lock)
            self._lock = lock
        return removed

    def _has_lock(self) -> bool:
        try:
            return os.path.samestat(self._layout.lock.lstat(), os.fstat(self._lock))
        except OSError:
            return False


class Socket:
    """Listens at its path. Making it raises StepguardError."""

    def __init__(self, path: Path) -> None:
        self.listener = place.listen(path)
        self._path = path
        self._own = path.lstat()

    def mend(self) -> bool:
        """Listens at its path again where it does so no more; whether that was so. Whoever has connected to the old
        `listener` is still waiting there. Raises StepguardError, AnotherAgentError among them."""
        if self._is_own():
            return False
        self.listener = place.listen(self._path)
        self._own = self._path.lstat()
        return True

    def remove(self) -> None:
        """Takes it away, if it is still ours."""
        if self._is_own():
            self._path.unlink(missing_ok=True)

    def _is_own(self) -> bool:
        try:
            return os.path.samestat(self._path.lstat(), self._own)
        except OSError:
            return False


class Holding:
    """Both, looked at with each tick. `renewed` is called when something in the spool was made anew."""

    def __init__(self, spool: Spool, socket: Socket, server: Server, log: Log, renewed: Callable[[list[Path]], None]):
        self._spool = spool
        self._socket = socket
        self._server = server
        self._log = log
        self._renewed = renewed
        # What keeps them from being made anew, for those who ask.
        self.trouble = ""

    def look(self) -> None:
        """Raises AnotherAgentError, which ends this one."""
        troubles = []
        for mend in (self._mend_spool, self._mend_socket):
            try:
                mend()
            except AnotherAgentError:
                raise
            except (StepguardError, OSError) as error:
                troubles.append(str(error))
                self._log.error(f"{error}: it is tried again", mend.__name__)
        self.trouble = "; ".join(troubles)

    def _mend_spool(self) -> None:
        if removed := self._spool.mend():
            self._renewed(removed)

    def _mend_socket(self) -> None:
        if self._socket.mend():
            self._server.listen_at(self._socket.listener)
            self._log.warning("its socket was removed: it listens again at the same path")


def _is_there(directory: Path) -> bool:
    try:
        return stat.S_ISDIR(directory.lstat().st_mode)
    except FileNotFoundError:
        return False
