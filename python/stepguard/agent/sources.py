# SPDX-License-Identifier: Apache-2.0
"""Which files of a job belong into its record, from what its messages say: stdout, stderr, the journal of resumes.

All of it comes from users. Nothing here is opened; what is named is read with its owner's rights alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stepguard.agent.output_pattern import Names, default, path
from stepguard.records import journal_place, spool, wire
from stepguard.records.batch import environment_of

# TYPE of "DEV:INO:TYPE", as the batch task says it → `what` of the manifest.
_KINDS = {"reg": "regular", "fifo": "fifo", "chr": "device", "dir": "directory", "sock": "socket"}
_FROM_SLURMD = (
    "SLURM_CLUSTER_NAME",
    "SLURM_JOB_USER",
    "SLURM_JOB_WORK_DIR",
    "SLURM_JOB_STDOUT",
    "SLURM_JOB_STDERR",
)
_FROM_JOB = (
    "HOME",
    "XDG_STATE_HOME",
    "USER",
    "SLURM_CLUSTER_NAME",
    "SLURM_JOB_USER",
    "SLURM_JOB_NAME",
    "SLURM_SUBMIT_DIR",
)
_NO_ENVIRONMENT = "the spool had no room for the job's environment, which tells what in it is secret"


class Source(NamedTuple):
    """A file to read; `path` is "" where there is none to read, and `what` and `why` say it.

    `identity` is "DEV:INO" of what the batch task had open, "" where it did not tell. One that is not to be read
    (`is_read`) says `why`.
    """

    name: str
    path: str
    what: str = "regular"
    why: str = ""
    identity: str = ""
    is_read: bool = True


def sources(directory: Path) -> list[Source]:
    """Of an attempt whose messages are in this directory. Raises OSError."""
    told: dict[str, Mapping[str, bytes]] = {}
    for _, kind, file in spool.messages(directory):
        if kind in ("prolog", "batch", "output", "step_start"):
            try:
                # Of two the first: later ones may come from the user's own program.
                message = wire.decode(file.read_bytes())
                if kind != "step_start" or "home" in message or "xdg_state_home" in message:
                    told.setdefault(kind, message)
            except wire.MalformedMessage:
                continue  # the disk: the archiver says so
    prolog = wire.variables(told.get("prolog", {}).get("environment", b""), *_FROM_SLURMD)
    if "batch" not in told:  # a job without a script, or not its first node: its output is srun's
        return _journal(_of_step(told["step_start"]), prolog) if "step_start" in told else []
    job = wire.variables(environment_of(told["batch"]), *_FROM_JOB)
    found = _from_task(told["output"]) if "output" in told else _from_patterns(told["batch"], prolog, job)
    if "dropped" in told["batch"]:
        found = [one._replace(is_read=False, why=_NO_ENVIRONMENT) if one.path else one for one in found]
    return found + _journal({**job, "job_id": wire.text(told["batch"], "job_id")}, prolog)


def _of_step(start: Mapping[str, bytes]) -> dict[str, str]:
    """What a guarded step tells of its environment, by the names that the job's would have."""
    names = {"HOME": "home", "XDG_STATE_HOME": "xdg_state_home", "job_id": "job_id"}
    return {variable: wire.text(start, name) for variable, name in names.items()}


def _journal(job: Mapping[str, str], prolog: Mapping[str, str]) -> list[Source]:
    """That of the job's guarded steps, where a home is known."""
    cluster = prolog.get("SLURM_CLUSTER_NAME") or job.get("SLURM_CLUSTER_NAME", "")
    directory = journal_place.directory(job, cluster, job["job_id"])
    return [Source("resumes", str(directory / journal_place.NAME))] if directory else []


def _from_task(output: Mapping[str, bytes]) -> list[Source]:
    """What the batch task had open, which is the truth."""
    found = []
    for name in ("stdout", "stderr"):
        target = wire.text(output, name)
        device, _, rest = wire.text(output, f"{name}_id").partition(":")
        inode, _, kind = rest.partition(":")
        source = Source(name, target, _KINDS.get(kind, "other"), identity=f"{device}:{inode}" if inode else "")
        if not target:
            source = source._replace(path="", what="absent", why="the batch task did not say where it goes")
        elif source.what != "regular" or not target.startswith("/"):
            source = source._replace(path="", why=f"it went to {target}")
        elif target.startswith("/memfd:"):
            source = source._replace(path="", what="memory", why="it went to memory")
        found.append(source)
    stdout, stderr = found
    is_same = stderr.identity == stdout.identity if stdout.identity else stderr.path == stdout.path
    return [stdout] if is_same else found


def _from_patterns(batch: Mapping[str, bytes], prolog: Mapping[str, str], job: Mapping[str, str]) -> list[Source]:
    names = Names(
        job_id=wire.number(batch, "job_id") or 0,
        array_job_id=wire.number(batch, "array_job_id"),
        array_task_id=wire.number(batch, "array_task_id"),
        node=wire.text(batch, "node"),
        user=prolog.get("SLURM_JOB_USER") or job.get("SLURM_JOB_USER") or job.get("USER", ""),
        job_name=job.get("SLURM_JOB_NAME", ""),
        work_dir=prolog.get("SLURM_JOB_WORK_DIR") or job.get("SLURM_SUBMIT_DIR") or "/",
    )
    why = "the batch task did not say where it goes: this is from sbatch's pattern"
    stdout = Source("stdout", path(prolog.get("SLURM_JOB_STDOUT") or default(names), names), why=why)
    if not (pattern := prolog.get("SLURM_JOB_STDERR", "")):
        return [stdout]
    stderr = Source("stderr", path(pattern, names), why=why)
    return [stdout] if stderr.path == stdout.path else [stdout, stderr]
