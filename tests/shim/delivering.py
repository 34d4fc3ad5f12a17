# SPDX-License-Identifier: Apache-2.0
"""A program that speaks to an agent as C does, and a place of its own for the socket and the spool."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from stepguard.records import wire

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
NOBODY = 65534
DEADLINE_MS = 300
LATE_S = 15
"""The machine may be slow; a hang would be longer."""


class Delivery(NamedTuple):
    """What became of a message."""

    outcome: str
    full: bool
    reply: str
    why: str
    wall_s: float


class Place:
    """A directory with a configuration that names a socket and a spool in it, and a program that speaks from there."""

    def __init__(self, directory: Path, program: Path) -> None:
        self.directory = directory
        self.program = program
        self.socket = directory / "agent.sock"
        self.spool = directory / "spool"
        self.config = directory / "stepguard.toml"
        self.config.write_text(
            f'[agent]\nsocket = "{self.socket}"\nspool = "{self.spool}"\ndeadline_ms = {DEADLINE_MS}\n'
        )

    def deliver(
        self,
        *fields: tuple[str, str | bytes, int],
        may_note: bool = True,
        body_max: int = 6 << 20,
        env: Mapping[str, str | bytes] | None = None,
    ) -> Delivery:
        """Sends a message with these fields: name, value, how often (see wire_host.c)."""
        words = [word for name, value, count in fields for word in (name, value, str(count))]
        command = [self.program, "deliver", self.config, str(int(may_note)), str(body_max), "prolog", *words]
        begin = time.monotonic()
        done = subprocess.run(command, env=env or {}, capture_output=True, check=False, timeout=40)
        wall_s = time.monotonic() - begin
        assert (done.returncode, done.stderr) == (0, b"")
        outcome, full, reply, why = done.stdout.decode().removesuffix("\n").split("\n")
        return Delivery(outcome, full == "1", reply, why, wall_s)

    def notes(self) -> list[dict[str, bytes]]:
        """What lies in the spool, the oldest first."""
        assert not list(self.spool.glob("notes/*.tmp"))
        return [wire.decode(path.read_bytes()) for path in sorted(self.spool.glob("notes/*"))]
