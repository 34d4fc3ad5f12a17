# SPDX-License-Identifier: Apache-2.0
"""The product's agents in a lab, one a node, with its prolog and epilog, as an administrator enables them.

The spool of a node is a disk: it outlives a power cut. The archive is a directory that all hosts share.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.daemons import Daemons
from lab.directory import Directory
from lab.errors import LabError
from lab.hosts import Host
from lab.processes import Process, wait_until
from lab.roots import PREFIX

SLURM_CONF = {
    "Prolog": f"{PREFIX}/libexec/stepguard/prolog",
    "Epilog": f"{PREFIX}/libexec/stepguard/epilog",
}
"""What slurm.conf says besides."""

SPOOL = "/var/spool/stepguard"
"""Where a node's spool is, on the node."""

_SOCKET = "run/stepguard/agent.sock"
_ARGV = [f"{PREFIX}/bin/stepguard", "agent"]
_START_S = 20


class Agents:
    """The agents of a lab's nodes. The first of each is started with its node, before slurmd."""

    def __init__(self, directory: Directory, daemons: Daemons, hosts: Mapping[str, Host]) -> None:
        self._directory = directory
        self._daemons = daemons
        self._hosts = hosts
        self._started: dict[str, list[Process]] = {}

    def start(self, node: str) -> Process:
        """Starts a node's agent and waits until it takes connections. Raises LabError when it ends before."""
        agent = self.launch(node)
        self._await_answer(node, agent)
        return agent

    def start_all(self, nodes: Sequence[str]) -> None:
        """The same for several nodes at once."""
        for node, agent in [(node, self.launch(node)) for node in nodes]:
            self._await_answer(node, agent)

    def launch(self, node: str) -> Process:
        """Starts a node's agent, whatever comes of it."""
        agent = self._daemons.start(self._hosts[node], _ARGV, name="agent")
        self._started.setdefault(node, []).append(agent)
        return agent

    def kill(self, node: str) -> None:
        """kill -9 of the agent, and of nothing that it started."""
        self._end(node, signal.SIGKILL)

    def stop(self, node: str) -> None:
        """Ends the agent as an init system does."""
        self._end(node, signal.SIGTERM)

    def running(self, node: str) -> Process:
        """The node's agent. Raises LabError when it does not run."""
        if not self.is_running(node):
            raise LabError(f"no agent runs on {node}")
        return self._started[node][-1]

    def is_running(self, node: str) -> bool:
        """Whether the node's agent lives."""
        started = self._started.get(node, [])
        return bool(started) and started[-1].status is None

    def log(self, node: str) -> str:
        """What all agents of the node have said so far, the oldest first."""
        return "".join(agent.stderr for agent in self._started.get(node, []))

    def spool(self, node: str) -> Path:
        """The node's spool on this side; also while the node is off."""
        return self._directory.path / "disk" / node

    def _end(self, node: str, number: int) -> None:
        agent = self.running(node)
        agent.send_signal(number)
        agent.wait(30)

    def _await_answer(self, node: str, agent: Process) -> None:
        def answers() -> bool:
            if agent.status is not None:
                raise LabError(f"the agent of {node} ended with status {agent.status}: {agent.describe()}")
            return self._takes_connections(node)

        wait_until(answers, f"the agent of {node} answers", _START_S, 0.02)

    def _takes_connections(self, node: str) -> bool:
        with socket.socket(socket.AF_UNIX) as knock:
            try:
                knock.connect(str(self._hosts[node].root() / _SOCKET))
            except (FileNotFoundError, ConnectionRefusedError):
                return False
        return True


def prepare(directory: Directory, nodes: Sequence[str], archive: Path, more: str) -> None:
    """Makes the archive, the nodes' spools and stepguard.toml. `more`: what follows `dir` of [archive] there."""
    directory.make("disk", 0o700)
    for node in nodes:
        directory.make(f"disk/{node}", 0o700)
    archive.mkdir(mode=0o711)
    archive.chmod(0o711)
    directory.make("etc/stepguard", 0o755)
    directory.write("etc/stepguard/stepguard.toml", f'[archive]\ndir = "{archive}"\n{more}\n')
