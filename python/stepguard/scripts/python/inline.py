# SPDX-License-Identifier: Apache-2.0
"""Python within a shell script: python -c '…', python - <<EOF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.origin import Origin
from stepguard.scripts.python.program import HELD
from stepguard.scripts.python.reader import follow
from stepguard.scripts.python.things import Thing
from stepguard.scripts.values import UNKNOWN, Array, Field, Piece, Taints, Value, taints_of, text_of

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell


def printed_by(shell: Shell, code: Value, arguments: Sequence[Field], stdin: Value) -> Taints:
    """What the program's output comes from; what it starts is judged as in any Python program, what it writes is a file
    of the shell's. `arguments`: those behind the program; `stdin`: what it can read there."""
    data, pieces = bytearray(), []
    held: dict[str, Value] = {}
    for piece in code:
        pieces.append((len(data), piece.at))
        text = text_of((piece,)).replace(UNKNOWN, "0")
        if piece.taints:  # what the shell puts there: a name, be it within a text or not
            text = f"{HELD}{len(held)}_"
            held[text] = (piece._replace(quoted=True),)
        data += text.encode("utf-8", "surrogateescape")
    given: dict[str, Thing] = {".argv": Array((Field((Piece("-", -1, True),)), *arguments))} if arguments else {}
    if taints_of(stdin):
        given[".stdin"] = stdin
    result = follow(bytes(data), Origin(pieces), shell, held, given)
    for file, content in result.files.items():
        shell.write(file, content)
    return result.printed
