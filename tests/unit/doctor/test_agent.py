# SPDX-License-Identifier: Apache-2.0
"""What the doctor makes of the agent's answers; the answers of a real agent are looked at in tests/live."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepguard import __version__
from stepguard.doctor.agent import ask, check_agent
from stepguard.doctor.result import Level
from stepguard.records import wire

SOCKET = Path("/run/stepguard/agent.sock")
MIB = 1 << 20
NOW_S = 1_795_000_000.0


def answer(**more: Any) -> dict[str, Any]:
    """What root hears of an agent that is well."""
    return {
        "version": __version__,
        "attempts": [],
        "spool": {"used_bytes": 3 * MIB, "bound_bytes": 1024 * MIB},
        "archiver": {"pid": 7, "word": {"state": "idle", "backlog": 0, "last_error": None, "set_aside": []}},
        "kernel_log": {"path": "/dev/kmsg", "why": ""},
        **more,
    }


def archiver(**more: Any) -> dict[str, Any]:
    word = {"state": "waiting", "since_s": NOW_S - 600, "backlog": 5, "last_error": None, "set_aside": [], **more}
    return answer(archiver={"pid": 7, "word": word})


def test_an_agent_that_is_well_for_root_and_for_a_user() -> None:
    (result,) = check_agent(answer(), SOCKET, [], True)
    assert (result.level, "the spool holds 3 MiB, the kernel's log is read from /dev/kmsg" in result.found) == (
        Level.OK,
        True,
    )
    (result,) = check_agent({"version": __version__, "attempts": []}, SOCKET, [], True)
    assert (result.level, result.found) == (Level.OK, f"stepguard {__version__} answers at {SOCKET}")


def test_no_agent_is_a_fault_only_where_hooks_want_one() -> None:
    (result,) = check_agent("Connection refused", SOCKET, [], True)
    assert (result.level, "leave notes" in result.found) == (Level.WARN, True)
    (result,) = check_agent("No such file or directory", SOCKET, [], False)
    assert (result.level, "nothing of jobs is recorded" in result.found) == (Level.OK, True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            answer(kernel_log={"path": "auto", "why": "/dev/kmsg: Operation not permitted"}),
            "it cannot read the kernel's log, so nobody knows whether this node is well: /dev/kmsg: Operation not",
        ),
        (answer(version="0.0.1"), "the agent that runs is stepguard 0.0.1"),
        (answer(spool={"used_bytes": 900 * MIB, "bound_bytes": 1000 * MIB}), "the spool is 90% full"),
        (answer(archiver={"pid": None, "word": None}), "its archiver does not run"),
        (
            archiver(last_error={"since_s": NOW_S - 600, "what": "No space left on device: /a"}),
            "takes nothing since 10 min: No space left on device: /a; 5 records wait",
        ),
        (
            archiver(state="stopped", last_error={"since_s": NOW_S, "what": "no such group: [archive] x"}),
            "its archiver does not run, so records stay in the spool: no such group: [archive] x",
        ),
        (archiver(state="busy"), "does not answer since 10 min"),
        (
            answer(spool={"used_bytes": 749 * MIB, "bound_bytes": 1000 * MIB, "not_kept": "output of jobs"}),
            "the spool is 75% full of 1000 MiB: no output of jobs can be kept now",
        ),
        (
            archiver(set_aside=["12.0"]),
            "1 records cannot be archived, while others can, and stay in the spool: jobs 12.0",
        ),
        (
            archiver(set_aside=[f"{number}.0" for number in range(1, 100)]),
            "99 records cannot be archived, while others can, and stay in the spool: jobs 1.0, 2.0, 3.0, 4.0, 5.0, "
            "6.0, 7.0, 8.0 and 91 more",
        ),
    ],
)
def test_an_agent_with_troubles(given: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepguard.doctor.agent.time.time", lambda: NOW_S)
    (result,) = check_agent(given, SOCKET, [], True)
    assert (result.level, said in result.found) == (Level.WARN, True), result


def test_what_the_agents_own_check_finds_is_told() -> None:
    results = check_agent(answer(), SOCKET, ["/var/spool/stepguard: its mode is 0755: chmod 0700"], True)
    assert [(result.level, "chmod 0700" in result.found) for result in results] == [(Level.WARN, True)]


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Callable[[bytes], Path]]:
    """A function: what is answered → the socket of somebody who takes one message and answers that."""
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve(said: bytes) -> None:
            channel, _ = server.accept()
            with channel:
                received = channel.recv(1 << 16)
                channel.sendall(said if wire.decode(received) == {"kind": b"status"} else b"")

        def listens(said: bytes) -> Path:
            threading.Thread(target=serve, args=[said], daemon=True).start()
            return path

        yield listens


def test_the_question_and_its_answers(listener: Callable[[bytes], Path], tmp_path: Path) -> None:
    assert ask(listener(b'{"version": "1"}')) == {"version": "1"}
    for said in (b"", b"refused it\n", b"[1]"):
        assert ask(listener(said)) == "it says nothing that an agent would"
    assert ask(tmp_path / "nobody") == "No such file or directory"
