# SPDX-License-Identifier: Apache-2.0
"""The watch on one node: a task of the `srun --overlap` step beside a guarded step.

It answers each ping of the supervisor with this node's faults and tells a new fault unasked. When the pings stop
it finds out which side is cut off. Cut off itself, it waits, and when it is back and the job has gone on without
this node it ends the step's old tasks here. When the batch host is gone, taking the supervisor with it, it has
the job requeued.

A ping is a line `ping SEQ STEP count` or `ping SEQ STEP -`: STEP is the guarded step (`-` while that is not known),
`count` asks how many of its processes are here. An answer is one
JSON object a line: {"node", "seq", "faults": [[source, action, text]…], "processes"}. End of input ends the watch.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from pathlib import Path

from stepguard.resume.faults import Fault, local_faults
from stepguard.resume.orders import Orders
from stepguard.resume.orphaned import Orphaned

_FAULT_POLL_S = 0.2


def step_processes(job_id: str, step_id: str) -> list[int]:
    """The processes of our user on this node that belong to a step, by the environment Slurm gave its tasks."""
    wanted = {f"SLURM_JOB_ID={job_id}".encode(), f"SLURM_STEP_ID={step_id}".encode()}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue  # it has ended, or it is somebody else's
        if wanted <= set(environment.split(b"\0")):
            found.append(int(entry.name))
    return found


def kill_step_here(job_id: str, step_id: str) -> int:
    """Ends what is left of a step on this node; returns how many processes that were."""
    processes = step_processes(job_id, step_id)
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
        self._orphaned = Orphaned(orders, node, rank, lambda: self.step_id)

    def run(self) -> int:
        """Serves until the supervisor closes our input. Returns the exit status."""
        pending = b""
        last_ping_s = time.monotonic()
        while True:
            if select.select([0], [], [], _FAULT_POLL_S)[0]:
                received = os.read(0, 4096)
                if not received:
                    return 0
                last_ping_s = time.monotonic()
                self._orphaned.found_again()
                *lines, pending = (pending + received).split(b"\n")
                for line in lines:
                    self._answer(line.decode(errors="replace").split())
            self._tell_new_faults()
            if time.monotonic() - last_ping_s > self.orders.silence_s and self._orphaned.look_around(self._end_old):
                return 0

    def _answer(self, words: list[str]) -> None:
        if len(words) != 4 or words[0] != "ping":
            return
        self.step_id = words[2] if words[2] != "-" else self.step_id
        count = len(step_processes(self.orders.job_id, self.step_id)) if words[3] == "count" else None
        self._say(int(words[1]), count)

    def _tell_new_faults(self) -> None:
        faults = local_faults(Path(self.orders.fault_file))
        if faults != self._faults:
            self._faults = faults
            self._say(None, None)

    def _say(self, seq: int | None, processes: int | None) -> None:
        report = {"node": self.node, "seq": seq, "faults": self._faults, "processes": processes}
        os.write(1, json.dumps(report).encode() + b"\n")

    def _end_old(self) -> int:
        return kill_step_here(self.orders.job_id, self.step_id) if self.step_id else 0
