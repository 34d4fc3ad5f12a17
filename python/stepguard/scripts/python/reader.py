# SPDX-License-Identifier: Apache-2.0
"""Python programs, by Python's own ast: which values come from the job's variables, and what they decide."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from stepguard.scripts.origin import Origin
from stepguard.scripts.python import calls, starts
from stepguard.scripts.python.expressions import evaluate
from stepguard.scripts.python.program import Program
from stepguard.scripts.python.statements import walk
from stepguard.scripts.python.things import Thing
from stepguard.scripts.values import CLEAN, Taints, Value

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell

Span = tuple[int, int]
_INDENTED = re.compile(rb"(?:[ \t]*\n)+[ \t]+[^\s#]")
_ATTEMPTS = 3  # to find what stands before a fault


@dataclass
class Result:
    """`whole`: all of it was read. `printed`: what its output comes from. `files`: what it wrote. `texts`: where the
    literals of many lines are."""

    whole: bool = True
    printed: Taints = CLEAN
    files: Mapping[str, Value] = field(default_factory=dict)
    texts: tuple[Span, ...] = ()


def follow(
    data: bytes,
    origin: Origin,
    shell: Shell,
    held: Mapping[str, Value] | None = None,
    given: Mapping[str, Thing] | None = None,
) -> Result:
    """Follows a program; what it starts is noted in the shell's job. `held`: what names in it stand for; `given`: what
    attributes hold from the start, as ".argv" for that of sys."""
    tree, broken_line = _parsed(data)
    whole = broken_line == 0
    if broken_line > 0:
        start = sum(len(line) + 1 for line in data.split(b"\n")[: broken_line - 1])
        shell.budget.unread.append(origin.at(min(start, len(data))))
    if tree is None:
        return Result(whole=False)
    program = Program(data, origin, shell, walk, evaluate)
    program.hold(held or {})
    program.layer.own |= given or {}
    try:
        _run(program, tree)
    except RecursionError:  # what nests deeper than anybody writes
        whole = False
    texts = tuple(program.texts_of_many_lines(tree))
    return Result(whole and not program.spent, program.printed, program.files, texts)


@lru_cache(maxsize=1)  # a program that a step starts is followed twice
def _parsed(data: bytes) -> tuple[ast.Module | None, int]:
    """(The program, or as much of it as stands before the first fault; the line of that, 0 without, -1 if unknown)."""
    broken_line = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(_ATTEMPTS):
            try:
                return _tree(data), broken_line
            except SyntaxError as error:
                broken_line = broken_line or error.lineno or -1
                data = _before(data, error.lineno or 1)
            except (ValueError, RecursionError, MemoryError):
                return None, -1
    return None, broken_line


def _tree(data: bytes) -> ast.Module:
    """The program; one that is indented as a whole, too, as python -c takes it since 3.14."""
    if _INDENTED.match(data) is None:
        return ast.parse(data)
    block = ast.parse(b"if 1:" + data)  # on the line before the first statement: no place changes
    first = block.body[0]
    return ast.Module(first.body, []) if isinstance(first, ast.If) and len(block.body) == 1 else ast.parse(data)


def _before(data: bytes, line: int) -> bytes:
    """The statements before the one that a line belongs to."""
    lines = data.split(b"\n")
    first = min(line, len(lines)) - 1
    while first > 0 and lines[first][:1] in (b"", b" ", b"\t", b"#", b")", b"]", b"}"):
        first -= 1
    return b"".join(line + b"\n" for line in lines[:first])


def _run(program: Program, tree: ast.Module) -> None:
    program.walk(tree.body)
    # What nothing has called may be called from elsewhere; what makes an object comes first.
    while program.waiting and not program.spent:
        for node in sorted(program.waiting, key=lambda node: getattr(node, "name", "") != "__init__"):
            if (code := program.waiting.pop(node, None)) is not None:
                calls.invoke(program, code, (), {}, program.at(node))
    starts.judge_environment(program)
