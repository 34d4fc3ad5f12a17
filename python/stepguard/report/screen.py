# SPDX-License-Identifier: Apache-2.0
"""Where a page goes: a terminal of some width, a pipe, a file. What becomes of it where it cannot be written, the
process decides (cli/output.py)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from stepguard.escaping import visible, visible_lines

_MIN_WIDTH = 40
_CLIPPED = "..."


class Emphasized(str):
    """A line that a terminal shows in bold: the one way for a page to steer it."""


class Screen(NamedTuple):
    """`width` is None where lines may have any length. `utf8`: the locale says that other characters than ASCII can be
    shown."""

    width: int | None = None
    bold: bool = False
    utf8: bool = True

    @property
    def is_terminal(self) -> bool:
        return self.width is not None

    def text(self, text: str) -> str:
        """Text that a user controls, on one line."""
        return visible(text, self.utf8)

    def lines(self, content: bytes) -> str:
        """Content that a user controls, its lines and tabs as they are."""
        return visible_lines(content, self.utf8)

    def emphasized(self, text: str) -> str:
        """The line in bold, where that can be shown; to be yielded as it is, for what is made of it is plain again."""
        return Emphasized(text) if self.bold else text

    def clipped(self, text: str) -> str:
        """A line that fits."""
        if self.width is None or columns(text) <= self.width:
            return text
        return f"{fitted(text, self.width - len(_CLIPPED))}{_CLIPPED}"


def stdout_screen() -> Screen:
    """What stdout is."""
    locale = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "C"
    utf8 = "utf8" in locale.lower().replace("-", "")
    if sys.stdout is None or not sys.stdout.isatty():
        return Screen(utf8=utf8)
    import shutil

    width = max(shutil.get_terminal_size().columns, _MIN_WIDTH)
    return Screen(width, os.environ.get("TERM", "dumb") != "dumb", utf8)


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_char_columns(char) for char in text)


def fitted(text: str, width: int) -> str:
    """The beginning of a text that takes no more columns than that."""
    taken = 0
    for position, char in enumerate(text):
        taken += _char_columns(char)
        if taken > width:
            return text[:position]
    return text


def write(pieces: Iterable[bytes]) -> None:
    """Writes to stdout, byte for byte."""
    if sys.stdout is None:
        return
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.flush()


def write_lines(lines: Iterable[str], screen: Screen) -> None:
    """Writes lines of a page. Whatever their texts are, each is one line, and steers no terminal; a page asks the
    screen before all the same where it counts columns."""
    write(_shown(line, screen) for line in lines)


def write_json(document: Mapping[str, Any], indent: int | None = None) -> None:
    """Writes one document, in ASCII."""
    import json

    write([json.dumps(document, indent=indent).encode("ascii") + b"\n"])


def _shown(line: str, screen: Screen) -> bytes:
    text = screen.text(line)
    shown = f"\x1b[1m{text}\x1b[0m" if isinstance(line, Emphasized) else text
    return f"{shown}\n".encode("utf-8" if screen.utf8 else "ascii", "backslashreplace")


def _char_columns(char: str) -> int:
    import unicodedata

    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
