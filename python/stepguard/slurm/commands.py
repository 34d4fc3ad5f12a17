# SPDX-License-Identifier: Apache-2.0
"""The protocol over Slurm's own commands: one process a question."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from stepguard.errors import ProcessError, SlurmRefused, SlurmUnreachable
from stepguard.process import Completed, run
from stepguard.slurm import text
from stepguard.slurm.hostlist import fold
from stepguard.slurm.records import ClusterConfig, Job, Node, Step

# What the client library says when no slurmctld answers (slurm_errno.c, 22.05 to 26.05).
_UNREACHABLE = re.compile(
    r"unable to contact slurm controller|connection refused|socket timed out|zero bytes were transmitted"
    r"|unable to establish|could not establish a configuration source|communications? connection failure"
    r"|controller .*not responding|slurmctld .*not responding",
    re.IGNORECASE,
)
# A step or job that is not there any more need not be ended.
_GONE = re.compile(r"invalid job id|already completing or completed|job step .*not found", re.IGNORECASE)
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What Slurm's commands get of `environment`: the way to the cluster, and nothing that shapes their output.

    SLURM_JOB_ID and SLURM_JOBID stay out: with them `scontrol update` writes slurm_job_N_resize.sh into its directory.
    """
    kept = {name: environment[name] for name in _KEPT if name in environment}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


class Commands:
    """SlurmClient over scontrol, scancel, squeue and sacct."""

    def __init__(self, timeout_s: float = 30.0, environment: Mapping[str, str] | None = None) -> None:
        self._timeout_s = timeout_s
        self._environment = command_environment(os.environ if environment is None else environment)

    def job(self, job_id: str) -> Job:
        shown = self._ask("scontrol", "--details", "show", "job", job_id)
        try:
            return text.job(shown, time.time())
        except text.Ambiguous:
            return self._job_among_others(job_id)

    def _job_among_others(self, job_id: str) -> Job:
        """The job where its id names a whole array too: asked again by array and task."""
        shown = self._ask("squeue", "--noheader", "--array", "--states=all", f"--jobs={job_id}", "--format=%A %i")
        exact = dict(line.split() for line in shown.splitlines() if len(line.split()) == 2)
        try:
            return text.job(self._ask("scontrol", "--details", "show", "job", exact.get(job_id, job_id)), time.time())
        except text.Ambiguous as error:
            raise SlurmRefused(
                "cannot tell Slurm's words from the job's own texts", f"job {job_id}: {error}", "rename the job"
            ) from error

    def nodes(self, names: Iterable[str]) -> list[Node]:
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return []
        # An unknown name makes scontrol fail, but it prints the others first.
        done = self._run("scontrol", "show", "node", fold(wanted))
        found = {node.name: node for node in text.nodes(done.stdout)}
        for name in wanted:
            if name not in found:
                self._checked(replace(done, stdout=f"no node {name} here"))
        return [found[name] for name in wanted]

    def steps(self, job_id: str) -> list[Step]:
        done = self._run("scontrol", "show", "step", job_id)
        if done.status != 0 and _GONE.search(done.stderr + done.stdout):
            return []
        return text.steps(self._checked(done))

    def step_accounting(self, job_id: str, step_id: str) -> str | None:
        query = ("--noheader", "--parsable2", "--duplicates", f"--jobs={job_id}.{step_id}", "--format=State")
        try:
            states = self._ask("sacct", *query).splitlines()
        except (SlurmRefused, SlurmUnreachable):
            return None
        return states[-1].split()[0] if states and states[-1].split() else None

    def config(self) -> ClusterConfig:
        return text.config(self._ask("scontrol", "show", "config"))

    def controller_answers(self) -> bool:
        try:
            return " is UP" in self._run("scontrol", "ping").stdout
        except SlurmUnreachable:
            return False

    def keep_nodes(self, job_id: str, nodes: Iterable[str]) -> None:
        self._update(job_id, f"NodeList={fold(nodes)}")

    def merge_into(self, helper_id: str) -> None:
        self._update(helper_id, "NumNodes=0")

    def exclude_nodes(self, job_id: str, nodes: Iterable[str]) -> None:
        self._update(job_id, f"ExcNodeList={fold(nodes)}")

    def cancel_step(self, job_id: str, step_id: str, signal: str | None = None) -> None:
        self._cancel(*([] if signal is None else [f"--signal={signal}"]), f"{job_id}.{step_id}")

    def cancel_job(self, job_id: str) -> None:
        self._cancel(job_id)

    def jobs_named(self, name: str, user: str) -> list[str]:
        listed = self._ask("squeue", "--noheader", f"--user={user}", f"--name={name}", "--format=%A")
        return sorted(set(listed.split()), key=int)

    def requeue(self, job_id: str, expedite: bool = False) -> None:
        self._ask("scontrol", "requeue", *(["expedite"] if expedite else []), job_id)

    def _update(self, job_id: str, change: str) -> None:
        self._ask("scontrol", "update", f"JobId={job_id}", change)

    def _cancel(self, *arguments: str) -> None:
        done = self._run("scancel", *arguments)
        if done.status != 0 and not _GONE.search(done.stderr):
            self._checked(done)

    def _ask(self, *argv: str) -> str:
        return self._checked(self._run(*argv))

    def _run(self, *argv: str) -> Completed:
        try:
            # Away from the user's directory, which may be gone.
            return run(argv, timeout_s=self._timeout_s, env=self._environment, cwd=Path("/"))
        except ProcessError as error:
            raise SlurmUnreachable(error.what, " ".join(argv), error.advice) from error

    def _checked(self, done: Completed) -> str:
        if done.status == 0:
            return done.stdout
        said = " ".join((done.stderr.strip() or done.stdout.strip() or f"status {done.status}").split())
        said = said.removeprefix(f"{done.argv[0]}: error: ")
        command = " ".join(done.argv)
        if _UNREACHABLE.search(said):
            raise SlurmUnreachable(f"no answer from slurmctld ({said})", command)
        raise SlurmRefused(said, command)
