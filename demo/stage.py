# SPDX-License-Identifier: Apache-2.0
"""What a story plays on: a lab, a job in it, and one loop that shows all that happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from demo.job import Job
from demo.screen import Screen
from demo.states import States
from demo.training import Training
from lab import Cluster

_TURN_S = 0.02
_ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


class StoryError(Exception):
    """The story did not go as it is told: what should have been, and what was."""


class Stage:
    """The job runs; a story waits on it, breaks things, and checks."""

    def __init__(self, lab: Cluster, screen: Screen, job: Job) -> None:
        self.lab = lab
        self.screen = screen
        self.job = job
        self.states = States(lab)
        self.training = Training()
        self.output: list[str] = []
        self.fault_at = 0.0
        """The Unix time just before the fault."""
        self.saved_at_fault = 0
        """The step of the last checkpoint then."""

    def look(self) -> None:
        """Shows what is new."""
        now = time.time()
        for line in self.job.new_lines():
            self.output.append(line)
            self.training.hear(line, now)
            self.screen.say("job", line)
        for change in self.states.changes():
            self.screen.say("slurm", change)

    def until(self, what: str, holds: Callable[[], bool], within_s: float) -> None:
        """Shows what happens until `holds()`. Raises StoryError when it does not in time, or the job ends before."""
        end_s = time.monotonic() + within_s
        while True:
            ended = self.states.job in _ENDED
            self.look()
            if holds():
                return
            if ended:
                raise StoryError(f"the job is {self.states.job} before this: {what}")
            if time.monotonic() > end_s:
                raise StoryError(f"not within {within_s:g} s: {what}")
            time.sleep(_TURN_S)

    def until_ended(self, state: str, within_s: float = 60) -> None:
        """Shows what happens until the job has ended. Raises StoryError when it ends in another state."""
        self.until("the job ends", lambda: self.states.job in _ENDED, within_s)
        self.look()
        self.check(self.states.job == state, f"the job ends {state}", self.states.job)

    def look_on(self, seconds: float) -> None:
        """Shows what happens for so long."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.look()
            time.sleep(_TURN_S)

    @contextmanager
    def fault(self, text: str) -> Iterator[None]:
        """Tells of the fault that the body makes, and remembers when."""
        self.look()
        self.screen.say("fault", text)
        self.saved_at_fault = self.training.checkpoint
        self.fault_at = time.time()
        yield

    def nodes(self, attempt: int) -> list[str]:
        """The nodes that an attempt trains on."""
        folded = self.training.attempts[attempt].nodes
        return self.lab.run(["scontrol", "show", "hostnames", folded]).stdout.split()

    def check(self, holds: bool, expected: str, found: object) -> None:
        """Raises StoryError when something is not as the story has it."""
        if not holds:
            raise StoryError(f"expected: {expected}; found: {found}")
