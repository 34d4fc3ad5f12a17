# SPDX-License-Identifier: Apache-2.0
"""Messages of several lines. dmesg and journalctl stamp the first and indent the others, so that they begin where its
words do, or `dmesg -x` where they would without what it decodes:

    [ 1234.100100] NVRM: API mismatch: the client has the version 550.90.12, but
                   NVRM: this kernel module has the version 550.54.15.  Please

They are put together as /dev/kmsg has them, with line ends between: what another line says counts as little as any
words behind the beginning of a message, for a user can have a line end in the name of a file or a task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stepguard.health.kernel.formats import parse
from stepguard.health.kernel.journal import begin

_BLANKS = (" ", "\t")
# No stamp is shorter: that of `dmesg --human` is "[  +0.000000] ".
_MIN_WIDTH = 12
# No message of the kernel has as many lines or characters: what is more is left out.
_MAX_LINES = 256
_MAX_CHARS = 1 << 13


def whole(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Number and text of each line, of a message of several lines those of its first."""
    first: tuple[int, str] | None = None
    widths = range(0)
    others: list[str] = []
    for line in lines:
        text = line[1]
        if first is not None:
            if text.startswith(_BLANKS):
                if not others:
                    widths = _widths(first[1])
                indent = len(text) - len(text.lstrip())
                if indent in widths and parse(0, text) is None:
                    if len(others) < _MAX_LINES:
                        others.append(text[indent : indent + _MAX_CHARS].rstrip())
                    continue
            yield _together(first, others)
            if others:
                others = []
        first = line
    if first is not None:
        yield _together(first, others)


def _widths(text: str) -> range:
    """How far other lines of the message are indented that this line begins."""
    if begin(0, text) is not None or (line := parse(0, text)) is None:
        return range(0)
    return range(len(text) - len(text.lstrip()) + _MIN_WIDTH, len(text) - len(line.text) + 1)


def _together(first: tuple[int, str], others: list[str]) -> tuple[int, str]:
    if not others:
        return first
    number, text = first
    rest = "\n".join(others)
    return number, f"{text.rstrip()}\n{rest[:_MAX_CHARS]}"
