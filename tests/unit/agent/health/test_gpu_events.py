# SPDX-License-Identifier: Apache-2.0
"""NVML's events, by the real pynvml and a library that answers as NVML does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.gpus import DRIVER_NOT_LOADED, UNKNOWN_ERROR, Gpus
from stepguard.agent.health import gpu_events
from stepguard.agent.health.gpu_events import XID, GpuEvents
from unit.agent.health.conftest import Loop

RECOVERY_ACTION, CLOCK = 0x8000, 0x10


class Heard:
    """What is heard of events."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.events: list[tuple[int, int, str]] = []
        self.process = GpuEvents(loop.selector, loop.log, lambda *event: self.events.append(event))

    def until(self, condition: object) -> None:
        assert callable(condition)
        self.loop.until(condition, self.process.look)

    @property
    def pid(self) -> int:
        pid = self.process.document()["pid"]
        assert isinstance(pid, int)
        return pid

    def is_watching(self) -> bool:
        return bool(self.process.document()["watching"])

    def why(self) -> str:
        return str(self.process.document()["why"])


@pytest.fixture
def heard(loop: Loop) -> Iterator[Heard]:
    made = Heard(loop)
    yield made
    made.process.stop()


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_xids_and_newer_events(gpus: Gpus, heard: Heard) -> None:
    heard.until(heard.is_watching)
    assert heard.process.document()["watching"] == 8
    gpus.happens(3, XID, 79)
    gpus.happens(0, CLOCK, 1)
    gpus.happens(0, RECOVERY_ACTION, 2)
    heard.until(lambda: len(heard.events) == 2)
    assert heard.events == [(XID, 79, "0000:3f:00"), (RECOVERY_ACTION, 2, "0000:0f:00")]


def test_a_gpu_that_is_lost_is_named_all_the_same(gpus: Gpus, heard: Heard) -> None:
    heard.until(heard.is_watching)
    gpus.lose(5)
    gpus.happens(5, XID, 79)
    heard.until(lambda: heard.events)
    assert heard.events == [(XID, 79, "0000:5f:00")]


def test_one_gpu_that_does_not_answer_leaves_the_others(gpus: Gpus, heard: Heard) -> None:
    gpus.lose(0)
    heard.until(heard.is_watching)
    assert heard.process.document()["watching"] == 7


def test_without_a_driver_it_ends_and_is_tried_again_seldom(gpus: Gpus, heard: Heard) -> None:
    gpus["driver.fails"] = DRIVER_NOT_LOADED
    heard.until(lambda: heard.why() and heard.process.document()["pid"] is None)
    assert heard.why() == "Driver Not Loaded"
    assert heard.process._start_at_s > time.monotonic() + 500
    assert heard.loop.said() == ""
    del gpus["driver.fails"]
    heard.process._start_at_s = 0
    heard.until(heard.is_watching)


def test_an_end_of_its_own_is_said(gpus: Gpus, heard: Heard) -> None:
    heard.until(heard.is_watching)
    gpus["driver.fails"] = UNKNOWN_ERROR
    heard.until(heard.why)
    assert heard.why() == "it ended"
    assert "NVML's events are not heard for 60 s" in heard.loop.said()


def test_a_driver_that_hangs_hangs_only_the_process(gpus: Gpus, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_events, "_BEGIN_S", 1.0)
    gpus["driver.hangs"] = "*"
    heard.process.look()
    first = heard.pid
    heard.until(heard.why)
    assert heard.why() == "no answer within 1 s"
    heard.until(lambda: _is_gone(first))


def test_one_that_cannot_be_killed_is_left_and_no_second_one_is_started(
    gpus: Gpus, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard.until(heard.is_watching)
    pid, child = heard.pid, heard.process._child
    assert child is not None
    # Stands for state D: it does not end by what it is sent.
    monkeypatch.setattr(child, "send_signal", lambda _: os.kill(pid, signal.SIGSTOP))
    os.kill(pid, signal.SIGSTOP)
    heard.process._end("no answer", 0)
    heard.process.look()
    assert heard.why() == f"its last process hangs and cannot be killed (pid {pid})"
    assert heard.process.document()["pid"] is None
    os.kill(pid, signal.SIGKILL)
    heard.until(lambda: heard.process._killed is None)
    heard.process._start_at_s = 0
    heard.until(heard.is_watching)


def test_none_is_left_behind_by_an_agent_that_is_killed(gpus: Gpus, tmp_path: Path) -> None:
    program = """
import selectors, sys, time
from stepguard.agent.health.gpu_events import GpuEvents
from stepguard.agent.log import Log
events = GpuEvents(selectors.DefaultSelector(), Log(), print)
events.look()
print(events.document()["pid"], flush=True)
time.sleep(100)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdout is not None
        pid = int(agent.stdout.readline())
        agent.kill()
    end_s = time.monotonic() + 20
    while not _is_gone(pid):
        assert time.monotonic() < end_s
        time.sleep(0.05)
