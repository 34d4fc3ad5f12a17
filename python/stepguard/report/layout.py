# SPDX-License-Identifier: Apache-2.0
"""Headings, labelled values and tables. All texts that come here have been made visible before."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from stepguard.report.screen import Screen, columns, fitted

INDENT = "  "
_LABEL_WIDTH = 12
_GAP = "  "
_MIN_COLUMN = 6


def section(title: str, lines: Iterable[str], screen: Screen) -> Iterator[str]:
    """A heading and what is under it, a blank line before; nothing where there is nothing."""
    body = [line for line in lines if line]
    if body:
        yield ""
        yield screen.emphasized(title)
        yield from body


def labelled(label: str, value: str, screen: Screen) -> Iterator[str]:
    """A label and its value, wrapped beneath itself; nothing for an empty value."""
    if value:
        yield from wrapped(value, f"{INDENT}{label:<{_LABEL_WIDTH}}", screen)


def wrapped(text: str, head: str, screen: Screen) -> list[str]:
    """A text behind a head, in as many lines as it takes."""
    if screen.width is None:
        return [head + text]
    indent = " " * columns(head)
    return textwrap.wrap(text, screen.width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False) or [
        head
    ]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], screen: Screen, indent: str = "") -> Iterator[str]:
    """Rows under a header; columns that hold nothing are left out, and on a terminal the widest are cut."""
    used = [number for number in range(len(header)) if any(row[number] for row in rows)]
    cells = [[row[number] for number in used] for row in [header, *rows]]
    widths = [max(columns(row[number]) for row in cells) for number in range(len(used))]
    if screen.width is not None:
        left = screen.width - len(indent) - len(_GAP) * (len(used) - 1)
        while sum(widths) > left and max(widths) > _MIN_COLUMN:
            widths[widths.index(max(widths))] -= 1
    for number, row in enumerate(cells):
        line = indent + _GAP.join(_cell(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        yield screen.emphasized(line) if number == 0 else line


def shortened(text: str, width: int) -> str:
    """A text that takes no more columns than that; one that was cut ends in ~."""
    return text if columns(text) <= width else fitted(text, width - 1) + "~"


def _cell(text: str, width: int) -> str:
    text = shortened(text, width)
    return text + " " * (width - columns(text))
