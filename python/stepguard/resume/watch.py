# SPDX-License-Identifier: Apache-2.0
"""The watch on one node: a task of the `srun --overlap` step beside a guarded step.

It answers each ping of the supervisor with what may be wrong with this node, by its fault file and its agent, and
tells what is new unasked. When the pings stop it finds out which side is cut off. Cut off itself, it waits, and when it
is back and the job has gone on without this node it ends the step's old tasks here. When the batch host is gone, taking
the supervisor with it, it has the job requeued.

A ping is a line `ping SEQ STEP QUESTION`: STEP is the guarded step (`-` while that is not known). The question is
`count` (how many of its processes are here), `tasks` (what Slurm told one of them of its place) or `-`. An answer is
one JSON object a line: {"node", "seq", "plugin", "told": [stepguard.resume.told…], "agent", "offences", "processes",
"task"}. End of input ends the watch, and a helper job with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stepguard.faults import local_faults
from stepguard.resume.agent_verdict import WORTH_WAITING_S, AgentVerdict
from stepguard.resume.orders import Orders
from stepguard.resume.places import SIGN_OF_LIFE_NAME
from stepguard.resume.told import Told, told_of_file

if TYPE_CHECKING:
    from stepguard.resume.orphaned import Orphaned

_FAULT_POLL_S = 0.2
# The agent is asked with each ping, and this often where those are rare.
_ASK_AGENT_S = 1.0
# What the agent says of the fault file is left aside: it is read here, too.
_FAULT_FILE = "fault-file"
# What only a watch that hears nothing needs is half of the work of starting one, and that is done while the tasks of
# the guarded step start; so it waits a little. Not until it is needed, for an upgrade may replace the files meanwhile.
_SETTLED_S = 5.0
# What the next attempt has to tell its tasks again, as Slurm told it to those of the first.
TOLD = frozenset(
    {
        *("SLURM_GTIDS", "SLURM_DISTRIBUTION", "SLURM_LAUNCH_NODE_IPADDR"),
        *("SLURM_JOB_START_TIME", "SLURM_JOB_END_TIME", "SLURM_JOB_SLUID"),
    }
)


def step_processes(job_id: str, step_id: str) -> Iterator[tuple[int, list[bytes]]]:
    """The processes of our user on this node that belong to a step, and the environment that Slurm gave each."""
    wanted = {f"SLURM_JOB_ID={job_id}".encode(), f"SLURM_STEP_ID={step_id}".encode()}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or it is somebody else's
        if wanted <= set(environment):
            yield int(entry.name), environment


def one_task(job_id: str, step_id: str) -> dict[str, str]:
    """What Slurm told a task of a step on this node, of TOLD; empty while none is seen."""
    for _, environment in step_processes(job_id, step_id):
        pairs = (variable.decode(errors="replace").partition("=") for variable in environment)
        return {name: value for name, _, value in pairs if name in TOLD}
    return {}


def kill_step_here(job_id: str, step_id: str) -> int:
    """Ends what is left of a step on this node; returns how many processes that were."""
    processes = [pid for pid, _ in step_processes(job_id, step_id)]
    for pid in processes:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it ended by itself
    return len(processes)


def _is_ping(words: list[str]) -> bool:
    return len(words) == 4 and words[0] == "ping" and words[1].isdigit()


class Watch:
    """The loop of one node's watch."""

    def __init__(self, orders: Orders, node: str, rank: int) -> None:
        self.orders = orders
        self.node = node
        self.step_id = ""
        self._agent = AgentVerdict(orders.agent_socket, orders.watched_job_id)
        self._told_before: set[tuple[str, ...]] = set()
        self._unanswered: list[list[str]] = []
        self._has_plugin = SIGN_OF_LIFE_NAME in os.environ
        self._rank = rank
        self._orphaned: Orphaned | None = None

    def run(self) -> int:
        """Serves until the supervisor closes our input. Returns the exit status."""
        pending = b""
        begin_s = last_ping_s = asked_s = time.monotonic()
        while True:
            ready = self._wait()
            now_s = time.monotonic()
            if 0 in ready:
                received = os.read(0, 4096)
                if not received:
                    if self.orders.helper_id:
                        self._when_orphaned().end_helper()
                    return 0
                last_ping_s = now_s
                if self._orphaned is not None:
                    self._orphaned.found_again()
                *lines, pending = (pending + received).split(b"\n")
                self._unanswered += [line.decode(errors="replace").split() for line in lines]
            self._agent.turn(now_s)
            if 0 in ready or now_s - asked_s > _ASK_AGENT_S:
                self._agent.ask(now_s)
                asked_s = now_s
            if not self._agent.is_awaited(now_s):
                self._answer_all()
            silent = now_s - last_ping_s > self.orders.silence_s
            if silent and self._when_orphaned().look_around(self._end_old):
                return 0
            if now_s - begin_s > _SETTLED_S:
                self._when_orphaned()

    def _wait(self) -> list[int]:
        """Waits for a ping, for the agent, and no longer than until the fault file is to be looked at."""
        agent = self._agent.fileno()
        wait_s = WORTH_WAITING_S / 2 if self._unanswered else _FAULT_POLL_S
        return select.select([0] if agent is None else [0, agent], [], [], wait_s)[0]

    def _when_orphaned(self) -> Orphaned:
        """What to do when nobody asks any more; loaded by the first call."""
        if self._orphaned is None:
            from stepguard.resume.orphaned import Orphaned

            self._orphaned = Orphaned(self.orders, self.node, self._rank, lambda: self.step_id)
        return self._orphaned

    def _answer_all(self) -> None:
        """Answers the pings, with the agent's newest word: a program that a fault has just ended may be why we are
        asked. Then tells what is new."""
        told = told_of_file(local_faults(Path(self.orders.fault_file)))
        told += [one for one in self._agent.told if one.source != _FAULT_FILE]
        now = {one.identity for one in told}
        pings, self._unanswered = [words for words in self._unanswered if _is_ping(words)], []
        if not pings and now != self._told_before:
            self._say(told)
        self._told_before = now
        for words in pings:
            self.step_id = words[2] if words[2] != "-" else self.step_id
            step = (self.orders.job_id, self.step_id)
            processes = sum(1 for _ in step_processes(*step)) if words[3] == "count" else None
            task = one_task(*step) if words[3] == "tasks" else None
            self._say(told, seq=int(words[1]), processes=processes, task=task)

    def _say(self, told: list[Told], **answers: object) -> None:
        now_s = time.monotonic()
        report = {
            "node": self.node,
            "plugin": self._has_plugin,
            "told": [one.aged(now_s) for one in told],
            "agent": self._agent.is_there,
            "offences": self._agent.offences,
            **answers,
        }
        os.write(1, json.dumps(report).encode() + b"\n")

    def _end_old(self) -> int:
        return kill_step_here(self.orders.job_id, self.step_id) if self.step_id else 0
