# SPDX-License-Identifier: Apache-2.0
"""The watch step as the supervisor sees it: one `srun --overlap` with a task on each node of the job.

It costs slurmctld one step creation and nothing while it runs. A watch that cannot run is told once and started
again later; until then the nodes' kernels alone are asked.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping

from stepguard import process
from stepguard.config import Resume
from stepguard.errors import ProcessError
from stepguard.resume.messages import Messages
from stepguard.resume.orders import Orders
from stepguard.resume.pulse import Pulse
from stepguard.resume.reach import Probe, answering

NAME = "stepguard-watch"
# What the watch needs of the user's environment; everything of Slurm's in it would shape this step too.
_KEPT = ("HOME", "PATH", "LANG", "XDG_STATE_HOME", "STEPGUARD_CONFIG", "SLURM_CONF", "SLURM_JWT")
_FIRST_RETRY_S = 2.0
_LAST_RETRY_S = 60.0
# A slurmctld that says nothing for so long cannot be reached from here.
_LINK_S = 0.5


class WatchStep:
    """Start it, give its descriptor to a selector, call `read` when that is readable and `tick` every now and then."""

    def __init__(
        self, srun: str, orders: Orders, places: Mapping[str, tuple[str, int]], config: Resume, messages: Messages
    ) -> None:
        self._srun = srun
        self._orders = orders
        self._places = dict(places)
        self._config = config
        self._messages = messages
        self._child: process.Child | None = None
        self._to_nodes = self._from_nodes = -1
        self._pending = b""
        self._last_words = ""
        self._told = False
        self._retry_s = _FIRST_RETRY_S
        self._next_start_s = 0.0
        self._seq = 0
        self._next_ping_s = 0.0
        self._link_probes: list[Probe] = []
        self.step_id = "-"
        self.pulse = Pulse(config, places, time.monotonic())

    def fileno(self) -> int | None:
        """The descriptor that is readable when a node has said something; None while the watch does not run."""
        return self._from_nodes if self._from_nodes >= 0 else None

    def start(self) -> None:
        """Starts the step on all nodes that are not known to be lost."""
        nodes = [name for name in self._places if name not in self.pulse.lost()]
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

    def _command(self, nodes: list[str]) -> list[str]:
        count = str(len(nodes))
        return [
            self._srun,
            "--overlap",
            f"--jobid={self._orders.job_id}",
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
            "--unbuffered",
            "--chdir=/",
            f"--export={','.join(_KEPT)}",
            sys.executable,
            "-I",
            "-m",
            "stepguard",
            "watch",
            self._orders.as_text(),
        ]

    def _environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in _KEPT if name in os.environ}

    def ping(self, *, count: bool = False) -> int:
        """Asks every node for an answer now, with the number of the step's processes if `count`. Returns its
        number, for `Pulse.answered` and `Pulse.emptied`."""
        self._seq += 1
        self._next_ping_s = time.monotonic() + self._config.heartbeat_s
        if self._to_nodes >= 0:
            line = f"ping {self._seq} {self.step_id} {'count' if count else '-'}\n"
            try:
                os.write(self._to_nodes, line.encode())
            except BlockingIOError:
                self._last_words = "srun does not take our pings"  # silence of the nodes will tell
            except BrokenPipeError:
                self._ended()
        return self._seq

    def read(self) -> None:
        """Takes what the nodes said. Never blocks."""
        if self._from_nodes < 0:
            return
        try:
            received = os.read(self._from_nodes, 1 << 16)
        except BlockingIOError:
            return
        if not received:
            self._ended()
            return
        *lines, self._pending = (self._pending + received).split(b"\n")
        now_s = time.monotonic()
        for line in lines:
            self._take(line, now_s)

    def _take(self, line: bytes, now_s: float) -> None:
        try:
            report = json.loads(line)
        except ValueError:
            self._last_words = line.decode(errors="replace")[:200]
            return
        if isinstance(report, dict):
            self.pulse.heard(report, now_s)
            self._retry_s = _FIRST_RETRY_S

    def tick(self, now_s: float) -> None:
        """Pings when it is time to, starts an ended watch again, and lets the pulse decide. Never blocks."""
        if self._child is None and self._from_nodes < 0 and now_s >= self._next_start_s:
            self.start()
        if now_s >= self._next_ping_s:
            self.ping()
        self.pulse.look(now_s)
        self._check_own_link(now_s)

    def _check_own_link(self, now_s: float) -> None:
        """When nodes fall silent, a slurmctld must answer too, or it is this host that is cut off.

        Asked when the first node becomes suspect, a second before any is given up: after a cut of our own that heals
        just then, `own_link_works` alone would come too late.
        """
        if not self.pulse.suspects() or not self._orders.controllers:
            self._close_link_probes()
            return
        if not self._link_probes:
            self._link_probes = [Probe(*place) for place in self._orders.controllers]
        elif any(probe.result() for probe in self._link_probes):
            return
        elif now_s - self._link_probes[0].started_s > _LINK_S:
            self.pulse.start_over(now_s)
            self._close_link_probes()

    def _close_link_probes(self) -> None:
        for probe in self._link_probes:
            probe.close()
        self._link_probes = []

    def own_link_works(self) -> bool:
        """Whether a slurmctld answers: if not, it is this host that is cut off, not all the others."""
        controllers = {str(n): place for n, place in enumerate(self._orders.controllers)}
        return bool(answering(controllers, self._config.probe_s, enough=1))

    def _ended(self) -> None:
        self._close()
        self._trouble(self._last_words or "it ended")
        self._next_start_s = time.monotonic() + self._retry_s
        self._retry_s = min(self._retry_s * 2, _LAST_RETRY_S)

    def _trouble(self, text: str) -> None:
        if not self._told:
            self._told = True
            self._messages.error(f"the watch step does not run ({text}); nodes are watched from here only")

    def _close(self) -> None:
        for descriptor in (self._to_nodes, self._from_nodes):
            if descriptor >= 0:
                os.close(descriptor)
        self._to_nodes = self._from_nodes = -1
        self._pending = b""
        if self._child is not None:
            self._child.send_signal(9)
            self._child.reap()
            self._child = None

    def stop(self) -> None:
        """Ends the step: the watches see the end of their input; srun is not waited for, a node may be lost."""
        self._close()
