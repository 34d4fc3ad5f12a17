# SPDX-License-Identifier: Apache-2.0
"""The protocol over Slurm's own commands: one process a question."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stepguard.errors import ProcessError, SlurmRefused, SlurmUnreachable
from stepguard.process import Completed, Running, start
from stepguard.slurm import text
from stepguard.slurm.hostlist import fold
from stepguard.slurm.records import ClusterConfig, Job, Node, Share, Step

# What the client library says when no slurmctld answers (slurm_errno.c, 22.05 to 26.05), in lower case.
_UNREACHABLE = (
    *("unable to contact slurm controller", "unable to establish", "could not establish a configuration source"),
    *("connection refused", "connection failure", "socket timed out", "zero bytes were transmitted", "not responding"),
)
# A step or job that is not there any more need not be ended.
_GONE = ("invalid job id", "already completing or completed", "not found")
_SHOW_JOB = ("scontrol", "--details", "show", "job")
_KEPT = ("PATH", "HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What Slurm's commands get of `environment`: the way to the cluster, and nothing that shapes their output.

    SLURM_JOB_ID and SLURM_JOBID stay out: with them `scontrol update` writes slurm_job_N_resize.sh into its directory.
    """
    kept = {name: environment[name] for name in _KEPT if name in environment}
    return {**kept, "LC_ALL": "C", "TZ": "UTC"}


