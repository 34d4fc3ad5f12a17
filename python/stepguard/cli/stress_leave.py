# SPDX-License-Identifier: Apache-2.0
"""Whether a node may be loaded by somebody who asks for it: not by everybody, and not where jobs run."""

from __future__ import annotations

import os
from pathlib import Path

from stepguard.config import Config
from stepguard.errors import StepguardError, UsageError
from stepguard.records.asking import ask
from stepguard.slurm import connect

_WHERE = "--stress"
_BUSY = frozenset({"ALLOCATED", "MIXED", "COMPLETING"})


def check_leave(settings: Config, force: bool) -> None:
    """Raises UsageError for who is not root, and without `force` where a job runs on this node or nobody can tell."""
    if os.geteuid() != 0:
        raise UsageError("only root may load a node", _WHERE, "it takes all of it from whoever computes there")
    if force:
        return
    jobs = _jobs_of_agent(Path(settings.agent.socket))
    if jobs:
        raise UsageError(f"jobs run on this node: {', '.join(jobs)}", _WHERE, "drain it, or say --force")
    states, why = _states(settings)
    if states & _BUSY:
        raise UsageError(f"this node is {'+'.join(sorted(states))}", _WHERE, "drain it, or say --force")
    if jobs is None and not states:
        raise UsageError(f"whether jobs run on this node cannot be told: {why}", _WHERE, "with --force it is loaded")


def _jobs_of_agent(socket: Path) -> list[str] | None:
    """The jobs that the node's agent knows; None where it does not tell."""
    answer = ask(socket, "status")
    if isinstance(answer, str):
        return None
    try:
        return [str(one["job_id"]) for one in answer["attempts"] if not one["is_ending"]]
    except (KeyError, TypeError):
        return None


def _states(settings: Config) -> tuple[frozenset[str], str]:
    """The states in which slurmctld has this node, or none and why."""
    name = os.environ.get("SLURMD_NODENAME") or os.uname().nodename.partition(".")[0]
    try:
        return connect(settings.slurm).nodes([name])[0].states, ""
    except StepguardError as error:
        return frozenset(), str(error)
