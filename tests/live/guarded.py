# SPDX-License-Identifier: Apache-2.0
"""A guarded step in the lab, as a test starts it, waits for it and looks at what became of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.cluster import Cluster

RING = Path(__file__).with_name("programs") / "ring.py"
PLUGSTACK = "optional /opt/stepguard/lib/slurm/stepguard.so\n"


def until(what: str, holds: Callable[[], Any], within_s: float, every_s: float = 0.05) -> Any:
    """Waits until `holds` gives something true, and returns that."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        if value := holds():
            return value
        time.sleep(every_s)
    raise AssertionError(f"not within {within_s:g} s: {what}")


def await_task(lab: Cluster, node: str, command: str) -> None:
    """Waits until a task runs `command` on the node: the task itself, whose program srun found, not the srun."""
    until(
        f"{command} runs on {node}",
        lambda: any(line.endswith(f"/{command} ") for line in lab.processes(node).values()),
        60,
    )


@dataclass
class Job:
    """A job in the lab and the directory that its ring of ranks writes to."""

    lab: Cluster
    directory: Path
    id: str = ""
    user: str = "alice"
    config: str = ""

    def ring(self, steps: int, *more: str) -> str:
        """The command that a step runs."""
        return " ".join(["/usr/bin/python3", str(self.directory / "ring.py"), str(self.directory), str(steps), *more])

    def submit(self, body: str, *options: str) -> Job:
        """Submits a batch script of these lines."""
        script = self.directory / "job.sh"
        self.lab.write(self.directory / "stepguard.toml", self.config, user=self.user)
        head = f"#!/bin/bash\nexport STEPGUARD_CONFIG={self.directory}/stepguard.toml\n"
        self.lab.write(script, f"{head}{body}\n", user=self.user, mode=0o755)
        done = self.lab.run(
            ["sbatch", "--parsable", f"--output={self.directory}/out", *options, str(script)], user=self.user
        )
        self.id = done.stdout.strip()
        return self

    def submit_by_salloc(self, body: str, *options: str) -> Job:
        """Runs these lines in an allocation, on the login host."""
        script = self.directory / "job.sh"
        self.lab.write(self.directory / "stepguard.toml", self.config, user=self.user)
        head = f"export STEPGUARD_CONFIG={self.directory}/stepguard.toml\necho $SLURM_JOB_ID > {self.directory}/id\n"
        self.lab.write(script, f"{head}{body}\n", user=self.user)
        argv = ["salloc", "-Q", *options, "bash", "-c", f"exec bash {script} >{self.directory}/out 2>&1"]
        self.lab.start(argv, user=self.user)
        said = self.directory / "id"
        self.id = until("the allocation", lambda: said.exists() and said.read_text().strip(), 20)
        return self

    def out(self) -> str:
        """The job's output so far."""
        path = self.directory / "out"
        return path.read_text(errors="replace") if path.exists() else ""

    def progress(self) -> list[dict[str, Any]]:
        """The steps that all ranks have done, oldest first."""
        path = self.directory / "progress"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def ranks(self, attempt: int | str) -> list[dict[str, Any]]:
        """What each rank of an attempt saw, in the order of ranks."""
        paths = sorted(self.directory.glob(f"rank-{attempt}-*"), key=lambda path: int(path.name.rpartition("-")[2]))
        return [json.loads(path.read_text()) for path in paths]

    def await_steps(self, count: int, attempt: int = 0, within_s: float = 30) -> list[dict[str, Any]]:
        """Waits until an attempt has done `count` steps, and returns them."""

        def done() -> list[dict[str, Any]] | None:
            steps = [step for step in self.progress() if step["attempt"] == str(attempt)]
            return steps if len(steps) >= count else None

        try:
            return list(until(f"{count} steps of attempt {attempt}", done, within_s))
        except AssertionError as error:
            raise AssertionError(f"{error}\njob's output:\n{self.out()}") from None

    def state(self) -> str:
        """Slurm's word for the job now."""
        shown = self.lab.run(["scontrol", "-o", "show", "job", self.id], user="root").stdout
        return next(word.partition("=")[2] for word in shown.split() if word.startswith("JobState="))

    def await_state(self, *states: str, within_s: float = 60) -> str:
        """Waits until the job is in one of these states."""
        try:
            return str(until(f"job in {states}", lambda: (s := self.state()) in states and s, within_s, 0.2))
        except AssertionError as error:
            raise AssertionError(f"{error}, but {self.state()}\njob's output:\n{self.out()}") from None

    def await_end(self, within_s: float = 60) -> str:
        """Waits until the job has ended and returns its last state."""
        return self.await_state("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", within_s=within_s)

    def journal(self) -> list[dict[str, Any]]:
        """The journal of the job's guarded steps."""
        paths = (Path(self.lab.home(self.user)) / ".local/state/stepguard").glob(f"*/{self.id}/resumes.jsonl")
        return [json.loads(line) for path in paths for line in path.read_text().splitlines()]

    def nodes(self) -> str:
        """The job's node list now, as Slurm folds it."""
        shown = self.lab.run(["scontrol", "-o", "show", "job", self.id], user="root").stdout
        return next(word.partition("=")[2] for word in shown.split() if word.startswith("NodeList="))


def new_job(lab: Cluster, resume: str = "", user: str = "alice") -> Job:
    """A job that is not submitted yet, with its directory and program in the user's home.

    `resume` is what its configuration says under [resume].
    """
    directory = Path(lab.home(user)) / f"job-{time.monotonic_ns()}"
    lab.run(["mkdir", str(directory)], user=user)
    lab.write(directory / "ring.py", RING.read_text(), user=user, mode=0o755)
    return Job(lab, directory, user=user, config=f"[resume]\n{resume}\n")


def hosts_of(steps: Sequence[dict[str, Any]]) -> set[str]:
    """The hosts on which the ranks ran."""
    return {host for step in steps for host in step["hosts"]}
