# SPDX-License-Identifier: Apache-2.0
"""The marks that a mail or a ticket puts before the lines that it quotes."""

from __future__ import annotations

import re

# `> `, `>> `, `> > `, ">" alone; of blanks behind them one is the mark's, the others indent what is quoted.
_MARKS = rb"^[ \t]{0,8}>(?: {0,2}>){0,31}"
_MARKED = re.compile(_MARKS + rb" ?", re.MULTILINE)
# Of mailers that put no blank behind the mark: all are what is quoted.
_BLANKLESS = re.compile(_MARKS, re.MULTILINE)
_IS_BLANKLESS = re.compile(_MARKS + rb"[^> \t\r\n]", re.MULTILINE)
# One of these is in a text with marks: a look at each line of a large log would take its time.
_SEEN = (b"\n>", b" >", b"\t>")
# `| `, as some trackers and chats quote: no mark unless every line has one, for tables have bars of their own.
_BAR = re.compile(rb"^\|(?: |(?=\r?$))", re.MULTILINE)
_WITHOUT_BAR = re.compile(rb"^(?!\| |\|?\r?$)", re.MULTILINE)
# The end of a line that is no row of a table.
_OPEN_END = re.compile(rb"[^|\s][ \t\r]*$", re.MULTILINE)


def unquoted(content: bytes) -> bytes:
    """The text without the marks of quotations, line by line: the number of lines stays. No tool and no log has a line
    that begins with ">", so that it does not matter how many of the lines are quoted."""
    if content.startswith(b"|") and not _WITHOUT_BAR.search(content) and _OPEN_END.search(content):
        content = _BAR.sub(b"", content)
    if content.startswith(b">") or any(seen in content for seen in _SEEN):
        return (_BLANKLESS if _IS_BLANKLESS.search(content) else _MARKED).sub(b"", content)
    return content