class Commands:
    """SlurmClient over scontrol, scancel, squeue and sacct."""

    def __init__(
        self, timeout_s: float = 30.0, output: str = "text", environment: Mapping[str, str] | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._json = output == "json"
        self._environment = command_environment(os.environ if environment is None else environment)
        self._addresses: dict[str, str] = {}

    def job(self, job_id: str) -> Job:
        with self.asked_job(job_id) as answer:
            return answer()

    @contextmanager
    def asked_job(self, job_id: str) -> Iterator[Callable[[], Job]]:
        if self._json:
            yield lambda: self._noted(self._job_by_json(job_id))
            return
        with self._start(*_SHOW_JOB, job_id) as asked:
            yield lambda: self._noted(self._job_by_text(job_id, asked))

    def _noted(self, found: Job) -> Job:
        if found.array_task_id.isdigit():
            self._addresses[found.id] = f"{found.array_job_id}_{found.array_task_id}"
        elif not found.array_task_id and not found.het_job_id:
            self._addresses[found.id] = found.id
        return found

    def _job_by_text(self, job_id: str, asked: Running) -> Job:
        try:
            return text.job(self._checked(_completed(asked)), time.time())
        except text.Ambiguous:
            pass  # one id for a whole array or a het job, or texts that imitate Slurm's
        try:
            return text.job(self._ask(*_SHOW_JOB, self._address(job_id)), time.time())
        except text.Ambiguous as error:
            what = f"the job's own texts imitate Slurm's output ({error})"
            raise SlurmRefused(what, f"job {job_id}", "rename it, or set [slurm] output = json") from error

    def _job_by_json(self, job_id: str) -> Job:
        from stepguard.slurm import json_form

        query = ("scontrol", "show", "job", job_id)
        document = self._ask_json(query, ("squeue", "--states=all", f"--jobs={job_id}"))
        found = json_form.job(document, job_id, time.time())
        if found is None:
            raise SlurmRefused("Invalid job id specified", f"job {job_id}")
        return found

    def _address(self, job_id: str) -> str:
        """How to name this one job: the id of an array's last task (of a het job's first part) names all of them."""
        if job_id not in self._addresses:
            query = ("--noheader", "--array", "--states=all", f"--jobs={job_id}", "--format=%A %i")
            try:
                rows = [row.split() for row in self._ask("squeue", *query).splitlines()]
            except SlurmRefused:
                return job_id  # purged; whatever is asked of it says so
            mine = [row[1] for row in rows if len(row) == 2 and row[0] == job_id]
            if len(mine) != 1:
                return job_id  # an array that waits as a whole has one id
            self._addresses[job_id] = mine[0]
        return self._addresses[job_id]

    def nodes(self, names: Iterable[str]) -> list[Node]:
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return []
        query = ("scontrol", "show", "node", fold(wanted))
        if self._json:
            from stepguard.slurm import json_form

            shown = json_form.nodes(self._ask_json(query, ("sinfo",)))
        else:
            # An unknown name makes scontrol fail, but it prints the others.
            done = self._run(*query)
            shown = text.nodes(done.stdout if "not found" in done.stdout else self._checked(done))
        found = {node.name: node for node in shown}
        for name in wanted:
            if name not in found:
                raise SlurmRefused("no such node", name, "see scontrol show node")
        return [found[name] for name in wanted]

    def all_nodes(self) -> list[Node]:
        query = ("scontrol", "--all", "show", "node")
        if self._json:
            from stepguard.slurm import json_form

            return json_form.nodes(self._ask_json(query, ("sinfo", "--all")))
        return text.nodes(self._ask(*query))

    def shares(self, job_id: str) -> list[Share]:
        # Always as text: 22.05 has no JSON that says it.
        shown = self._ask(*_SHOW_JOB, self._address(job_id))
        try:
            return text.shares(shown)
        except text.Ambiguous as error:
            what = f"the job's own texts imitate Slurm's output ({error})"
            raise SlurmRefused(what, f"job {job_id}", "change its name or comment by `scontrol update`") from error

    def steps(self, job_id: str) -> list[Step]:
        done = self._run("scontrol", "show", "step", job_id)
        if _is_gone(done):
            return []
        steps = text.steps(self._checked(done))
        if any(step.job_id != job_id for step in steps):
            address = self._address(job_id)
            steps = [step for step in steps if step.job_id == address]
        return [step._replace(job_id=job_id) for step in steps]

    def step_accounting(self, job_id: str, step_id: str) -> str | None:
        query = ("--noheader", "--parsable2", "--duplicates", "--format=State")
        try:
            states = self._ask("sacct", *query, f"--jobs={self._address(job_id)}.{step_id}").splitlines()
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

    def update_nodes(
        self, names: Iterable[str], state: str = "", reason: str | None = None, comment: str | None = None
    ) -> None:
        wanted = list(dict.fromkeys(names))
        said = {"State": state or None, "Reason": reason, "Comment": comment}
        changes = [f"{key}={value}" for key, value in said.items() if value is not None]
        if wanted and changes:
            self._ask("scontrol", "update", f"NodeName={fold(wanted)}", *changes)

    def cancel_step(self, job_id: str, step_id: str, signal: str | None = None) -> None:
        self._cancel(*([] if signal is None else [f"--signal={signal}"]), f"{self._address(job_id)}.{step_id}")

    def cancel_job(self, job_id: str) -> None:
        self._cancel(self._address(job_id))

    def jobs_named(self, name: str, user: str) -> list[str]:
        listed = self._ask("squeue", "--noheader", f"--user={user}", f"--name={name}", "--format=%A")
        return sorted(set(listed.split()), key=int)

    def requeue(self, job_id: str) -> None:
        # Without "Incomplete" a job that has ended meanwhile would run once more.
        self._ask("scontrol", "requeue", "Incomplete", self._address(job_id))

    def _update(self, job_id: str, change: str) -> None:
        self._ask("scontrol", "update", f"JobId={self._address(job_id)}", change)

    def _cancel(self, *arguments: str) -> None:
        done = self._run("scancel", *arguments)
        if not _is_gone(done):
            self._checked(done)

    def _ask(self, *argv: str) -> str:
        return self._checked(self._run(*argv))

    def _ask_json(self, query: tuple[str, ...], before_23_02: tuple[str, ...]) -> dict[str, Any]:
        """Asks with --json; scontrol takes that from 23.02 on."""
        import json

        done = self._run(*query, "--json")
        if done.status != 0 and "unrecognized option" in done.stderr:
            done = self._run(*before_23_02, "--json")
        try:
            document = json.loads(self._checked(done))
        except ValueError as error:
            advice = "are Slurm's JSON plugins installed? [slurm] output = text needs none"
            raise SlurmRefused("no JSON in the answer", " ".join(done.argv), advice) from error
        if not isinstance(document, dict):
            raise SlurmRefused("no JSON object in the answer", " ".join(done.argv), "[slurm] output = text needs none")
        return document

    def _run(self, *argv: str) -> Completed:
        with self._start(*argv) as running:
            return _completed(running)

    def _start(self, *argv: str) -> Running:
        try:
            # Away from the user's directory, which may be gone.
            return start(argv, timeout_s=self._timeout_s, env=self._environment, cwd="/")
        except ProcessError as error:
            raise _unreachable(error, argv) from error

    def _checked(self, done: Completed) -> str:
        if done.status == 0:
            return done.stdout
        said = " ".join((done.stderr.strip() or done.stdout.strip() or f"status {done.status}").split())
        command = " ".join(done.argv)
        if any(words in said.lower() for words in _UNREACHABLE):
            raise SlurmUnreachable(f"no answer from slurmctld ({said})", command, "see `scontrol ping`")
        raise SlurmRefused(said.rpartition("error: ")[2], command)


def _completed(running: Running) -> Completed:
    try:
        return running.completed()
    except ProcessError as error:
        raise _unreachable(error, running.argv) from error


def _unreachable(error: ProcessError, argv: tuple[str, ...]) -> SlurmUnreachable:
    return SlurmUnreachable(error.what, " ".join(argv), error.advice)


def _is_gone(done: Completed) -> bool:
    said = (done.stderr + done.stdout).lower()
    return done.status != 0 and any(words in said for words in _GONE)
