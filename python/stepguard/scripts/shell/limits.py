# SPDX-License-Identifier: Apache-2.0
"""Up to where a script may be given to tree-sitter-bash 0.25, which takes time by the square of some lengths.

Those are of brackets that are not closed, and of pipes, here-strings and =~ one behind another. Nobody writes so many.
"""

from __future__ import annotations

import re

_MAX_OPEN = 200
_MAX_JOINED = 400  # pipes and their like in one statement
# The bracket of a terminal's colours (\e[1m) opens nothing.
_TOKEN = re.compile(
    rb"(?P<opens>[({]|(?<!\\e)(?<!033)(?<!x1b)(?<!x1B)\[)|(?P<closes>[)}\]])|(?P<joins>\|+(?:[ \t]*\n)?|<<<|=~)|[;&\n]"
)


def readable_end(data: bytes) -> int:
    """The offset of the line that would take too long, the length of the data without one."""
    if len(data) <= _MAX_OPEN:
        return len(data)
    open_ = joined = 0
    for token in _TOKEN.finditer(data):
        kind = token.lastgroup
        if kind == "opens":
            open_ += 1
        elif kind == "closes":
            open_ = max(open_ - 1, 0)
        elif kind == "joins":
            joined += 1
        else:
            joined = 0
        if open_ > _MAX_OPEN or joined > _MAX_JOINED:
            return data.rfind(b"\n", 0, token.start()) + 1
    return len(data)
