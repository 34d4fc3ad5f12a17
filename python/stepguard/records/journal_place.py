# SPDX-License-Identifier: Apache-2.0
"""Where the journal of a job's guarded steps lies: the supervisor writes it, the agent has it read for the record.

Beside it lies the script that tells the job's nodes after a change, which spank/resized.c reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

NAME = "resumes.jsonl"


def resize_script(job_id: str) -> str:
    """The name that scontrol gives such a script too."""
    return f"slurm_job_{job_id}_resize.sh"


def directory(environment: Mapping[str, str], cluster: str, job_id: str) -> Path | None:
    """The directory of a job's journal, for the user whose environment this is; None where it names no home."""
    state, home = environment.get("XDG_STATE_HOME", ""), environment.get("HOME", "")
    if not state.startswith("/"):
        # Relative places are to be ignored (XDG Base Directory Specification), lest they are the user's directory.
        if not home.startswith("/"):
            return None
        state = f"{home}/.local/state"
    safe_cluster = re.sub(r"[^\w.-]", "_", cluster) or "cluster"
    return Path(state) / "stepguard" / safe_cluster.lstrip(".") / job_id
