# SPDX-License-Identifier: Apache-2.0
"""Programs in other languages within a shell script: python -c CODE, perl -e CODE, a file that the script wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.shell import uses
from stepguard.scripts.shell.carriers import program
from stepguard.scripts.shell.tools import calculated, named_within
from stepguard.scripts.values import Field, Value, key_of, taints_of, text_of, unknown

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell

_PYTHON_SOURCE = re.compile(r"-|-[a-zA-Z]*[cm]")  # python -uc CODE
# Of R, Julia, Perl and Matlab: what starts processes on other nodes, or by its name may.
_STARTS_OTHERS = re.compile(
    r"\bmake(?:PSOCK|SOCK|MPI)?[cC]luster\(|\b(?:addprocs|parpool|parcluster)\(|\b(?:ssh|pdsh|mpirun|mpiexec)\s"
    r"|(?:\b|_)(?:start|launch|spawn|deploy|connect)(?:[A-Z_]\w*)?\s*\("
)


def is_script(content: Value) -> bool:
    """Whether a file has text of its own."""
    return any(piece.text for piece in content)


def by_code(shell: Shell, fields: Sequence[Field], stdin: Value, printed: Value, at: int) -> Value:
    """What perl -e CODE and its like print; they read the environment, too."""
    code = " ".join(field.text for field in fields[1:])
    uses.environment(shell, fields[0].text, at, named_in=code)
    named = frozenset().union(*(named_within(field, shell.guarded_step, is_program=True) for field in fields[1:]))
    taints = taints_of(printed) | named
    if _STARTS_OTHERS.search(code):
        uses.note(shell, taints, f"what {fields[0].text} starts", at)
    return (unknown(at, calculated(code, text_of(stdin), taints)),)


def python(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """python -c CODE, a program on stdin, or a file."""
    index, text = _source_of_python(fields)
    if text == "-c" and index + 1 < len(fields):
        index += 1
        code = fields[index].pieces
    elif text in ("", "-"):
        code = stdin
    else:
        code = shell.scope.files.get(key_of(fields[index].pieces), ()) if index < len(fields) else ()
    if not is_script(code):
        return program(shell, fields, stdin, at)
    return python_code(shell, code, fields[index + 1 :], stdin, at)


def python_code(shell: Shell, code: Value, arguments: Sequence[Field], stdin: Value, at: int) -> Value:
    """What a Python program prints; what it starts is judged."""
    from stepguard.scripts.python.inline import printed_by

    inputs = taints_of((*code, *stdin, *(piece for field in arguments for piece in field.pieces)))
    read = () if stdin is code else stdin
    return (unknown(at, calculated(text_of(code), "", inputs | printed_by(shell, code, arguments, read))),)


def _source_of_python(fields: Sequence[Field]) -> tuple[int, str]:
    """Where Python's own options end: at -c, -m, - or a file ("" where there is nothing of it)."""
    position = 1
    while position < len(fields):
        field = fields[position]
        if _PYTHON_SOURCE.fullmatch(field.text):
            return position, f"-{field.text[-1]}" if len(field.text) > 1 else "-"
        if not field.text.startswith("-") and not field.is_unknown and not field.maybe:
            return position, field.text
        position += 2 if field.text in ("-W", "-X") else 1
    return position, ""
