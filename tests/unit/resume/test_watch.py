# SPDX-License-Identifier: Apache-2.0
"""A node's watch, as a process of its own, with an agent at its side that the test plays."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepguard.resume.orders import Orders

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root's agent is believed")
WITHIN_S = 20.0
GONE = {"source": "agent", "origin": "xid", "code": 79, "action": "replace", "text": "gone", "status": "fail"}
FANS = {"source": "fault-file", "action": "check", "text": "fans"}


def orders(directory: Path) -> Orders:
    return Orders(
        *("71", "", 0, False, "", None, (), 60.0, 1.0, 60.0),
        fault_file=str(directory / "fault"),
        journal=str(directory / "journal"),
        step_key="key",
        agent_socket=str(directory / "agent.sock"),
    )


class RunningWatch:
    """The process and what it says."""

    def __init__(self, directory: Path) -> None:
        self.fault_file = directory / "fault"
        argv = [sys.executable, "-m", "stepguard", "watch", orders(directory).as_text()]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._pending = b""

    def ping(self, seq: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"ping {seq} - -\n".encode())
        self.process.stdin.flush()

    def report(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The next report of which that is true."""
        assert self.process.stdout is not None
        end_s = time.monotonic() + WITHIN_S
        while time.monotonic() < end_s:
            line, newline, rest = self._pending.partition(b"\n")
            if newline:
                self._pending = rest
                if holds(report := json.loads(line)):
                    return dict(report)
            elif select.select([self.process.stdout], [], [], 1)[0]:
                self._pending += os.read(self.process.stdout.fileno(), 65536)
        raise AssertionError("it did not say so")


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "agent.sock"))
        server.listen(8)
        server.settimeout(WITHIN_S)
        yield server


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[RunningWatch]:
    running = RunningWatch(tmp_path)
    with running.process:
        yield running
        assert running.process.stdin is not None
        running.process.stdin.close()
        assert running.process.wait(WITHIN_S) == 0


def answer(listener: socket.socket, content: bytes) -> None:
    client, _ = listener.accept()
    with client:
        client.recv(4096)
        client.sendall(content)


def said(*findings: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"schema": 1, "findings": findings, **more}).encode()


def texts(report: dict[str, Any]) -> list[str]:
    return [told[2] for told in report["told"]]


def test_a_ping_is_answered_with_the_agents_newest_word(listener: socket.socket, watch: RunningWatch) -> None:
    watch.ping(7)
    answer(listener, said(GONE, FANS, offences=4))  # what it says of the fault file is left to the watch
    report = watch.report(lambda report: "seq" in report)
    assert (report["seq"], texts(report), report["agent"], report["offences"]) == (7, ["gone"], True, 4)


def test_an_agent_that_hangs_delays_no_second_ping(listener: socket.socket, watch: RunningWatch) -> None:
    for seq in (1, 2, 3):
        watch.ping(seq)
        report = watch.report(lambda report: "seq" in report)
        assert (report["seq"], report["told"], report["agent"]) == (seq, [], False)


def test_without_an_agent_the_fault_file_counts(watch: RunningWatch) -> None:
    watch.ping(1)
    assert watch.report(lambda report: "seq" in report)["told"] == []
    watch.fault_file.write_text("reboot: GSP timeout\n")
    report = watch.report(lambda report: bool(report["told"]))
    assert "seq" not in report  # unasked
    assert (report["told"][0][:3], report["agent"]) == (["fault-file", "reboot", "GSP timeout"], False)


def test_what_is_new_is_told_unasked(listener: socket.socket, watch: RunningWatch) -> None:
    answer(listener, said())  # no ping has come: it asks by itself
    answer(listener, said(GONE))
    report = watch.report(lambda report: texts(report) == ["gone"])
    assert "seq" not in report
    answer(listener, b"refused job 71 is not yours, or not here, or over\n")
    assert watch.report(lambda report: not report["told"])["agent"] is False


def test_orders_of_before_an_upgrade_name_no_agent(tmp_path: Path) -> None:
    values = json.loads(orders(tmp_path).as_text())
    del values["agent_socket"]
    assert Orders.from_text(json.dumps(values)).agent_socket == ""
