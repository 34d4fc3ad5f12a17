# SPDX-License-Identifier: Apache-2.0
"""Python within a shell script: python -c '…', python - <<EOF."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepguard.scripts.origin import Origin
from stepguard.scripts.python.reader import follow
from stepguard.scripts.values import UNKNOWN, Taints, Value, text_of

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell


def printed_by(shell: Shell, code: Value) -> Taints:
    """What the program's output comes from; what it starts is judged as in any Python program."""
    data, pieces = bytearray(), []
    for piece in code:
        pieces.append((len(data), piece.at))
        data += text_of((piece,)).replace(UNKNOWN, "0").encode("utf-8", "surrogateescape")
    result = follow(bytes(data), Origin(pieces), shell)
    return result.printed
