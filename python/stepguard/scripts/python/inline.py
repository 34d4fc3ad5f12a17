# SPDX-License-Identifier: Apache-2.0
"""Python within a shell script: python -c '…', python - <<EOF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepguard.scripts.origin import Origin
from stepguard.scripts.python.program import HELD
from stepguard.scripts.python.reader import follow
from stepguard.scripts.values import UNKNOWN, Taints, Value, text_of

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell


def printed_by(shell: Shell, code: Value) -> Taints:
    """What the program's output comes from; what it starts is judged as in any Python program."""
    data, pieces = bytearray(), []
    held: dict[str, Value] = {}
    for piece in code:
        pieces.append((len(data), piece.at))
        text = text_of((piece,)).replace(UNKNOWN, "0")
        if piece.taints:  # what the shell puts there: a name, be it within a text or not
            text = f"{HELD}{len(held)}_"
            held[text] = (piece._replace(quoted=True),)
        data += text.encode("utf-8", "surrogateescape")
    result = follow(bytes(data), Origin(pieces), shell, held)
    return result.printed
