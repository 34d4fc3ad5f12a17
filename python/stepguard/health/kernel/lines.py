# SPDX-License-Identifier: Apache-2.0
"""A whole text → its lines."""

from __future__ import annotations

from collections.abc import Iterator

from stepguard.health.kernel import dmesg_json, journal, message, pasted
from stepguard.health.kernel.formats import parse, untagged
from stepguard.health.kernel.line import LogLine
from stepguard.health.kernel.shape import OF_KMSG, Shape, shape_of

# Of a longer line, only the beginning is looked at.
MAX_LINE_BYTES = 1 << 16


def read(content: bytes, shape: Shape | None = None) -> Iterator[LogLine]:
    """The lines of a log in any format that it can be pasted in, mixed ones too. Empty lines are left out; what has no
    format is given with an empty tag. Nothing is trusted unless the text as a whole is a log (see shape)."""
    if dmesg_json.begins(content):
        shape, lines = Shape.LOG, dmesg_json.read(content, numbered(content))
    else:
        shape, lines = shape or whole_shape(content), _records(content)
    for line in lines:
        is_kernel = line.is_kernel if shape is Shape.LOG else shape is Shape.EXCERPT and not line.tag
        yield line if line.is_kernel == is_kernel else line._replace(is_kernel=is_kernel)


def whole_shape(content: bytes) -> Shape:
    """What the text is as a whole."""
    if dmesg_json.begins(content):
        return Shape.LOG
    return shape_of(text for _, text in _whole(content))


def numbered(content: bytes) -> Iterator[tuple[int, str]]:
    """Number and text of each line. Bytes that are no UTF-8 become U+FFFD."""
    number, start, size = 0, 0, len(content)
    while start < size:
        number += 1
        end = content.find(b"\n", start)
        if end < 0:
            end = size
        text = content[start : min(end, start + MAX_LINE_BYTES)].decode(errors="replace")
        yield number, pasted.plain(text.rstrip("\r"))
        start = end + 1


def _whole(content: bytes) -> Iterator[tuple[int, str]]:
    return message.whole(pasted.unwrapped(numbered(content), _is_one))


def _records(content: bytes) -> Iterator[LogLine]:
    """The lines, with those that make up one record put together."""
    record: journal.Record | None = None
    for number, text in _whole(content):
        if record is not None:
            if record.takes(text):
                continue
            if line := record.line():
                yield line
            record = None
        record = journal.begin(number, text)
        if record is None and text.strip() and not _continues(text):
            yield _single(number, text)
    if record is not None and (line := record.line()):
        yield line


def _single(number: int, text: str) -> LogLine:
    line = journal.json_line(number, text) if text.startswith(("{", "data: {")) else parse(number, text)
    return line or LogLine(number, None, "", "", untagged(text), False)


def _is_one(text: str) -> bool:
    """Whether a line is one of its own, and not the rest of another."""
    return text.startswith(("{", "NVRM: ")) or parse(0, text) is not None


def _continues(text: str) -> bool:
    """A line of /dev/kmsg that says of which device the record before it is: ` DEVICE=+pci:0000:0f:00.0`."""
    return text.startswith(OF_KMSG)
