# SPDX-License-Identifier: Apache-2.0
"""The watch asks the agent and never waits for it; only root's agent is believed."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepguard.records import wire
from stepguard.resume.agent_verdict import WORTH_WAITING_S, AgentVerdict

GONE = {"source": "agent", "origin": "xid", "code": 79, "action": "replace", "text": "gone", "last_age_s": 0.5}


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "agent.sock"))
        server.listen(1)
        yield server


@pytest.fixture
def verdict(tmp_path: Path) -> Iterator[AgentVerdict]:
    asked = AgentVerdict(str(tmp_path / "agent.sock"), "71", owner=os.geteuid())
    yield asked
    asked.hang_up()


def answer(verdict: AgentVerdict, listener: socket.socket, *pieces: bytes, now_s: float = 10.0) -> None:
    """One question, and its whole answer."""
    verdict.ask(now_s)
    client, _ = listener.accept()
    with client:
        assert wire.decode(client.recv(4096)) == {"kind": b"verdict", "job_id": b"71"}
        for piece in pieces:
            with contextlib.suppress(BrokenPipeError):  # it has heard enough
                client.sendall(piece)
            take(verdict, now_s, lambda: True)
    take(verdict, now_s, lambda: verdict.fileno() is None)
    assert verdict.fileno() is None


def take(verdict: AgentVerdict, now_s: float, is_done: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 20
    while (descriptor := verdict.fileno()) is not None and time.monotonic() < end_s:
        select.select([descriptor], [], [], 1)
        verdict.turn(now_s)
        if is_done():
            return


def said(*findings: object, **more: object) -> bytes:
    return json.dumps({"schema": 1, "findings": findings, **more}).encode()


def test_what_it_tells(verdict: AgentVerdict, listener: socket.socket) -> None:
    whole = said(GONE, {"source": "fault-file", "action": "check", "text": "fans"}, offences=3)
    answer(verdict, listener, whole[:9], whole[9:])
    assert [(one.source, one.name, one.action, one.last_s) for one in verdict.told] == [
        ("agent", "xid 79".upper(), "replace", 9.5),
        ("fault-file", "fans", "check", None),
    ]
    assert verdict.offences == 3
    assert verdict.is_there


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"refused job 71 is not yours, or not here, or over\n",
        b"\0\xff" * 100,
        b"[" * 100_000,
        b'{"findings": 7}',
        b'{"findings": null}',
        b'{"schema": 1}',
        b"[1, 2]",
        b'{"findings": [' + b" " * (1 << 19) + b"]}",
    ],
)
def test_what_is_no_answer_tells_nothing(verdict: AgentVerdict, listener: socket.socket, content: bytes) -> None:
    answer(verdict, listener, said(GONE))
    answer(verdict, listener, *(content[at : at + 65536] for at in range(0, len(content), 65536)))
    assert verdict.told == []
    assert not verdict.is_there


def test_no_agent_no_socket_and_a_file_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in ("", str(tmp_path / "none"), str(tmp_path / "file"), str(tmp_path), "x" * 1000):
        verdict = AgentVerdict(path, "71")
        verdict.ask(1.0)
        verdict.turn(1.0)
        assert verdict.fileno() is None
        assert not verdict.is_awaited(1.0)
        assert verdict.told == []


def test_somebody_elses_socket_is_not_asked(tmp_path: Path, listener: socket.socket) -> None:
    verdict = AgentVerdict(str(tmp_path / "agent.sock"), "71", owner=os.geteuid() + 1)
    verdict.ask(1.0)
    assert verdict.fileno() is None
    client, _ = listener.accept()
    with client:
        assert client.recv(4096) == b""


def test_a_full_backlog_does_not_block(tmp_path: Path, listener: socket.socket) -> None:
    asked = [AgentVerdict(str(tmp_path / "agent.sock"), "71", owner=os.geteuid()) for _ in range(8)]
    for verdict in asked:
        verdict.ask(1.0)
    assert None in [verdict.fileno() for verdict in asked]
    for verdict in asked:
        verdict.hang_up()


def test_a_hung_agent_is_waited_for_once_and_asked_again(verdict: AgentVerdict, listener: socket.socket) -> None:
    answer(verdict, listener, said(GONE), now_s=10.0)
    verdict.ask(11.0)
    assert verdict.is_awaited(11.0)
    assert not verdict.is_awaited(11.01 + WORTH_WAITING_S)
    verdict.turn(13.0)
    assert verdict.fileno() is not None  # it may still answer
    assert verdict.told  # what it said last stands for a while
    verdict.turn(15.5)
    assert verdict.fileno() is None
    verdict.ask(15.5)
    assert not verdict.is_awaited(15.5)
    verdict.turn(20.0)
    assert verdict.told == []
    for _ in range(2):
        listener.accept()[0].close()
    answer(verdict, listener, said(GONE), now_s=21.0)
    verdict.ask(22.0)
    assert verdict.is_awaited(22.0)


def test_what_it_said_stands_while_it_is_restarted(
    tmp_path: Path, verdict: AgentVerdict, listener: socket.socket
) -> None:
    answer(verdict, listener, said(GONE), now_s=10.0)
    (tmp_path / "agent.sock").unlink()
    verdict.ask(12.0)
    assert [one.text for one in verdict.told] == ["gone"]
    verdict.ask(20.0)
    assert verdict.told == []
