# SPDX-License-Identifier: Apache-2.0
"""One watch step: an `srun --overlap` with a task on each node of a job, and the pipes to it.

It costs slurmctld one step creation and nothing while it runs. One that cannot run is told once and started again
later; until then the nodes' kernels alone are asked.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Sequence
from typing import Any

from stepguard import process
from stepguard.errors import ProcessError
from stepguard.resume import places
from stepguard.resume.messages import Messages
from stepguard.resume.orders import Orders

NAME = "stepguard-watch"
# What the watch needs of the user's environment; everything of Slurm's in it would shape this step too.
_KEPT = ("HOME", "PATH", "LANG", "XDG_STATE_HOME", "STEPGUARD_CONFIG", "SLURM_CONF", "SLURM_JWT")
_FIRST_RETRY_S = 2.0
_LAST_RETRY_S = 60.0


class WatchStep:
    """Start it by `tick`; give `fileno` to a selector and call `read` when it is readable. Nothing here blocks."""

    def __init__(self, srun: str, orders: Orders, nodes: Sequence[str], messages: Messages) -> None:
        self.nodes = tuple(nodes)
        self._srun = srun
        self._orders = orders
        self._messages = messages
        self._child: process.Child | None = None
        self._to_nodes = self._from_nodes = -1
        self._pending = b""
        self._last_words = ""
        self._told = False
        self._retry_s = _FIRST_RETRY_S
        self._next_start_s = 0.0
        self._started_on: frozenset[str] = frozenset()

    def fileno(self) -> int | None:
        """The descriptor that is readable when a node has said something; None while the watch does not run."""
        return self._from_nodes if self._from_nodes >= 0 else None

    def covers(self, orders: Orders, nodes: Collection[str]) -> bool:
        """Whether it runs on all these nodes, with these orders."""
        return self.fileno() is not None and self._orders == orders and self._started_on.issuperset(nodes)

    def tick(self, now_s: float, lost: Collection[str] = ()) -> None:
        """Starts the step if it does not run and it is time to, on all nodes but those that are known to be lost."""
        if self._child is None and self._from_nodes < 0 and now_s >= self._next_start_s:
            self._start([name for name in self.nodes if name not in lost])

    def _start(self, nodes: Sequence[str]) -> None:
        self._started_on = frozenset(nodes)
        child_in, self._to_nodes = os.pipe2(os.O_CLOEXEC)
        self._from_nodes, child_out = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._from_nodes, False)
        os.set_blocking(self._to_nodes, False)
        try:
            self._child = process.spawn(
                self._command(nodes),
                env=self._environment(),
                stdin=child_in,
                stdout=child_out,
                stderr=child_out,
                new_session=True,
            )
        except ProcessError as error:
            self._trouble(str(error))
        finally:
            os.close(child_in)
            os.close(child_out)

    def _command(self, nodes: Sequence[str]) -> list[str]:
        count = str(len(nodes))
        return [
            self._srun,
            "--overlap",
            f"--jobid={self._orders.watched_job_id}",
            f"--job-name={NAME}",
            f"--nodelist={','.join(nodes)}",
            f"--nodes={count}",
            f"--ntasks={count}",
            "--ntasks-per-node=1",
            "--gres=none",
            "--mpi=none",
            "--cpu-bind=none",
            "--no-kill",
            "--kill-on-bad-exit=0",
            "--wait=0",
            "--quiet",
            # Never --unbuffered: only without it are lines handed on whole. At 98 nodes (26.05.5) a line came together
            # from the first half of one node's and the second half of another's.
            "--chdir=/",
            f"--export={','.join(_KEPT)}",
            *process.own_command(),
            "watch",
            self._orders.as_text(),
        ]

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        return {**kept, places.VARIABLE: places.SIGN_OF_LIFE}

    def ping(self, seq: int, step_id: str = "-", question: str = "-") -> None:
        """Asks every node for an answer, as stepguard.resume.watch describes it."""
        if self._to_nodes < 0:
            return
        line = f"ping {seq} {step_id} {question}\n"
        try:
            os.write(self._to_nodes, line.encode())
        except BlockingIOError:
            self._last_words = "srun does not take our pings"  # silence of the nodes will tell
        except BrokenPipeError:
            self._ended()

    def read(self) -> list[dict[str, Any]]:
        """What the nodes have said since the last call."""
        if self._from_nodes < 0:
            return []
        try:
            received = os.read(self._from_nodes, 1 << 16)
        except BlockingIOError:
            return []
        if not received:
            self._ended()
            return []
        *lines, self._pending = (self._pending + received).split(b"\n")
        reports = [report for line in lines if (report := self._report(line)) is not None]
        if reports:
            self._retry_s = _FIRST_RETRY_S
        return reports

    def _report(self, line: bytes) -> dict[str, Any] | None:
        try:
            report = json.loads(line)
        except ValueError:
            self._last_words = line.decode(errors="replace")[:200]
            return None
        return report if isinstance(report, dict) else None

    def _ended(self) -> None:
        self.stop()
        self._trouble(self._last_words or "it ended")
        self._next_start_s = time.monotonic() + self._retry_s
        self._retry_s = min(self._retry_s * 2, _LAST_RETRY_S)

    def _trouble(self, text: str) -> None:
        if not self._told:
            self._told = True
            self._messages.error(f"the watch step does not run ({text}); nodes are watched from here only")

    def stop(self) -> None:
        """Ends the step: the watches see the end of their input; srun is not waited for, a node may be lost."""
        for descriptor in (self._to_nodes, self._from_nodes):
            if descriptor >= 0:
                os.close(descriptor)
        self._to_nodes = self._from_nodes = -1
        self._pending = b""
        if self._child is not None:
            self._child.send_signal(9)
            self._child.reap()
            self._child = None
