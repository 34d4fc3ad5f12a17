# SPDX-License-Identifier: Apache-2.0
"""The one message format: what hooks and slurmstepd send to the agent, and leave in the spool where there is none.

    message = "SGR1" u32(body_size) body,   body = field*,   field = u8(name_size) name u32(value_size) value

Numbers are little-endian, values any bytes. The first field is `kind`. spank/wire.h writes the same.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path  # 3 ms of import before a guarded step

MAGIC = b"SGR1"
HEADER_SIZE_BYTES = len(MAGIC) + 4
BODY_MAX_BYTES = 6 << 20
FIELDS_MAX = 64
REPLY_MAX_BYTES = 512
_NAME = re.compile(rb"[a-z][a-z0-9_]{0,31}")


class MalformedMessage(ValueError):
    """Not a message; the text says why. An expected outcome: anybody may write anything to a socket."""


def body_size_bytes(header: bytes) -> int:
    """How much follows a header. Raises MalformedMessage when that is no header, or too much."""
    if len(header) != HEADER_SIZE_BYTES or not header.startswith(MAGIC):
        raise MalformedMessage("it does not begin as a message does")
    (size,) = struct.unpack_from("<I", header, len(MAGIC))
    if size > BODY_MAX_BYTES:
        raise MalformedMessage(f"a body of {size} bytes, at most {BODY_MAX_BYTES} are allowed")
    return int(size)


def decode_body(body: bytes) -> dict[str, bytes]:
    """The fields of a body, in order, `kind` first. Raises MalformedMessage."""
    fields: dict[str, bytes] = {}
    at = 0
    while at < len(body):
        name_end = at + 1 + body[at]
        value_begin = name_end + 4
        name = body[at + 1 : name_end]
        if value_begin > len(body) or not _NAME.fullmatch(name):
            raise MalformedMessage(f"no name of a field at byte {at}")
        (size,) = struct.unpack_from("<I", body, name_end)
        at = value_begin + size
        if at > len(body):
            raise MalformedMessage(f"field {name.decode()} is cut off")
        if name.decode() in fields:
            raise MalformedMessage(f"field {name.decode()} stands there twice")
        fields[name.decode()] = body[value_begin:at]
        if len(fields) > FIELDS_MAX:
            raise MalformedMessage(f"more than {FIELDS_MAX} fields")
    if next(iter(fields), "") != "kind":
        raise MalformedMessage("the first field is not the kind")
    return fields


def decode(message: bytes) -> dict[str, bytes]:
    """The fields of a whole message. Raises MalformedMessage."""
    size = body_size_bytes(message[:HEADER_SIZE_BYTES])
    if len(message) != HEADER_SIZE_BYTES + size:
        raise MalformedMessage(f"{len(message) - HEADER_SIZE_BYTES} bytes of a body of {size}")
    return decode_body(message[HEADER_SIZE_BYTES:])


def is_torn(path: Path) -> bool:
    """Whether a file is the beginning of a message and no more, be it empty. Raises OSError."""
    with path.open("rb") as file:
        header, size_bytes = file.read(HEADER_SIZE_BYTES), os.fstat(file.fileno()).st_size
    if len(header) < HEADER_SIZE_BYTES:
        return MAGIC.startswith(header[: len(MAGIC)])
    try:
        return size_bytes < HEADER_SIZE_BYTES + body_size_bytes(header)
    except MalformedMessage:
        return False


def encode(fields: Mapping[str, bytes]) -> bytes:
    """A message. Raises MalformedMessage when it could not be decoded."""
    body = b"".join(
        bytes([len(name)]) + name.encode() + struct.pack("<I", len(value)) + value for name, value in fields.items()
    )
    message = MAGIC + struct.pack("<I", len(body)) + body
    decode(message)
    return message


def number(fields: Mapping[str, bytes], name: str, otherwise: int | None = None) -> int | None:
    """A field that is a decimal number, at most 20 digits; `otherwise` where it is missing or none."""
    text = fields.get(name, b"")
    return int(text) if re.fullmatch(rb"-?[0-9]{1,20}", text) else otherwise


def text(fields: Mapping[str, bytes], name: str) -> str:
    """A field as text, undecodable bytes kept by surrogateescape; "" where it is missing."""
    return fields.get(name, b"").decode(errors="surrogateescape")


def words(value: bytes) -> list[bytes]:
    """What is ended by NULs, as in an environment; a last word without one counts too."""
    found = value.split(b"\0")
    return found if found[-1] else found[:-1]


def environment(value: bytes) -> dict[str, str]:
    """NAME=VALUE words as a mapping. Values may hold newlines and `=`; a word without `=` is left out, the first of two
    of one name stays, as getenv(3) has it."""
    return _pairs(word.decode(errors="surrogateescape") for word in words(value))


def variables(value: bytes, *names: str) -> dict[str, str]:
    """Only these of an environment, which may have 10^5 that its job's owner thought of; as `environment` has them."""
    value = b"\0" + value
    found = {}
    for name in names:
        _, equals, after = value.partition(b"\0" + name.encode() + b"=")
        if equals:
            found[name] = after.partition(b"\0")[0].decode(errors="surrogateescape")
    return found


def _pairs(entries: Iterable[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if equals and name:
            pairs.setdefault(name, value)
    return pairs
