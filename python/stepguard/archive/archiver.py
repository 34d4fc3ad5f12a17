# SPDX-License-Identifier: Apache-2.0
"""The process that brings records from the spool into the archive, and alone touches the archive's file system.

Nothing is lost while the archive is missing, full, read-only or hung: what is not in it, synced, stays in the spool.
Nor is anything lost by a SIGKILL at any instant: all that it does it can do again. So it handles no signal.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from stepguard.archive import lone_epilog, record, spooled
from stepguard.archive.due import SET_ASIDE_TRIES, Due, Seen
from stepguard.archive.local_cluster import UNKNOWN, Names
from stepguard.archive.node_state import Outgoing
from stepguard.archive.preparation import directory_fault
from stepguard.archive.script_check import ScriptCheck
from stepguard.archive.spooled import Spooled
from stepguard.archive.word import Word
from stepguard.errors import reason
from stepguard.escaping import visible
from stepguard.records.shape import MalformedRecord
from stepguard.records.spool import AttemptKey, SpoolLayout, forget

if TYPE_CHECKING:
    from stepguard.archive.ownership import Ownership
    from stepguard.archive.redaction import Redactor

_LOOK_S = 1.0
_BACKOFF_MIN_S, _BACKOFF_MAX_S = 1.0, 300.0
# Where a node's state cannot be written, and records can.
_STATE_AGAIN_S = 300.0
# Of the archive as a whole, and not of one record.
_ARCHIVE_ERRORS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EIO,
    errno.ESTALE,
    errno.ENOTCONN,
    errno.ETIMEDOUT,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENODEV,
    errno.ENFILE,
    errno.EMFILE,
    errno.ENOMEM,
}


class _TakesNothingError(Exception):
    """The archive takes no record at all now; says why."""


class Archiver:
    """`tell` writes a line for the journal."""

    def __init__(
        self, layout: SpoolLayout, archive: Path, redactor: Redactor, ownership: Ownership, tell: Callable[[str], None]
    ) -> None:
        self._archive = archive
        self._redactor = redactor
        self._ownership = ownership
        self._tell = tell
        self._script_check = ScriptCheck(tell)
        self._due = Due(layout)
        self._word = Word(layout.archiver_word, self._not_in_spool)
        self._names = Names(layout.root / "here.json")
        self._node_state = Outgoing(layout.node_state)
        self._node_state_at_s = 0.0
        self._backoff_s = 0.0
        self._retry_at_s = 0.0
        self._spool_troubles: set[str] = set()

    def run(self, parent: int) -> None:
        """Goes on until the process that started it, `parent`, is gone, for there is a new archiver then."""
        self._word.state("busy")
        if trouble := directory_fault(self._archive)[0]:
            self._tell(trouble)
        while os.getppid() == parent:
            begun_s = time.monotonic()
            if begun_s >= self._retry_at_s:
                try:
                    self._round(begun_s)
                except OSError as error:
                    self._not_in_spool(error)
            time.sleep(max(_LOOK_S - (time.monotonic() - begun_s), 0.0))

    def _round(self, begun_s: float) -> None:
        """Archives what is due, for as long as it is time to look again. Raises OSError for the spool."""
        if begun_s >= self._node_state_at_s and not self._told_of_node(begun_s):
            self._word.state("waiting", backlog=self._due.backlog)
            return
        due = self._due.look()
        backlog = self._due.backlog
        for key, seen in due:
            self._word.state("busy", str(key), backlog=backlog)
            backlog -= seen.is_complete
            if not self._archived(key, seen):
                self._word.state("waiting", backlog=self._due.backlog)
                return
            if time.monotonic() - begun_s >= _LOOK_S:
                return
        self._word.state("idle", backlog=self._due.backlog, set_aside=self._due.set_aside)

    def _archived(self, key: AttemptKey, seen: Seen) -> bool:
        """Archives one attempt; False when the archive is to be left alone for a while."""
        try:
            spool = spooled.read(seen.directory)
            if (spool.messages or spool.damaged) and not self._write(key, spool):
                return True
            if spool.is_complete:
                self._due.done(key, forget(seen.directory, spool.names))
            else:
                self._due.done(key, not spool.names and _is_removed(seen.directory))
        except _TakesNothingError as error:
            return self._wait(str(error))
        except Exception as error:  # noqa: BLE001  one bad record must not keep back all others
            return self._set_back(key, error)
        self._taken()
        return True

    def _told_of_node(self, begun_s: float) -> bool:
        """Archives what the agent tells of the node; False when the archive is to be left alone for a while."""
        if (cluster := self._names.here.cluster) == UNKNOWN:
            return True
        try:
            if (one := self._node_state.pending()) is not None:
                self._word.state("busy", "node.json", backlog=self._due.backlog)
                self._node_state.store(one, self._archive, cluster, self._ownership)
                self._taken()
        except MalformedRecord as error:
            self._tell(f"what is told of this node is left out: node.json in the spool: {error}")
        except OSError as error:
            if self._is_archives(error):
                return self._wait(reason(error))
            self._node_state_at_s = begun_s + _STATE_AGAIN_S
            self._tell(f"what is told of this node is not in the archive, tried again later: {reason(error)}")
        return True

    def _taken(self) -> None:
        if self._backoff_s:
            self._tell(f"the archive {self._archive} takes records again")
        self._backoff_s = 0.0
        self._word.succeeded()

    def _write(self, key: AttemptKey, spool: Spooled) -> bool:
        """False where nothing tells yet whose record it belongs to."""
        prepared = self._prepared(key, spool)
        if prepared.tells_names:
            try:
                self._names.told(prepared.folded.node.node, prepared.folded.cluster)
            except OSError as error:
                self._not_in_spool(error)
        try:
            if (candidates := lone_epilog.candidates(key, spool)) is not None:
                whose = lone_epilog.ended(candidates, prepared.folded, self._archive, self._ownership)
                if whose is None and self._due.wait(key) < lone_epilog.PATIENCE_S:
                    return False
                prepared = self._prepared(whose or candidates.before, spool)
            record.write(prepared, self._archive, self._ownership, self._tell)
        except OSError as error:
            if self._is_archives(error):
                raise _TakesNothingError(reason(error)) from error
            raise
        return True

    def _prepared(self, key: AttemptKey, spool: Spooled) -> record.Prepared:
        return record.prepare(key, spool, self._redactor, self._names.here, self._script_check)

    def _is_archives(self, error: OSError) -> bool:
        if isinstance(error, FileNotFoundError):
            return not self._archive.is_dir()
        if isinstance(error, PermissionError) and not os.access(self._archive, os.W_OK | os.X_OK):
            return True  # over NFS without no_root_squash
        return error.errno in _ARCHIVE_ERRORS or error.filename == str(self._archive)

    def _not_in_spool(self, error: OSError) -> None:
        """What we cannot write for ourselves (the disk is full) keeps no record back; each trouble is told once."""
        what = reason(error)
        if what not in self._spool_troubles:
            self._spool_troubles.add(what)
            self._tell(f"the spool is in trouble, and records are archived all the same: {what}")

    def _set_back(self, key: AttemptKey, error: Exception) -> bool:
        if self._due.failed(key) == SET_ASIDE_TRIES:
            what = reason(error) if isinstance(error, OSError) else repr(error)
            trace = "".join(traceback.format_exception(error))
            self._tell(f"job {key} cannot be archived, and is set aside: {what}\n{trace}")
        return True

    def _wait(self, what: str) -> bool:
        if not self._backoff_s:
            self._tell(f"the archive {self._archive} takes nothing: {what}; the records stay in the spool")
        self._backoff_s = min(max(2 * self._backoff_s, _BACKOFF_MIN_S), _BACKOFF_MAX_S)
        self._retry_at_s = time.monotonic() + self._backoff_s
        self._word.failed(what)
        return False


def _is_removed(directory: Path) -> bool:
    """Removes what an archiver that was killed has emptied; whether it could, for the agent may be writing to it."""
    try:
        directory.rmdir()
    except OSError:
        return False
    return True


def hold(layout: SpoolLayout) -> int:
    """Waits until no other archiver works on this spool: an old one may hang in the archive for hours.

    The lock is held while the returned descriptor is open. It is the spool's own directory: a file for it could not be
    made on a full disk. Raises OSError.
    """
    descriptor = os.open(layout.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def say(text: str) -> None:
    """A message on stderr, which is the agent's journal, with the level that journald takes (sd-daemon(3))."""
    for line in filter(None, text.split("\n")):
        print(f"<4>stepguard archiver: {visible(line)}", file=sys.stderr, flush=True)
