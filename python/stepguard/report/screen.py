# SPDX-License-Identifier: Apache-2.0
"""Where a page goes: a terminal of some width, a pipe that may close, a file on a full disk."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from stepguard.errors import StepguardError
from stepguard.report.escaping import visible, visible_lines

_MIN_WIDTH = 40
# What a shell shows for a program that SIGPIPE ended.
PIPE_CLOSED = 141
_CLIPPED = "..."


class PipeClosed(Exception):
    """Nobody reads on: the verb ends, quietly."""


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
        return f"\x1b[1m{text}\x1b[0m" if self.bold else text

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
    """Writes to stdout. Raises PipeClosed when nobody reads on, StepguardError when it cannot be written."""
    if sys.stdout is None:
        return
    try:
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_the_rest()
        raise PipeClosed from None
    except OSError as error:
        _drop_the_rest()
        raise StepguardError("cannot write", f"stdout: {error.strerror}", "write where there is room") from error


def _drop_the_rest() -> None:
    """What is still buffered must not make Python complain at its end, nor change the exit status."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def write_lines(lines: Iterable[str], screen: Screen) -> None:
    """Writes lines of a page; as `write`."""
    write(f"{line}\n".encode("utf-8" if screen.utf8 else "ascii", "backslashreplace") for line in lines)


def _char_columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
