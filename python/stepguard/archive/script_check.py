# SPDX-License-Identifier: Apache-2.0
"""What there is to say about a job's script, as it stands in the record, found by a process of its own.

The script is whatever its owner wrote, and its reader is large (scripts/). So `stepguard read-script` reads it, as
nobody and within bounds of time and memory: neither a crash nor an endless script nor a hole in a parser is the
archiver's, which loads no grammar. Most scripts are not read at all: only those that speak of auto-resume, and those of
jobs that were resumed. An array's tasks share one reading.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import select
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from stepguard.errors import reason
from stepguard.process import in_memory, own_command, spawn
from stepguard.records.manifest import SCHEMA, Manifest, Missing, ScriptFinding
from stepguard.records.shape import MalformedRecord, built, document

FINDINGS_MAX = 100
_MENTION = re.compile(rb"auto[-_]resume")
# Python starts slowly where all processors are busy; read-script itself stops after less time of a processor.
_LIMIT_S = 10.0
# Who has a script that cannot be read may have a thousand, and all records wait meanwhile.
_PAUSE_S = 600.0
_REMEMBERED_MAX = 64
_ANSWER_MAX_BYTES = 1 << 20
_TEXT_MAX_CHARS = 1000


class _Checked(NamedTuple):
    """The findings, and why these are not all."""

    findings: tuple[ScriptFinding, ...]
    lacks: str = ""


class _NotReadError(Exception):
    """The script could not be read; says why."""


class ScriptCheck:
    """`tell` writes a line for the journal; `reader` is the command that reads a script."""

    def __init__(
        self, tell: Callable[[str], None], reader: tuple[str, ...] | None = None, limit_s: float = _LIMIT_S
    ) -> None:
        self._tell = tell
        self._reader = reader or (*own_command(), "read-script")
        self._limit_s = limit_s
        self._remembered: dict[bytes, _Checked] = {}
        self._paused_until_s: dict[int, float] = {}

    def add_findings(self, manifest: Manifest, script: bytes | None) -> None:
        """Adds to a manifest what there is to say about its script, which is redacted already."""
        if script is None or not (manifest.resumes or _MENTION.search(script)):
            return
        checked = self._checked(script, manifest.uid or 0, f"{manifest.job_id}.{manifest.attempt}")
        manifest.script_findings = [dataclasses.replace(one) for one in checked.findings]
        if checked.lacks:
            manifest.missing.append(Missing("findings of the script", checked.lacks))

    def _checked(self, script: bytes, uid: int, key: str) -> _Checked:
        digest = hashlib.sha256(script).digest()
        if known := self._remembered.get(digest):
            return known
        now_s = time.monotonic()
        if now_s < self._paused_until_s.get(uid, 0.0):
            return _Checked((), "it was not read, for one before it, of the same user, could not be read")
        try:
            checked = _findings(self._answer(script))
        except Exception as error:  # noqa: BLE001  whatever it is, the record is whole without
            why = reason(error) if isinstance(error, OSError) else str(error) or repr(error)
            self._paused_until_s[uid] = time.monotonic() + _PAUSE_S
            self._tell(f"the script of job {key} is not checked, and none of uid {uid} for {_PAUSE_S:g} s: {why}")
            return _Checked((), f"it could not be read: {why}")
        if len(self._remembered) >= _REMEMBERED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[digest] = checked
        return checked

    def _answer(self, script: bytes) -> bytes:
        """What the reader says. Raises _NotReadError, ProcessError and OSError."""
        devnull = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        asked = answer = -1
        try:
            asked, answer = in_memory(script), in_memory(b"")
            child = spawn(self._reader, env={}, stdin=asked, stdout=answer, stderr=devnull, new_session=True)
            in_time = select.select([child.pidfd], [], [], self._limit_s)[0]
            child.send_signal(signal.SIGKILL)
            status = child.reap()
            if not in_time:
                raise _NotReadError(f"that takes longer than {self._limit_s:g} s")
            if status < 0:
                raise _NotReadError(f"its reader was ended: {signal.strsignal(-status) or -status}")
            if status:
                raise _NotReadError(f"its reader ended with status {status}")
            return os.pread(answer, _ANSWER_MAX_BYTES, 0)
        finally:
            for descriptor in (devnull, asked, answer):
                if descriptor >= 0:
                    os.close(descriptor)


def _findings(answer: bytes) -> _Checked:
    """Raises MalformedRecord for what is no answer: the reader may have been made to say anything."""
    told = document(answer, SCHEMA)
    findings, left_out = told.get("findings"), told.get("left_out")
    if not isinstance(findings, list) or type(left_out) is not int:
        raise MalformedRecord("no findings in it")
    kept = tuple(built(ScriptFinding, one) for one in findings[:FINDINGS_MAX])
    if any(len(value) > _TEXT_MAX_CHARS for one in kept for value in vars(one).values() if isinstance(value, str)):
        raise MalformedRecord("a text of a finding that is too long")
    return _Checked(kept, f"{left_out} more are left out" if left_out else "")
