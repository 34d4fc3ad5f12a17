# SPDX-License-Identifier: Apache-2.0
"""What users try on the agent's socket: it stays up, root's hooks get through, and nobody says a thing for another."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import socket
import struct
import subprocess
import time
from collections.abc import Callable

import pytest

from stepguard.records import wire
from unit.agent.agent_process import PYTHON, USER, AgentProcess, fields, prolog, wait_until

Make = Callable[..., AgentProcess]
# Opens as many connections as it can, says nothing, and holds them until its input ends.
_CROWD = """
import socket, sys
clients = []
for _ in range(int(sys.argv[2])):
    client = socket.socket(socket.AF_UNIX)
    client.connect(sys.argv[1])
    clients.append(client)
print("there", flush=True)
sys.stdin.read()
"""


def _prolog_s(agent: AgentProcess, job_id: int) -> float:
    """How long a hook waits."""
    begin_s = time.monotonic()
    agent.tell(prolog(job_id))
    return time.monotonic() - begin_s


@pytest.mark.parametrize(
    "content",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"S",
        b"SGR1",
        b"SGR1\xff\xff\xff\xff",
        b"SGR1" + struct.pack("<I", 3) + b"abc",
        b"SGR1" + struct.pack("<I", 0),
        wire.encode({"kind": b"status"}) + b"more",
        wire.encode({"kind": b"prolog"}),
        wire.encode({"kind": b"prolog", "job_id": b"0"}),
        wire.encode({"kind": b"prolog", "job_id": b"-1"}),
        wire.encode({"kind": b"prolog", "job_id": b"../../x"}),
        wire.encode({"kind": b"prolog", "job_id": b"99999999999"}),
        wire.encode({"kind": b"\x1b[31m\n<0>forged", "job_id": b"1"}),
        wire.encode({"kind": b"closed", "job_id": b"1"}),
    ],
)
def test_garbage_is_refused(agent: AgentProcess, content: bytes) -> None:
    with agent.connect() as client:
        client.sendall(content)
        client.shutdown(socket.SHUT_WR)
        answer = client.recv(1000)
    assert answer == b"" or answer.startswith(b"refused "), answer
    assert b"\x1b" not in answer[:-1] and b"\n" not in answer[:-1]
    assert agent.status()["attempts"] == []
    assert os.listdir(agent.layout.jobs) == []  # noqa: PTH208


def test_random_bytes_and_cut_messages_change_nothing(agent: AgentProcess) -> None:
    source = random.Random(7)
    whole = wire.encode(prolog(7))
    for _ in range(300):
        damaged = bytearray(whole[: source.randrange(len(whole))] if source.random() < 0.5 else whole)
        for _ in range(source.randrange(4) if damaged else 0):
            damaged[source.randrange(min(len(damaged), 40))] = source.randrange(256)
        if bytes(damaged) != whole:
            with agent.connect() as client:
                client.sendall(damaged)
    agent.tell(prolog(8))
    assert "fault of stepguard's" not in agent.log()


def test_a_user_speaks_for_own_jobs_only(agent: AgentProcess) -> None:
    output = fields("output", 7, stdout="/a", stderr="/b")
    assert agent.ask_as(USER, output).startswith(b"refused job 7 is not yours")
    agent.tell(prolog(7))
    assert agent.ask_as(1234, output).startswith(b"refused job 7 is not yours")
    for kind in ("prolog", "epilog", "batch", "step_start", "step_end", "finding", "health_check"):
        answer = agent.ask_as(USER, fields(kind, 7, uid=0, environment=b""))
        assert answer == (b"refused only root may send %s\n" % kind.encode() if kind != "health_check" else answer)
        assert answer.startswith(b"refused ")
    # A forged boot, node, owner or attempt is kept as what the user said, and moves nothing.
    forged = {**output, "boot_id": b"x", "node": b"x", "uid": b"0", "restart_count": b"9"}
    assert agent.ask_as(USER, forged) == b"ok\n"
    assert agent.kinds("7.0") == ["prolog", "output"]
    for _ in range(3):
        assert agent.ask_as(USER, output) == b"ok\n"
    assert agent.ask_as(USER, output) == b"refused that was said before\n"
    too_large = {**output, "stdin": bytes(40_000)}
    assert agent.ask_as(USER, too_large).startswith(b"refused a body of")
    agent.tell({**prolog(7), "kind": b"epilog"})
    assert agent.ask_as(USER, output).startswith(b"refused job 7 is not yours")


def test_slow_writers_are_dropped(agent: AgentProcess) -> None:
    script = (
        "import socket, sys, time\n"
        "client = socket.socket(socket.AF_UNIX)\n"
        "client.connect(sys.argv[1])\n"
        "begin = time.monotonic()\n"
        "try:\n"
        "    for byte in b'SGR1' + bytes([100, 0, 0, 0]) + bytes(100):\n"
        "        client.send(bytes([byte]))\n"
        "        time.sleep(0.2)\n"
        "except BrokenPipeError:\n"
        "    print(time.monotonic() - begin)\n"
    )
    command = [PYTHON, "-IS", "-c", script, str(agent.socket)]
    done = subprocess.run(command, capture_output=True, timeout=40, user=USER, group=USER)
    assert 4 < float(done.stdout) < 8
    assert "too slow" in agent.log()


def test_ten_thousand_connections_of_a_user_do_not_keep_hooks_out(agent: AgentProcess) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, 20_000))
    command = [PYTHON, "-IS", "-c", _CROWD, str(agent.socket), "5000"]
    crowds = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=uid, group=uid, process_group=0)
        for uid in (USER, 1234)
    ]
    try:
        slowest_s = max(_prolog_s(agent, job_id) for job_id in range(1, 51))
        for crowd in crowds:
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == b"there\n"
        slowest_s = max(slowest_s, *(_prolog_s(agent, job_id) for job_id in range(51, 101)))
        state = agent.status()
        assert state["connections"] <= 2 * 64 + 1
        assert len(state["attempts"]) == 100
        assert agent.ask_as(4321, fields("status")).startswith(b"{"), "another user is served"
        assert slowest_s < 5
    finally:
        for crowd in crowds:
            crowd.communicate()


def test_many_large_messages_at_once_take_little_memory(agent: AgentProcess) -> None:
    agent.tell(prolog(7))
    message = wire.encode(fields("batch", 7, step_id="batch", script=os.urandom(4 << 20), environment=bytes(1 << 20)))
    senders = []
    for _ in range(12):
        client = agent.connect()
        client.setblocking(False)
        senders.append(client)
    begin_s = time.monotonic()
    sent = dict.fromkeys(senders, 0)
    while any(size < len(message) for size in sent.values()):
        for client, size in sent.items():
            if size < len(message):
                with contextlib.suppress(BlockingIOError):
                    sent[client] += client.send(memoryview(message)[size:])
        assert time.monotonic() - begin_s < 20
        time.sleep(0.001)
    for client in senders:
        client.setblocking(True)
        assert client.recv(100) == b"ok\n"
        client.close()
    peak_kib = int((status := _status(agent)).partition("VmHWM:")[2].split()[0])
    assert peak_kib < 120 << 10, status
    assert agent.kinds("7.0") == ["prolog", *["batch"] * 12]


def test_no_descriptor_left(agent: AgentProcess) -> None:
    used = len(os.listdir(f"/proc/{agent.pid}/fd"))  # noqa: PTH208
    soft, hard = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (used + 4, hard))
    clients = [agent.connect() for _ in range(20)]
    wait_until(lambda: "cannot accept" in agent.log())
    for client in clients:
        client.close()
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (soft, hard))
    agent.tell(prolog(7))


def _status(agent: AgentProcess) -> str:
    with open(f"/proc/{agent.pid}/status") as file:  # noqa: PTH123
        return file.read()
