# SPDX-License-Identifier: Apache-2.0
"""What a tool's output is: how it is known, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from stepguard.health.model import Judgement, Status

# nvidia-smi -q -x of sixteen GPUs with all their clocks has 3 MB.
MAX_CHARS = 16 << 20
# A tool says who it is at its beginning, or soon after what a shell or a launcher printed.
HEAD_CHARS = 64 << 10
LINE_CHARS = 64 << 10

Recognizes = Callable[[str], bool]
Read = Callable[[str, int | None], Judgement]


class Kind(NamedTuple):
    """One output of one tool.

    `recognizes`  whether the text is such an output: the tool's own signature, no more
    `read`        what it says; the second argument is the exit status of the command, None where it is not known
    """

    name: str
    recognizes: Recognizes
    read: Read


def bounded(name: str, recognizes: Recognizes, read: Read) -> Kind:
    """A Kind that looks for the signature in the head only, and refuses what is too large to be such an output."""

    def read_bounded(text: str, exit_status: int | None) -> Judgement:
        if len(text) > MAX_CHARS:
            return Judgement(Status.UNKNOWN, f"too large for {name}: {len(text)} characters, at most {MAX_CHARS}")
        return read(text, exit_status)

    return Kind(name, lambda text: recognizes(text[:HEAD_CHARS]), read_bounded)


def lines(text: str) -> Iterator[str]:
    """The lines without their ends; what is beyond LINE_CHARS in one is dropped."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start : min(end, start + LINE_CHARS)].rstrip("\r")
        start = end + 1
