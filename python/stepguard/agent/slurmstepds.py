# SPDX-License-Identifier: Apache-2.0
"""Which jobs have a slurmstepd on this node: asked of /proc, and only where nothing else tells whether a job runs.

A slurmstepd calls itself `slurmstepd: [JOBID.STEP]`, JOBID as in its messages, also for a task of an array and a part
of a het job (22.05, 24.11 and 26.05, held to by tests/live/test_record_faults.py).
"""

from __future__ import annotations

import re
import time
from pathlib import Path

_AGAIN_S = 60.0
_TITLE = re.compile(rb"slurmstepd: \[([0-9]{1,10})\.")
_PROGRAM = re.compile(rb"(?:[^\0 ]*/)?(slurmd|slurmstepd)\b")
_ROOT = re.compile(r"^Uid:\s+0\s", re.MULTILINE)


class Slurmstepds:
    """As they were at the last look, at most once a minute."""

    def __init__(self) -> None:
        self._looked_s = -_AGAIN_S
        self._jobs: frozenset[int] | None = None

    def look(self) -> None:
        """Before notes are taken in, where an end may be told that no slurmstepd shows any more."""
        if (now_s := time.monotonic()) - self._looked_s >= _AGAIN_S:
            self._looked_s = now_s
            self._jobs = jobs_with_one(Path("/proc"))

    def lives(self, job_id: int) -> bool:
        """Whether the job had one, or that could not be told."""
        return self._jobs is None or job_id in self._jobs


def jobs_with_one(proc: Path) -> frozenset[int] | None:
    """The jobs that have a slurmstepd on this node; None when that cannot be told: we see no slurmd, so may not see
    others either (it is down, or a mount option or a namespace hides it), or the title of one says no job.

    Processes of others than root do not count: anybody can call theirs so.
    """
    jobs: set[int] = set()
    sees_slurmd = False
    for directory in proc.glob("[1-9]*"):
        try:
            command = (directory / "cmdline").read_bytes()
            if not (program := _PROGRAM.match(command)) or not _ROOT.search((directory / "status").read_text()):
                continue
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except OSError:
            return None
        if program[1] == b"slurmd":
            sees_slurmd = True
        elif title := _TITLE.match(command):
            jobs.add(int(title[1]))
        else:
            return None
    return frozenset(jobs) if sees_slurmd else None
