# SPDX-License-Identifier: Apache-2.0
"""A forkserver whose probe "host" does what a test wants, and what can be seen of it and its children."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

PROBE = "host"
_SOON_S = 15.0
_LAUNCHER = """
import sys
from stepguard.health import forkserver
from stepguard.health.probes import table
sys.path.insert(0, {place!r})
table.PROBES[{probe!r}] = table.Entry("scripted", 20.0)
forkserver.main()
"""
_RUNS_A_SCRIPT = """
import os
def run(settings):
    os.chdir({place!r})
    os.dup2(3, 1)  # probe_child.OUTPUT
    os.execv("script", ["script"])
"""


class Scripted:
    """From its making on it is what is started for the forkserver."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.place = place
        (place / "launcher").write_text(_LAUNCHER.format(place=str(place), probe=PROBE))
        self._program(place / "python", f'exec {sys.executable} {place}/launcher "$@"')
        monkeypatch.setattr(sys, "executable", str(place / "python"))

    def module(self, source: str) -> None:
        """This is the probe's module."""
        (self.place / "scripted.py").write_text(source)

    def script(self, text: str) -> None:
        """The child becomes this shell script, and prints into the report."""
        self._program(self.place / "script", text)
        self.module(_RUNS_A_SCRIPT.format(place=str(self.place)))

    def pid(self, name: str) -> int:
        """The number that a script has written to a file, once it has."""
        file = self.place / name
        until(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())

    @staticmethod
    def _program(path: Path, script: str) -> None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)


def children(pid: int | None = None) -> list[int]:
    """Of a process; of this one, the forkservers alone."""
    of = pid or os.getpid()
    found = map(int, Path(f"/proc/{of}/task/{of}/children").read_text().split())
    return [one for one in found if pid or b"forkserver" in Path(f"/proc/{one}/cmdline").read_bytes()]


def forkserver() -> int:
    """The one of this process."""
    [pid] = children()
    return pid


def descriptors(pid: int | None = None) -> list[str]:
    """Those that are open, without that of the listing."""
    return sorted(path.name for path in Path(f"/proc/{pid or 'self'}/fd").iterdir() if path.is_symlink())


def state(pid: int) -> str:
    """R, S, D, Z …; "" when there is no such process any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def is_gone(pid: int) -> bool:
    """Soon. One that its parent has not reaped counts too."""
    return until(lambda: state(pid) in ("", "Z"))


def until(condition: Callable[[], object]) -> bool:
    """Waits for it; False when it does not come about."""
    end_s = time.monotonic() + _SOON_S
    while not condition():
        if time.monotonic() > end_s:
            return False
        time.sleep(0.01)
    return True
