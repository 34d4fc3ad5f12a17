# SPDX-License-Identifier: Apache-2.0
"""What the agent has to know of a message that it keeps; the rest is for the archive alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stepguard.records import wire
from stepguard.records.wire import MalformedMessage

# Kinds that belong to a job, and are kept. Three are the agent's own. `closed`: nothing more will come, and why.
# `looked`: a snapshot of the node's devices at the beginning; `job_health`: what became of them by the end.
BEGINNINGS = frozenset({"prolog", "batch", "step_start"})
JOB_KINDS = BEGINNINGS | {"epilog", "output", "step_end", "finding"}
CLOSED, LOOKED, HEALTH = "closed", "looked", "job_health"
ASKING_KINDS = frozenset({"status", "verdict", "health"})
_VARIABLES = ("SLURM_JOB_ID", "SLURM_JOB_UID", "SLURM_JOB_GID", "SLURM_JOB_RESTART_COUNT", "SLURM_RESTART_COUNT")
_JOB_ID_MAX = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Message:
    """`restarts` is the restart count that it names, None where it names none; slurmd's own in a prolog and an epilog,
    elsewhere from the job's environment, which may be inherited from the job that submitted it."""

    kind: str
    job_id: int = 0
    step_id: str = ""
    uid: int | None = None
    gid: int | None = None
    restarts: int | None = None
    node: str = ""
    boot_id: str = ""
    boottime_ns: int = 0
    time_ns: int = 0

    @property
    def identity(self) -> int:
        """The same for two copies: a sender that got no answer in time leaves a note of what was taken all the same."""
        return hash((self.kind, self.job_id, self.step_id, self.uid, self.boot_id, self.boottime_ns, self.time_ns))


def read(fields: Mapping[str, bytes]) -> Message:
    """Raises MalformedMessage when a message about a job does not name it."""
    kind = wire.text(fields, "kind")
    environment: dict[str, str] = {}
    if kind in ("prolog", "epilog", "batch"):
        environment = wire.variables(fields.get("environment", b""), *_VARIABLES)
    job_id = wire.number(fields, "job_id")
    if job_id is None and kind in ("prolog", "epilog"):
        job_id = _number(environment, "SLURM_JOB_ID")
    if job_id is None or not 0 < job_id <= _JOB_ID_MAX:
        if kind in JOB_KINDS or kind in (CLOSED, LOOKED, HEALTH, "verdict"):
            raise MalformedMessage("it names no job")
        job_id = 0
    by_slurmd = kind in ("prolog", "epilog")
    return Message(
        kind,
        job_id,
        wire.text(fields, "step_id"),
        wire.number(fields, "uid", _number(environment, "SLURM_JOB_UID") if by_slurmd else None),
        wire.number(fields, "gid", _number(environment, "SLURM_JOB_GID") if by_slurmd else None),
        _restarts(fields, environment),
        wire.text(fields, "node"),
        wire.text(fields, "boot_id"),
        wire.number(fields, "boottime_ns", 0) or 0,
        wire.number(fields, "time_ns", 0) or 0,
    )


def _restarts(fields: Mapping[str, bytes], environment: Mapping[str, str]) -> int | None:
    said = wire.number(fields, "restart_count")
    for name in ("SLURM_JOB_RESTART_COUNT", "SLURM_RESTART_COUNT"):
        said = _number(environment, name) if said is None else said
    return said if said is not None and 0 <= said <= _JOB_ID_MAX else None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None
