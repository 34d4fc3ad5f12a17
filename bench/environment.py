# SPDX-License-Identifier: Apache-2.0
"""Where it was measured, for figures of different machines must not be compared."""

from __future__ import annotations

import os
import platform
import time
from typing import Any

from bench.site import REPOSITORY
from lab import LabError
from lab.processes import run_here
from lab.releases import Release


def describe() -> dict[str, Any]:
    """The machine, its load at this moment, the Slurm that the labs run, and the commit."""
    return {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "slurm": Release.find(None).version,
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load_1_min": os.getloadavg()[0],
        "python": platform.python_version(),
        "commit": _commit(),
    }


def line(facts: dict[str, Any]) -> str:
    """The same in a line."""
    return (
        f"Slurm {facts['slurm']}, {facts['cores']} cores, kernel {facts['kernel']}, {facts['architecture']}, "
        f"load {facts['load_1_min']:.1f} at the start, commit {facts['commit'] or 'unknown'}"
    )


def _commit() -> str | None:
    """The commit of the tree, with + where the tree has more; None outside of a repository."""
    git = ["git", "-C", str(REPOSITORY)]
    try:
        commit = run_here([*git, "rev-parse", "--short", "HEAD"]).stdout.strip()
        return commit + ("+" if run_here([*git, "status", "--porcelain"]).stdout else "")
    except LabError:
        return None
