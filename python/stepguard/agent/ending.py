# SPDX-License-Identifier: Apache-2.0
"""The end of an attempt on this node: what its output files hold is added to the spool, then it is marked complete."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from stepguard.agent.attempts import Attempt
from stepguard.agent.log import Log
from stepguard.agent.reading import JOURNAL_BYTES, Owner, Read, Reading, not_read
from stepguard.agent.sources import Source, sources
from stepguard.agent.storing import Job, Storing
from stepguard.agent.usage import Usage
from stepguard.records.spool import COMPLETE, SpoolLayout

_FULL = "the spool is nearly full"
_AGAIN_S = 10.0


@dataclass
class _End:
    """One attempt that ends; `left` are the sources that are not in the spool yet."""

    attempt: Attempt
    directory: Path
    left: set[str] = field(default_factory=set)


class Ending:
    """`ended` is called with each attempt that is complete; `sizes` are the bytes of head and tail that are kept."""

    def __init__(
        self,
        layout: SpoolLayout,
        storing: Storing,
        usage: Usage,
        reading: Reading,
        sizes: tuple[int, int],
        log: Log,
        ended: Callable[[Attempt, float], None],
    ) -> None:
        self._layout = layout
        self._storing = storing
        self._usage = usage
        self._reading = reading
        self._sizes = sizes
        self._log = log
        self._ended = ended

    def finish(self, attempt: Attempt) -> None:
        """Ends an attempt that is over."""
        attempt.is_finishing = True
        end = _End(attempt, self._layout.attempt(attempt.key))
        try:
            found = [s for s in sources(end.directory) if not (end.directory / f"{s.name}.meta").exists()]
        except OSError as error:
            self._log.error(f"the output of job {attempt.key} is not kept: {error}", "sources")
            found = []
        end.left = {source.name for source in found}
        for source in found:
            self._read(end, source)
        if not found:
            self._mark(end)

    def _read(self, end: _End, source: Source) -> None:
        attempt = end.attempt
        if not source.path or not source.is_read:
            self._keep(end, source, not_read(source, source.why))
        elif not self._usage.takes_output():
            self._keep(end, source, not_read(source, _FULL))
        elif attempt.uid is None or attempt.gid is None:
            self._keep(end, source, not_read(source, "nobody said whose job it is"))
        else:
            sizes = (0, JOURNAL_BYTES) if source.name == "resumes" else self._sizes
            owner = Owner(attempt.uid, attempt.gid)
            self._reading.read(source, owner, sizes, lambda read: self._keep(end, source, read))

    def _keep(self, end: _End, source: Source, read: Read) -> None:
        if source.name == "resumes" and read.meta["what"] == "absent":
            self._done(end, source)  # no step of it was guarded
        elif read.raw is None:
            self._keep_meta(end, source, read)
        elif not self._usage.takes_output(len(read.raw)):
            self._keep_meta(end, source, not_read(source, _FULL))
        else:
            self._store(end, f"{source.name}.raw", read.raw, lambda error: self._raw_kept(end, source, read, error))

    def _raw_kept(self, end: _End, source: Source, read: Read, error: OSError | None) -> None:
        self._keep_meta(end, source, not_read(source, f"spool: {error.strerror}") if error else read)

    def _keep_meta(self, end: _End, source: Source, read: Read) -> None:
        content = json.dumps(read.meta, separators=(",", ":")).encode()
        self._store(end, f"{source.name}.meta", content, lambda _error: self._done(end, source))

    def _store(self, end: _End, name: str, content: bytes, then: Callable[[OSError | None], None]) -> None:
        def stored(error: OSError | None) -> None:
            self._usage.settle(end.attempt.key, job.size_bytes, error is None)
            if error is not None:
                self._log.error(f"{name} of job {end.attempt.key} is not kept: {error.strerror}", "store output")
            then(error)

        job = Job(end.directory, name, content, stored, is_vital=not name.endswith(".raw"))
        self._usage.reserve(job.size_bytes)
        self._storing.put(job)

    def _done(self, end: _End, source: Source) -> None:
        end.left.discard(source.name)
        if not end.left:
            self._mark(end)

    def _mark(self, end: _End) -> None:
        marked_s = time.monotonic()

        def marked(error: OSError | None) -> None:
            end.attempt.is_finishing = False
            if error is None or isinstance(error, FileNotFoundError):  # nothing of it is there: a full disk, or removed
                self._ended(end.attempt, marked_s)
            else:
                end.attempt.not_before_s = time.monotonic() + _AGAIN_S
                self._log.error(f"cannot mark job {end.attempt.key} complete: {error.strerror}", "mark")

        self._storing.put(Job(end.directory, COMPLETE, b"", marked, makes_directory=False, is_new=True))
