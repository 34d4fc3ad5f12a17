# SPDX-License-Identifier: Apache-2.0
"""GPUs, a loop and a log for what runs in the agent's loop."""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.gpus import Gpus, build
from stepguard.agent.health.kernel_log import kernel_log, log_file
from stepguard.agent.log import Log
from unit.agent.log_reader import Read, Reader
from unit.agent.syslog_daemon import Syslog

DEADLINE_S = 30.0


class Loop:
    """The agent's loop, as far as its parts know of it."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self._readable, writable = os.pipe2(os.O_NONBLOCK)
        self.log = Log(writable)
        self._said = ""

    def said(self) -> str:
        """What has been logged so far."""
        with contextlib.suppress(BlockingIOError):
            self._said += os.read(self._readable, 1 << 16).decode()
        return self._said

    def until(self, condition: Callable[[], object], look: Callable[[], object]) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < end_s, self.said()
            look()
            for key, events in self.selector.select(0.05):
                key.data(events)


@pytest.fixture
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    assert not made.selector.get_map(), "all that was registered is let go of"


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def gpus(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    """Eight, all well, for the programs that a test starts."""
    made = Gpus(tmp_path / "gpus", 8, nvml_library)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def read() -> Iterator[Read]:
    """Reads a kernel's log."""
    made: list[Reader] = []

    def make(path: Path | str, **more: Any) -> Reader:
        made.append(Reader(path, **more))
        return made[-1]

    yield make
    for reader in made:
        reader.close()


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log files are looked at many times a second, and asked again soon where they cannot be read."""
    monkeypatch.setattr(log_file, "POLL_S", 0.05)
    monkeypatch.setattr(kernel_log, "RETRY_S", 0.1)


@pytest.fixture
def daemon(tmp_path: Path) -> Syslog:
    """A syslog daemon that writes a file."""
    return Syslog(tmp_path / "kern.log")
