# SPDX-License-Identifier: Apache-2.0
"""What the agent tells those who ask: its own state, and what this node knows of its hardware."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stepguard import __version__
from stepguard.agent.attempts import Attempt
from stepguard.faults import local_faults

SCHEMA = 1
# The code of the finding that the gate leaves in the record of a job that it refuses.
GATE = "gate"
# Findings that need no second opinion: a job must not start here.
_DEFINITE = ("replace", "reboot")


def document(values: Mapping[str, Any]) -> bytes:
    """One JSON document."""
    return json.dumps({"schema": SCHEMA, "version": __version__, **values}).encode()


def job(attempt: Attempt) -> dict[str, Any]:
    """An open attempt, for its owner and for root."""
    return {
        "job_id": attempt.key.job_id,
        "attempt": attempt.key.attempt,
        "uid": attempt.uid,
        "steps": sorted(attempt.open_steps),
        "is_ending": attempt.has_epilog or attempt.closed,
    }


def jobs_of(uid: int, attempts: Sequence[Attempt]) -> bytes:
    """For a user: their own jobs here."""
    return document({"attempts": [job(attempt) for attempt in attempts if attempt.uid == uid]})


def verdict(job_id: int, fault_file: Path) -> bytes:
    """For the owner of a job: what may be wrong with this node's hardware."""
    findings = [{"source": source, "action": action, "text": text} for source, action, text in local_faults(fault_file)]
    return document({"job_id": job_id, "findings": findings})


def gate(fault_file: Path) -> str:
    """Why no job may start on this node; "" when one may."""
    return next((f"{action}: {text}" for _, action, text in local_faults(fault_file) if action in _DEFINITE), "")
