# SPDX-License-Identifier: Apache-2.0
"""The watch on one node: a task of the `srun --overlap` step beside a guarded step.

It answers each ping of the supervisor with this node's faults and tells a new fault unasked. When the pings stop
it finds out which side is cut off. Cut off itself, it waits, and when it is back and the job has gone on without
this node it ends the step's old tasks here. When the batch host is gone, taking the supervisor with it, it has
the job requeued.

A ping is a line `ping SEQ STEP QUESTION`: STEP is the guarded step (`-` while that is not known). The question is
`count` (how many of its processes are here), `tasks` (what Slurm told one of them of its place) or `-`. An answer is
one JSON object a line: {"node", "seq", "plugin", "faults": [[source, action, text]…], "processes", "task"}. End of
input ends the watch, and a helper job with it.
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

from stepguard.faults import Fault, local_faults
from stepguard.resume.orders import Orders
from stepguard.resume.places import SIGN_OF_LIFE_NAME

if TYPE_CHECKING:
    from stepguard.resume.orphaned import Orphaned

_FAULT_POLL_S = 0.2
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


class Watch:
    """The loop of one node's watch."""

    def __init__(self, orders: Orders, node: str, rank: int) -> None:
        self.orders = orders
        self.node = node
        self.step_id = ""
        self._faults: list[Fault] = []
        self._has_plugin = SIGN_OF_LIFE_NAME in os.environ
        self._rank = rank
        self._orphaned: Orphaned | None = None

    def run(self) -> int:
        """Serves until the supervisor closes our input. Returns the exit status."""
        pending = b""
        begin_s = last_ping_s = time.monotonic()
        while True:
            if select.select([0], [], [], _FAULT_POLL_S)[0]:
                received = os.read(0, 4096)
                if not received:
                    if self.orders.helper_id:
                        self._when_orphaned().end_helper()
                    return 0
                last_ping_s = time.monotonic()
                if self._orphaned is not None:
                    self._orphaned.found_again()
                *lines, pending = (pending + received).split(b"\n")
                for line in lines:
                    self._answer(line.decode(errors="replace").split())
            self._tell_new_faults()
            now_s = time.monotonic()
            silent = now_s - last_ping_s > self.orders.silence_s
            if silent and self._when_orphaned().look_around(self._end_old):
                return 0
            if now_s - begin_s > _SETTLED_S:
                self._when_orphaned()

    def _when_orphaned(self) -> Orphaned:
        """What to do when nobody asks any more; loaded by the first call."""
        if self._orphaned is None:
            from stepguard.resume.orphaned import Orphaned

            self._orphaned = Orphaned(self.orders, self.node, self._rank, lambda: self.step_id)
        return self._orphaned

    def _answer(self, words: list[str]) -> None:
        if len(words) != 4 or words[0] != "ping":
            return
        self.step_id = words[2] if words[2] != "-" else self.step_id
        step = (self.orders.job_id, self.step_id)
        processes = sum(1 for _ in step_processes(*step)) if words[3] == "count" else None
        self._say(seq=int(words[1]), processes=processes, task=one_task(*step) if words[3] == "tasks" else None)

    def _tell_new_faults(self) -> None:
        faults = local_faults(Path(self.orders.fault_file))
        if faults != self._faults:
            self._faults = faults
            self._say()

    def _say(self, **answers: object) -> None:
        report = {"node": self.node, "plugin": self._has_plugin, "faults": self._faults, **answers}
        os.write(1, json.dumps(report).encode() + b"\n")

    def _end_old(self) -> int:
        return kill_step_here(self.orders.job_id, self.step_id) if self.step_id else 0
