# SPDX-License-Identifier: Apache-2.0
"""The job's own environment in the message `batch`: the whole of it, or, where the spool had no room for that, `facts`,
the few variables that a manifest is made of and that tell where the job's files are."""

from __future__ import annotations

from collections.abc import Mapping

from stepguard.records import wire

FACTS = (
    "SLURM_JOB_NAME",
    "SLURM_JOB_USER",
    "SLURM_JOB_ACCOUNT",
    "SLURM_JOB_PARTITION",
    "SLURM_JOB_QOS",
    "SLURM_JOB_RESERVATION",
    "SLURM_JOB_CONSTRAINTS",
    "SLURM_JOB_COMMENT",
    "SLURM_JOB_WORK_DIR",
    "SLURM_JOB_GPUS",
    "SLURM_JOB_NODELIST",
    "SLURM_CLUSTER_NAME",
    "SLURM_SUBMIT_DIR",
    "SLURM_SUBMIT_HOST",
    "USER",
    "HOME",
    "XDG_STATE_HOME",
)
# A longer value is left out: half a list of nodes names other nodes. Slurm takes 1 KiB of a name.
_VALUE_MAX_BYTES = 4096
_CONTENT = ("script", "environment")
_ENVIRONMENT_MAX_BYTES = 1 << 20  # CAPTURE_ENVIRONMENT_MAX in spank/capture.h


def without_content(fields: Mapping[str, bytes]) -> dict[str, bytes]:
    """The message `batch` without script and environment, `dropped` says so."""
    there = [name for name in _CONTENT if name in fields]
    left = {name: value for name, value in fields.items() if name not in there}
    told = wire.variables(fields.get("environment", b""), *FACTS)
    words = [f"{name}={value}".encode(errors="surrogateescape") for name, value in told.items()]
    facts = b"".join(word + b"\0" for word in words if len(word) <= _VALUE_MAX_BYTES)
    return {**left, "facts": facts, "dropped": " ".join(there).encode()}


def environment_of(fields: Mapping[str, bytes]) -> bytes:
    """What is known of the job's environment, as NAME=VALUE words."""
    return fields.get("environment", fields.get("facts", b""))


def is_cut(fields: Mapping[str, bytes]) -> bool:
    """Whether the plugin left variables out of the job's environment, of which `environment_size` has all."""
    return (wire.number(fields, "environment_size") or 0) > _ENVIRONMENT_MAX_BYTES
