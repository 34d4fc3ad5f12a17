# SPDX-License-Identifier: Apache-2.0
"""The job's nodes after a change of the job, for the user to source and for the plugin to read (spank/resized.h).

`scontrol update job`, run by the user in the job, leaves slurm_job_ID_resize.sh in its directory. The supervisor's own
changes leave the same lines (those of 22.05 to 26.05) in a file of that name beside the journal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from stepguard.records.journal_place import resize_script
from stepguard.slurm.hostlist import fold
from stepguard.slurm.records import Job

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MODE = 0o700  # scontrol's


class ResizeScript:
    """The file in the journal's directory, for `job` as it is now. Trouble with it is told once, by `tell`, and never
    ends a step."""

    def __init__(self, directory: Path, job: Job, tell: Callable[[str], None]) -> None:
        self._path = directory / resize_script(job.id)
        self._nodes = job.nodes
        self._tell: Callable[[str], None] | None = tell
        if job.restart_count:
            self._guarded(lambda: self._path.unlink(missing_ok=True))  # of an earlier run, on other nodes

    def follow(self, job: Job) -> None:
        """Writes the file if the job's nodes have changed."""
        if job.nodes and job.nodes != self._nodes:
            self._nodes = job.nodes
            self._guarded(lambda: self._write(content(job.nodes, job.cpus_per_node)))

    def _write(self, text: str) -> None:
        """Whoever reads meanwhile gets the old file or the new one."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._path.with_name(f".{self._path.name}.{os.uname().nodename}.{os.getpid()}")
        new.unlink(missing_ok=True)
        try:
            with os.fdopen(os.open(new, _CREATE, _MODE), "w") as file:
                file.write(text)
            new.rename(self._path)
        except OSError:
            new.unlink(missing_ok=True)
            raise

    def _guarded(self, change: Callable[[], None]) -> None:
        try:
            change()
        except OSError as error:
            if self._tell is not None:
                self._tell(f"the job's new nodes cannot be written: {error}")
                self._tell = None


def content(nodes: Sequence[str], cpus_per_node: str) -> str:
    """What scontrol writes (_update_job_size in its update_job.c) in an environment that has all of these variables.

    `cpus_per_node` as in Job: "" where Slurm did not say.
    """
    folded, number = fold(nodes), len(nodes)
    lines = [
        f'export SLURM_NODELIST="{folded}"',
        f'export SLURM_JOB_NODELIST="{folded}"',
        f"export SLURM_NNODES={number}",
        f"export SLURM_JOB_NUM_NODES={number}",
        *([f'export SLURM_JOB_CPUS_PER_NODE="{cpus_per_node}"'] if cpus_per_node else []),
        "unset SLURM_NPROCS",
        "unset SLURM_NTASKS",
        "unset SLURM_TASKS_PER_NODE",
    ]
    return "".join(f"{line}\n" for line in lines)
