# SPDX-License-Identifier: Apache-2.0
"""A step as slurmstepd runs it, and an agent that only writes down what it is told of it."""

from __future__ import annotations

import os
import pwd
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from shim.built import SANITIZER_ENV, Shim
from shim.listeners import listening, read_message
from stepguard.records import wire

USER = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()
"""Whose job it is."""
BATCH = 0xFFFFFFFB
"""SLURM_BATCH_SCRIPT of slurm.h."""


@dataclass
class Recorded:
    """What an agent was told: the messages, and the user who sent each."""

    messages: list[dict[str, bytes]] = field(default_factory=list)
    senders: list[int] = field(default_factory=list)


@contextmanager
def recording(path: Path, reply: bytes = b"ok\n") -> Iterator[Recorded]:
    """An agent at `path` that writes down what it is told, and answers so."""
    recorded = Recorded()

    def write_down(connection: socket.socket, done: threading.Event) -> None:
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        recorded.messages.append(wire.decode(read_message(connection)))
        recorded.senders.append(struct.unpack("3i", credentials)[1])
        connection.sendall(reply)

    with listening(path, write_down):
        path.chmod(0o666)
        yield recorded


@dataclass
class Done:
    """What became of a step."""

    stdout: str
    log: list[str]
    """slurmd's log, and lines on the task's stderr, which begin with "task: "."""
    seconds: float

    @property
    def task(self) -> dict[str, str]:
        """The environment of the first task."""
        lines = [line.removeprefix("task=") for line in self.stdout.splitlines() if line.startswith("task=")]
        pairs = [os.fsdecode(bytes.fromhex(line)).partition("=")[::2] for line in lines]
        assert len(pairs) == len(dict(pairs))
        return dict(pairs)

    @property
    def said(self) -> list[str]:
        """What was said on the tasks' stderr."""
        return [line.removeprefix("task: ") for line in self.log if line.startswith("task: ")]


@dataclass
class Node:
    """A node with its configuration; nothing of an agent is there at first."""

    shim: Shim
    directory: Path
    config: str = "deadline_ms = 5000"
    plugstack: str = "optional {plugin} lint=off config={config}"

    @property
    def socket(self) -> Path:
        """Where an agent would listen."""
        return self.directory / "agent.sock"

    @property
    def spool(self) -> Path:
        """Where notes would be left."""
        return self.directory / "spool"

    def notes(self) -> list[dict[str, bytes]]:
        """The notes in the spool, oldest first."""
        return [wire.decode(path.read_bytes()) for path in sorted((self.spool / "notes").glob("*.note"))]

    def step(
        self,
        argv: Sequence[str | bytes] = ("train",),
        env: Mapping[str, str | bytes] | None = None,
        job: int = 71,
        step: int = 3,
        node_index: int = 0,
        node_count: int = 2,
        tasks: int = 1,
        host: Mapping[str, str] | None = None,
    ) -> Done:
        """Runs a step to its end, all its callbacks well. `host`: more of HOST_*, in small letters."""
        config = self.directory / "stepguard.toml"
        config.write_text(f'[agent]\nsocket = "{self.socket}"\nspool = "{self.spool}"\n{self.config}\n')
        plugstack = self.directory / "plugstack.conf"
        plugstack.write_text(self.plugstack.format(plugin=self.shim.plugin, config=config) + "\n")
        more = {f"HOST_{name.upper()}": text for name, text in (host or {}).items()}
        settings = {
            "HOST_PLUGSTACK": str(plugstack),
            "HOST_STEP": f"{job} {step} {node_index} {node_count} {tasks} {USER}",
            **more,
        }
        sanitizer = SANITIZER_ENV if self.shim.sanitized else {}
        began_s = time.monotonic()
        done = subprocess.run(
            ["slurmstepd", *argv],
            executable=self.shim.step_host,
            env={"SLURMD_NODENAME": "n1", **sanitizer, **settings, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            cwd=self.directory,
            check=False,
        )
        seconds = time.monotonic() - began_s
        log = done.stderr.decode(errors="surrogateescape").splitlines()
        assert done.returncode == 0, log
        assert not [line for line in log if line.startswith("error: ")], log
        return Done(done.stdout.decode(), log, seconds)
