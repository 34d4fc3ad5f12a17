# SPDX-License-Identifier: Apache-2.0
"""A helper job: nodes from outside a job's allocation, for as long as its guarded step needs them.

It is an salloc of ours, because slurmctld tries an interactive job at once and a batch job only every few seconds
(2 to 3 s, 22.05 to 26.05). It ends with the pipe to us, also when we are killed: salloc's own command ends then, and
an salloc that still waits in the queue is told by the kernel. When our host loses its power, the watches end the job.
"""

from __future__ import annotations

import math
import os
import re
import signal
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stepguard import process
from stepguard.slurm.commands import command_environment
from stepguard.slurm.protocol import SlurmClient
from stepguard.slurm.records import Job, Share

if TYPE_CHECKING:
    from stepguard.resume.watch_step import WatchStep

# The journal's event for a helper that a watch ended, not a person.
ENDED_EVENT = "helper-ended"
# salloc's words, 22.05 to 26.05: "salloc: Pending job allocation 72", "salloc: Granted job allocation 72".
_ALLOCATION = re.compile(r"\b(Pending|Granted) job allocation (\d+)")
_NO_REASON = re.compile(r"(Pending|Granted) job allocation|queued and waiting|has been allocated|ready for")
# An salloc in the queue leaves it at any signal. Once it has its job, only SIGHUP is safe: at any other, or when others
# have ended its job, it may wait on a whole core for a command that another thread of it has waited for (22.05, 24.11),
# until it gets a SIGHUP.
_END_SIGNAL = signal.SIGHUP
_END_S = 2.0
_END_POLL_S = 0.02


def name(job_id: str) -> str:
    """The name by which people, hooks and watches know whose helper a job is."""
    return f"stepguard-{job_id}"


def like(job: Job, num_nodes: int, exclude: Sequence[str]) -> dict[str, str]:
    """What makes salloc ask for a job of the same kind: where it runs and what it is charged to, not how much."""
    options = {
        "--job-name": name(job.id),
        "--comment": f"stepguard: helper of job {job.id}",
        "--nodes": str(num_nodes),
        "--partition": job.partition,
        "--account": job.account,
        "--qos": job.qos,
        "--constraint": job.features,
        "--reservation": job.reservation,
        "--exclude": ",".join(exclude),
    }
    return {option: value for option, value in options.items() if value}


def as_much_as(shares: Sequence[Share], exclusive: bool, time_left_s: float | None) -> dict[str, str]:
    """What each node of the helper must have: what the lost ones had, for the time that the job has left."""
    options = {"--time": "UNLIMITED" if time_left_s is None else str(max(1, math.ceil(time_left_s / 60)))}
    if exclusive:
        options["--exclusive"] = ""
    if gres := max((share.gres for share in shares), key=len, default=""):
        options["--gres"] = gres
    if cpus := max((share.cpus for share in shares), default=0):
        options |= {"--ntasks-per-node": "1", "--cpus-per-task": str(cpus)}
    if memory_mib := max((share.memory_mib for share in shares), default=0):
        options["--mem"] = f"{memory_mib}M"
    return options


class HelperJob:
    """One helper, from the question on. `id` is "" until Slurm has given it one, `take_nodes` asks for
    its nodes."""

    def __init__(self, slurm: SlurmClient, options: Mapping[str, str]) -> None:
        self.id = ""
        self.nodes: tuple[str, ...] = ()
        self.cpus_per_node = ""
        self.watch: WatchStep | None = None
        self._slurm = slurm
        self._said = ""
        self._granted = False
        child_in, self._lifeline = os.pipe2(os.O_CLOEXEC)
        self._from_salloc, child_out = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._from_salloc, False)
        try:
            self._salloc = process.spawn(
                [
                    *("setpriv", f"--pdeathsig={_END_SIGNAL.name[3:]}", "salloc", "--no-bell"),
                    *(f"{option}={value}" if value else option for option, value in options.items()),
                    "cat",
                ],
                env=command_environment(os.environ),
                stdin=child_in,
                stdout=child_out,
                stderr=child_out,
                new_session=True,
            )
        except BaseException:
            os.close(self._lifeline)
            os.close(self._from_salloc)
            raise
        finally:
            os.close(child_in)
            os.close(child_out)

    def granted(self) -> bool:
        """Whether the job runs now. Never blocks."""
        try:
            self._said += os.read(self._from_salloc, 1 << 14).decode(errors="replace")
        except BlockingIOError:
            return self._granted
        for word, job_id in _ALLOCATION.findall(self._said):
            self.id = job_id
            self._granted = self._granted or word == "Granted"
        return self._granted

    def take_nodes(self) -> None:
        """Learns which nodes it has been granted. Raises SlurmError."""
        job = self._slurm.job(self.id)
        self.nodes, self.cpus_per_node = job.nodes, job.cpus_per_node

    def refused(self) -> str:
        """Why there will be no job, in salloc's words; "" while there may be one."""
        if self._salloc.poll() is None:
            return ""
        self.granted()
        lines = [line for line in self._said.splitlines() if line.strip() and not _NO_REASON.search(line)]
        last = lines[-1] if lines else f"salloc: ended with status {self._salloc.status}"
        return last.removeprefix("salloc: ").removeprefix("error: ")

    def end(self) -> None:
        """Gives the nodes back, or leaves the queue, whatever became of it. May be called twice."""
        if self._lifeline < 0:
            return
        if self.watch is not None:
            self.watch.stop()
        os.close(self._lifeline)
        self._lifeline = -1
        self._salloc.send_signal(_END_SIGNAL)
        end_s = time.monotonic() + _END_S
        while self._salloc.poll() is None and time.monotonic() < end_s:
            time.sleep(_END_POLL_S)
        self.granted()
        os.close(self._from_salloc)
        if self._salloc.poll() is None and self.id:
            self._slurm.cancel_job(self.id)
            self._salloc.send_signal(signal.SIGKILL)
            self._salloc.reap()
