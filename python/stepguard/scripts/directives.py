# SPDX-License-Identifier: Apache-2.0
"""#SBATCH lines as sbatch reads them (src/sbatch/opt.c, _opt_batch_script, 22.05 to 26.05).

They begin in the first column with #SBATCH; reading ends at the first line that is neither blank nor a comment, which
may be indented. Words are split at blanks, with quotes; an unquoted "#" begins a comment, within a word, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from stepguard.scripts.options import CommandLine, parse
from stepguard.scripts.values import UNKNOWN, Field, Piece, Value, text_of

_WORD = re.compile(r"""(?:[^\s"'\\#]|\\.|"(?:[^"\\]|\\.)*"?|'[^']*'?)+|(?P<comment>#)""")
_QUOTES = re.compile(r"""["']|\\(?=.)""")
Line = tuple[int, str]


def lines_of(data: bytes) -> Iterator[Line]:
    """The offset and the text of each line."""
    at = 0
    for line in data.split(b"\n"):
        yield at, line.decode("utf-8", "surrogateescape")
        at += len(line) + 1


def lines_of_value(value: Value) -> list[Line]:
    """The same of a script within a script."""
    lines: list[tuple[int, list[str]]] = [(value[0].at if value else 0, [])]
    for piece in value:
        text = UNKNOWN if piece.text is None and not piece.choices else text_of((piece,))
        at = piece.at
        for index, part in enumerate(text.split("\n")):
            if index:
                lines.append((at, []))
            if not any(lines[-1][1]):
                lines[-1] = (at, [])
            lines[-1][1].append(part)
            at += len(part.encode("utf-8", "surrogateescape")) + 1
    return [(at, "".join(parts)) for at, parts in lines]


def read_directives(script: Value | Sequence[Line]) -> tuple[list[Line], list[Line]]:
    """(The directives that sbatch reads, those that come too late for it)."""
    lines = lines_of_value(script) if script and isinstance(script[0], Piece) else script  # type: ignore[arg-type]
    found: list[Line] = []
    late: list[Line] = []
    reading = True
    for at, text in lines:  # type: ignore[misc]
        if text.startswith("#SBATCH"):
            if reading:
                found.append((at, text))
            elif text[7:8].isspace():
                late.append((at, text))
        elif reading and not text.lstrip().startswith("#") and text.strip():
            reading = False
    return found, late


def options_of(directive: Line) -> CommandLine:
    """The options on one line."""
    at, text = directive
    words = takewhile(lambda word: word["comment"] is None, _WORD.finditer(text, len("#SBATCH")))
    fields = [Field((Piece(_QUOTES.sub("", word[0]), at + word.start()),)) for word in words]
    return parse(fields, allocator=True)
