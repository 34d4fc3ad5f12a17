# SPDX-License-Identifier: Apache-2.0
"""Every decision about a job's guarded steps, with its evidence and its seconds, one JSON object a line.

It lies in the owner's state directory ($XDG_STATE_HOME/stepguard/CLUSTER/JOBID/resumes.jsonl), which a cluster
shares between its hosts: it must outlive the host that the supervisor ran on, for after a requeue the attempt
numbers go on from it.
"""

from __future__ import annotations

import json
import os
import pwd
import stat
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stepguard.records import journal_place

SCHEMA = 1
# What is beyond this in a journal is not read; attempts are bounded, so it is not ours.
_MAX_SIZE_BYTES = 16 << 20
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC


def directory(environment: Mapping[str, str], cluster: str, job_id: str) -> Path:
    """Where the journal of a job lies, for the user whose environment this is."""
    place = journal_place.directory(environment, cluster, job_id)
    if place is None:
        home = {"HOME": pwd.getpwuid(os.getuid()).pw_dir}
        place = journal_place.directory({**environment, **home}, cluster, job_id)
    assert place is not None
    return place


def step_key(words: Sequence[str]) -> str:
    """Names a guarded step of a job by its command line, which is the same again after a requeue."""
    return f"{zlib.crc32(chr(0).join(words).encode(errors='surrogateescape')):08x}"


def _check_regular(descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError("not a regular file")


class Journal:
    """Appends to one job's journal. One that cannot be written is told once, by `tell`, and never ends a step."""

    def __init__(self, path: Path, key: str, restart_count: int, tell: Callable[[str], None] | None = None) -> None:
        self.path = path
        self.key = key
        self._tell = tell
        self._common = {"schema": SCHEMA, "step_key": key, "restart_count": restart_count}

    def write(self, event: str, **fields: Any) -> None:
        """Appends one event and makes it durable."""
        record = {"time": round(time.time(), 3), "event": event, **self._common, **fields}
        line = json.dumps(record, separators=(",", ":")) + "\n"
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.path, _APPEND, 0o600)
            try:
                _check_regular(descriptor)
                os.write(descriptor, line.encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            if self._tell is not None:
                self._tell(f"the journal cannot be written: {error}")
                self._tell = None

    def records(self) -> list[dict[str, Any]]:
        """What was written before, oldest first; lines that are damaged are left out."""
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                _check_regular(descriptor)
                lines = file.read(_MAX_SIZE_BYTES).splitlines()
        except OSError:
            return []
        records = []
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # the last line of a host that lost its power
            if isinstance(record, dict) and record.get("schema") == SCHEMA:
                records.append(record)
        return records

    def earlier_attempts(self) -> int:
        """How many attempts of this step earlier runs of the job made, 0 when the last of them had ended well."""
        attempts = 0
        for record in self.records():
            if record.get("step_key") != self._common["step_key"]:
                continue
            if record.get("restart_count", 0) >= self._common["restart_count"]:
                continue
            if record["event"] == "start":
                attempts = max(attempts, int(record.get("attempt", 0)) + 1)
            elif record["event"] == "end" and record.get("status") == 0:
                attempts = 0
        return attempts
