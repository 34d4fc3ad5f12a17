# SPDX-License-Identifier: Apache-2.0
"""Messages: what is written is read, and nothing else is."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim import fuzz
from stepguard.records import wire

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,31}", fullmatch=True)


def field(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + struct.pack("<I", len(value)) + value


def message(body: bytes, size: int | None = None) -> bytes:
    return b"SGR1" + struct.pack("<I", len(body) if size is None else size) + body


KIND = field(b"kind", b"x")


def test_message_to_the_byte() -> None:
    fields = {"kind": b"prolog", "job_id": b"12"}
    expected = b"SGR1\x1c\0\0\0\x04kind\x06\0\0\0prolog\x06job_id\x02\0\0\x0012"
    assert wire.encode(fields) == expected
    assert wire.decode(expected) == fields


@given(st.dictionaries(NAMES.filter(lambda name: name != "kind"), st.binary(max_size=300), max_size=63))
def test_what_is_written_is_read(more: dict[str, bytes]) -> None:
    fields = {"kind": b"prolog", **more}
    read = wire.decode(wire.encode(fields))
    assert list(read.items()) == list(fields.items())


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (b"", "does not begin"),
        (b"SGR1\0\0", "does not begin"),
        (b"SGR2" + message(KIND)[4:], "does not begin"),
        (b"GET / HTTP/1.1\r\n\r\n", "does not begin"),
        (message(KIND, wire.BODY_MAX_BYTES + 1), "at most 6291456 are allowed"),
        (message(KIND, 0xFFFFFFFF), "a body of 4294967295 bytes"),
        (message(KIND) + b"x", "11 bytes of a body of 10"),
        (message(KIND, 9), "10 bytes of a body of 9"),
        (message(KIND)[:-1], "9 bytes of a body of 10"),
        (message(b""), "the first field is not the kind"),
        (message(field(b"job_id", b"1") + KIND), "the first field is not the kind"),
        (message(KIND + field(b"a", b"1") + field(b"a", b"1")), "field a stands there twice"),
        (message(KIND + KIND), "field kind stands there twice"),
        (message(KIND + field(b"", b"1")), "no name of a field at byte 10"),
        (message(KIND + field(b"A", b"1")), "no name"),
        (message(KIND + field(b"a\n", b"1")), "no name"),
        (message(KIND + field("ä".encode(), b"1")), "no name"),
        (message(KIND + field(b"../x", b"1")), "no name"),
        (message(KIND + field(b"a" * 33, b"1")), "no name"),
        (message(KIND + b"\xffa"), "no name"),
        (message(KIND + b"\x01a\x01\0\0"), "no name"),
        (message(KIND + b"\x01a\x02\0\0\0x"), "field a is cut off"),
        (message(KIND + b"\x01a\xff\xff\xff\xffx"), "field a is cut off"),
        (message(KIND + b"".join(field(f"f{i}".encode(), b"") for i in range(64))), "more than 64 fields"),
    ],
)
def test_what_is_no_message(broken: bytes, said: str) -> None:
    with pytest.raises(wire.MalformedMessage, match=said):
        wire.decode(broken)


def test_largest_message() -> None:
    room = wire.BODY_MAX_BYTES - len(KIND) - len(field(b"a", b""))
    assert len(wire.decode(wire.encode({"kind": b"x", "a": bytes(room)}))["a"]) == room
    with pytest.raises(wire.MalformedMessage, match="at most"):
        wire.encode({"kind": b"x", "a": bytes(room + 1)})


@pytest.mark.parametrize("name", ["", "A", "a" * 33, "a-b"])
def test_what_could_not_be_read_is_not_written(name: str) -> None:
    with pytest.raises(wire.MalformedMessage):
        wire.encode({"kind": b"x", name: b"1"})


@given(st.binary(max_size=200))
def test_any_bytes_as_a_body(body: bytes) -> None:
    try:
        fields = wire.decode_body(KIND + body)
    except wire.MalformedMessage:
        return
    assert wire.encode(fields) == message(KIND + body)


def test_changed_messages() -> None:
    rounds = 30_000
    good = fuzz.decode(1, rounds)
    assert rounds // 10 < good < rounds  # it tries both


@pytest.mark.parametrize(
    ("content", "torn"),
    [
        *((message(KIND)[:size], size < len(message(KIND))) for size in (0, 1, 4, 7, 8, 9, len(message(KIND)))),
        (message(KIND) + b"x", False),
        (b"SGR2", False),
        (b"\0" * 100, False),
        (message(KIND, 0xFFFFFFFF), False),
    ],
)
def test_the_beginning_of_a_message_is_what_a_power_cut_leaves(tmp_path: Path, content: bytes, torn: bool) -> None:
    """What is damaged otherwise is not deleted, but told."""
    path = tmp_path / "000001.prolog"
    path.write_bytes(content)
    assert wire.is_torn(path) is torn
