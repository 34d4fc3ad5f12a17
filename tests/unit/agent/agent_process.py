# SPDX-License-Identifier: Apache-2.0
"""A real agent on private paths, and clients of it, root or any user.

Its archiver is one that does nothing, so that what is in the spool stays there to be looked at. Its kernel's log is a
file of its own, empty.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stepguard.records import spool, wire
from stepguard.records.spool import SpoolLayout

BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
USER = 65534
# For clients of other users, who need not be able to read this repository.
PYTHON = "/usr/bin/python3"
_LAUNCHER = """
import os, sys, time
if sys.argv[1] == "archiver":
    while os.getppid() == int(sys.argv[2]):
        time.sleep(0.2)
    sys.exit()
from stepguard.__main__ import main
sys.exit(main())
"""
_CLIENT = """
import socket, sys
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
client.sendall(sys.stdin.buffer.read())
while piece := client.recv(65536):
    sys.stdout.buffer.write(piece)
"""


def fields(kind: str, job_id: int = 0, **more: str | bytes | int) -> dict[str, bytes]:
    """A message with the common fields; a keyword replaces one."""
    values: dict[str, str | bytes | int] = {
        "kind": kind,
        "node": "n1",
        "time_ns": time.time_ns(),
        "boottime_ns": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "boot_id": BOOT_ID,
        **({"job_id": job_id} if job_id else {}),
        **more,
    }
    return {name: value if isinstance(value, bytes) else str(value).encode() for name, value in values.items()}


def environment(**variables: str) -> bytes:
    return b"".join(f"{name}={value}\0".encode() for name, value in variables.items())


def prolog(job_id: int, restarts: int = 0, **variables: str) -> dict[str, bytes]:
    words = environment(SLURM_JOB_RESTART_COUNT=str(restarts), SLURM_CLUSTER_NAME="c", **variables)
    return fields("prolog", job_id, uid=USER, gid=USER, environment=words)


def epilog(job_id: int, restarts: int = 0) -> dict[str, bytes]:
    words = environment(SLURM_JOB_RESTART_COUNT=str(restarts))
    return fields("epilog", job_id, uid=USER, gid=USER, environment=words)


def wait_until(condition: Callable[[], Any], timeout_s: float = 15.0) -> Any:
    """The first true value of `condition`."""
    end_s = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < end_s, "it did not come about in time"
        time.sleep(0.02)
    return value


def told_kinds(directory: Path) -> list[str]:
    """Of an attempt's messages, in order, without the agent's own looks at devices, which come when they come."""
    return [kind for _, kind, _ in spool.messages(directory) if kind not in ("looked", "job_health")]


class AgentProcess:
    """Made in a directory that every user can enter. `settings` are lines of [agent], `health` of [health]."""

    def __init__(
        self,
        directory: Path,
        *settings: str,
        more: str = "",
        health: str = 'gpu_events = false\nprobes = ["nvml"]',
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.socket = directory / "run/agent.sock"
        self.layout = SpoolLayout(directory / "spool")
        self.stderr = directory / "stderr"
        self.config = directory / "stepguard.toml"
        lines = [f'socket = "{self.socket}"', f'spool = "{self.layout.root}"', *settings]
        self.kernel_log = directory / "kmsg"
        if not self.kernel_log.exists():
            self.kernel_log.touch()
        watched = f'[health]\nkernel_log = "{self.kernel_log}"\n{health}\n'
        archive = f'[archive]\ndir = "{directory}/archive"\n'
        self.config.write_text("\n".join(["[agent]", *lines, watched, archive, more]))
        self._launcher = directory / "stepguard"
        self._launcher.write_text(_LAUNCHER)
        self._env = {**os.environ, **(env or {})}
        self.process: subprocess.Popen[bytes] | None = None

    def argv(self, *more: str) -> list[str]:
        return [sys.executable, str(self._launcher), "agent", "--config", str(self.config), *more]

    def start(self, *before: str, wait: bool = True) -> AgentProcess:
        """`before` is what the command is started by."""
        with self.stderr.open("ab") as stderr:
            self.process = subprocess.Popen([*before, *self.argv()], stderr=stderr, env=self._env)
        if wait:
            wait_until(self.answers)
        return self

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        try:
            return b"uptime_s" in self.ask(fields("status"))
        except OSError:
            return False

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Returns the exit status. Its archiver is not left behind."""
        if self.process is None:
            return 0
        left = children(self.process.pid)
        self.process.send_signal(number)
        status = self.process.wait(20)
        self.process = None
        for pid in left if number == signal.SIGKILL else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return status

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def log(self) -> str:
        return self.stderr.read_text(errors="replace")

    def connect(self) -> socket.socket:
        """Blocks as hooks do, in the kernel (Python's own timeout would not wait for room in the backlog)."""
        client = socket.socket(socket.AF_UNIX)
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            client.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", 20, 0))
        try:
            client.connect(str(self.socket))
        except OSError:
            client.close()
            raise
        return client

    def ask(self, message: Mapping[str, bytes] | bytes) -> bytes:
        """The answer to root; b"" where it hung up."""
        content = message if isinstance(message, bytes) else wire.encode(message)
        with self.connect() as client:
            with contextlib.suppress(BrokenPipeError):  # it has said why
                client.sendall(content)
            answer = b""
            while piece := client.recv(65536):
                answer += piece
            return answer

    def ask_as(self, uid: int, message: Mapping[str, bytes]) -> bytes:
        """The answer to another user."""
        command = [PYTHON, "-IS", "-c", _CLIENT, str(self.socket)]
        done = subprocess.run(
            command, input=wire.encode(message), capture_output=True, timeout=20, user=uid, group=uid, extra_groups=[]
        )
        return done.stdout

    def tell(self, *messages: Mapping[str, bytes]) -> None:
        for message in messages:
            assert self.ask(message) == b"ok\n"

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask(fields("status")))
        return found

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask(fields("health")))
        return found

    def kinds(self, key: str) -> list[str]:
        """Of the messages of an attempt, in order, without the agent's own looks at devices."""
        return told_kinds(self.layout.jobs / key)

    def is_complete(self, key: str) -> bool:
        return (self.layout.jobs / key / spool.COMPLETE).exists()

    def meta(self, key: str, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.layout.jobs / key / f"{name}.meta").read_text())
        return found


def children(pid: int, verb: str = "") -> list[int]:
    """The children of a process; with `verb`, those that have it as a word of their command lines."""
    found = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [child for child in found if not verb or f"\0{verb}\0" in _command(child)]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
