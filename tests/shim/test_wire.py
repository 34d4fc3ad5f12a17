# SPDX-License-Identifier: Apache-2.0
"""Messages that C writes, as Python reads them, and their way to the agent within the deadline."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from shim import fuzz, listeners
from shim.compiling import compiled
from shim.delivering import DEADLINE_MS, LATE_S, NOBODY, Place, needs_root
from stepguard.records import wire


def test_message_as_python_reads_it(place: Place) -> None:
    before_ns, boot_ns = time.time_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    with listeners.answering(place.socket) as messages:
        sent = place.deliver(("job_id", "12", 1), ("empty", "", 0), ("any", b"\xff\n\x01", 3))
    assert (sent.outcome, sent.full, sent.reply, sent.why) == ("taken", False, "ok", "")
    fields = wire.decode(messages[0])
    assert list(fields) == ["kind", "time_ns", "boottime_ns", "boot_id", "job_id", "empty", "any"]
    assert fields["kind"] == b"prolog"
    assert before_ns <= int(fields["time_ns"]) <= time.time_ns()
    assert boot_ns <= int(fields["boottime_ns"]) <= time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert fields["boot_id"].decode() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert (fields["job_id"], fields["empty"], fields["any"]) == (b"12", b"", b"\xff\n\x01" * 3)
    assert wire.encode(fields) == messages[0]


def test_largest_message(place: Place) -> None:
    with listeners.answering(place.socket) as messages:
        assert not place.deliver(("script", "x" * 100, 60_000)).full
        assert place.deliver(("script", "x" * 1000, 7000), ("later", "1", 1)).full
    assert len(wire.decode(messages[0])["script"]) == 6_000_000
    assert list(wire.decode(messages[1])) == ["kind", "time_ns", "boottime_ns", "boot_id"]


@pytest.mark.parametrize("name", ["", "_a", "9a", "aB", "a-b", "a" * 33, "kind", "time_ns"])
def test_name_that_cannot_be_is_left_out(place: Place, name: str) -> None:
    with listeners.answering(place.socket) as messages:
        assert place.deliver(("first", "1", 1), (name, "2", 1), ("later", "3", 1)).full
    assert list(wire.decode(messages[0])) == ["kind", "time_ns", "boottime_ns", "boot_id", "first"]


def test_number_of_fields(place: Place) -> None:
    with listeners.answering(place.socket) as messages:
        assert not place.deliver(*((f"f{i}", "1", 1) for i in range(60))).full
        assert place.deliver(*((f"f{i}", "1", 1) for i in range(61))).full
    assert [len(wire.decode(message)) for message in messages] == [wire.FIELDS_MAX] * 2


def test_list_is_cut_between_entries(place: Place) -> None:
    env: dict[str, str | bytes] = {"A": "1", "LONG": "x" * 1000, "B": "2\n", "C": b"\xff"}
    size = len(b"A=1\0B=2\n\0C=\xff\0") + len("LONG=") + 1000 + 1
    with listeners.answering(place.socket) as messages:
        place.deliver(("environment", "list", 1 << 20), env=env)
        place.deliver(("environment", "list", 100), env=env)
        place.deliver(("argv", "words", 100), env=env)
        place.deliver(("environment", "list", 1 << 20), env=env, body_max=400)
        place.deliver(("environment", "list", 0), env=env)
    whole, long_left_out, ended, small, nothing = map(wire.decode, messages)
    assert whole["environment"].split(b"\0") == [b"A=1", b"LONG=" + b"x" * 1000, b"B=2\n", b"C=\xff", b""]
    assert long_left_out["environment"] == small["environment"] == b"A=1\0B=2\n\0C=\xff\0"
    assert ended["argv"] == b"A=1\0"
    assert nothing["environment"] == b""
    sizes = [int(fields["environment_size"]) for fields in (whole, long_left_out, small, nothing)]
    assert [*sizes, int(ended["argv_size"])] == [size] * 5


@pytest.mark.parametrize(
    ("behaviour", "said", "waits"),
    [
        (listeners.never_answers, "no answer within 300 ms", True),
        (listeners.never_reads, "no answer within 300 ms", True),
        (listeners.dribbles, "no answer within 300 ms", True),
        (listeners.closes_at_once, "it hung up without an answer", False),
        (listeners.closes_after_reading, "it hung up without an answer", False),
        (listeners.answers_half, "it hung up without an answer", False),
        (listeners.answers_nonsense, "no sense in what it answers: ok? ?[31m?%n%s", False),
        (listeners.answers_without_end, "Message too long", False),
    ],
)
def test_agent_that_is_none(place: Place, behaviour: listeners.Behaviour, said: str, waits: bool) -> None:
    with listeners.listening(place.socket, behaviour):
        sent = place.deliver(("script", "x" * 100, 50_000))
    assert sent.outcome == "noted"
    # Whether the kernel tells of an end as such or of a broken connection depends on what was read before.
    heard = {said, "Connection reset by peer"}
    if sent.wall_s >= DEADLINE_MS / 1000:  # a busy machine: nobody had the time to say so
        heard.add("no answer within 300 ms")
    assert sent.why in {f"no agent at {place.socket}: {why}: left a note in the spool" for why in heard}
    assert sent.wall_s < LATE_S
    assert not waits or sent.wall_s >= DEADLINE_MS / 1000
    (note,) = place.notes()
    assert note["script"] == b"x" * 5_000_000


def test_agent_that_takes_no_connection(place: Place) -> None:
    with listeners.never_accepting(place.socket):
        sent = place.deliver()
    assert sent.why == f"no agent at {place.socket}: no answer within 300 ms: left a note in the spool"
    assert DEADLINE_MS / 1000 <= sent.wall_s < LATE_S
    assert len(place.notes()) == 1


def test_agent_that_is_slow(place: Place) -> None:
    """The deadline is that of all together, and it is not the time that a wait takes."""
    place.config.write_text(place.config.read_text().replace(str(DEADLINE_MS), "30000"))

    def slow(connection: socket.socket, done: threading.Event) -> None:
        listeners.read_message(connection)
        for byte in b"ok\n":
            time.sleep(0.05)
            connection.sendall(bytes([byte]))

    with listeners.listening(place.socket, slow):
        sent = place.deliver(("script", "x" * 100, 50_000))
    assert (sent.outcome, sent.why) == ("taken", "")


@pytest.mark.parametrize("left", [None, "file", "socket"])
def test_no_agent(place: Place, left: str | None) -> None:
    if left == "file":
        place.socket.touch()
    if left == "socket":
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(place.socket))
    why = "Connection refused" if left else "No such file or directory"
    assert place.deliver().why == f"no agent at {place.socket}: {why}: left a note in the spool"
    assert place.deliver().outcome == "noted"
    assert len(place.notes()) == 2
    sent = place.deliver(may_note=False)
    assert (sent.outcome, sent.why) == ("lost", f"no agent at {place.socket}: {why}")
    assert len(place.notes()) == 2


@needs_root
def test_agent_of_somebody_else_hears_nothing(place: Place) -> None:
    heard = []
    place.directory.chmod(0o711)

    def listen(connection: socket.socket, done: threading.Event) -> None:
        heard.append(connection.recv(100))

    with listeners.listening(place.socket, listen, uid=NOBODY):
        sent = place.deliver()
    assert sent.outcome == "noted"
    assert f"who listens there is not root but uid {NOBODY}" in sent.why
    assert heard == [b""]


@pytest.mark.parametrize(
    ("reply", "outcome", "why"),
    [
        (b"fail GPU 3 has fallen off the bus\n", "taken", ""),
        (b"refused not a kind: x\n", "lost", "the agent at {socket}: refused not a kind: x"),
        (b"okay\n", "noted", "no agent at {socket}: no sense in what it answers: okay: left a note in the spool"),
        (b"ok\nand more\n", "taken", ""),
        (b"fail " + b"x" * 506 + b"\n", "taken", ""),
        (b"fail " + b"x" * 507 + b"\n", "noted", "no agent at {socket}: Message too long: left a note in the spool"),
    ],
)
def test_answers(place: Place, reply: bytes, outcome: str, why: str) -> None:
    with listeners.answering(place.socket, reply):
        sent = place.deliver()
    assert (sent.outcome, sent.why) == (outcome, why.format(socket=place.socket))
    if outcome == "taken":
        assert sent.reply.encode() == reply.split(b"\n")[0]
    assert len(place.notes()) == (outcome == "noted")


def test_random_messages(tmp_path: Path) -> None:
    fuzz.run(compiled(tmp_path, "fuzz_wire"), 1, 10_000)
