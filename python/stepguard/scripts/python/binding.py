# SPDX-License-Identifier: Apache-2.0
"""What the targets of Python's assignments and loops get."""

from __future__ import annotations

import ast

from stepguard.scripts.python import calls, containers
from stepguard.scripts.python.program import Program
from stepguard.scripts.python.things import (
    Dictionary,
    Thing,
    either,
    file_key,
    is_value,
    taints_in,
    value_of,
)
from stepguard.scripts.values import (
    CLEAN,
    Array,
    Field,
    Taints,
    unknown,
)

MAX_UNROLLED = 8  # a loop over so many known items is walked item by item


def bind(program: Program, target: ast.expr, thing: Thing, at: int) -> None:
    """Gives a target its value."""
    if isinstance(target, ast.Name):
        program.assign(target.id, thing)
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(program, target, thing, at)
    elif isinstance(target, ast.Starred):
        bind(program, target.value, thing, at)
    elif isinstance(target, ast.Attribute):
        if containers.is_environ(program, target) and isinstance(thing, Dictionary):
            containers.into_environ(program, thing)
        else:
            program.assign(f".{target.attr}", thing)
    elif isinstance(target, ast.Subscript):
        _set_item(program, target, thing)


def _unpack(program: Program, target: ast.Tuple | ast.List, thing: Thing, at: int) -> None:
    if isinstance(thing, Array) and len(thing.fields) == len(target.elts):
        for one, item in zip(target.elts, thing.fields, strict=True):
            bind(program, one, item.pieces, item.at)
        return
    part: Thing = (unknown(at, taints_in(thing), f"@{at}", quoted=True),)
    for one in target.elts:
        bind(program, one, part, at)


def _set_item(program: Program, target: ast.Subscript, thing: Thing) -> None:
    keys = containers.keys_of(program, target.slice)
    if containers.is_environ(program, target.value):
        for key in keys:
            before = program.layer.get(f"${key}") if len(keys) > 1 else None
            program.assign(f"${key}", thing if before is None else either(before, thing, 0))
        return
    held = program.evaluate(target.value)
    if isinstance(held, Dictionary):
        if keys:
            calls.change(program, target.value, held.with_(dict.fromkeys(keys, thing)))
        else:
            calls.change(program, target.value, Dictionary(held.entries, held.of_environ, held.rest | taints_in(thing)))
    elif taints_in(thing) or isinstance(held, Array):
        at = program.at(target)
        calls.change(
            program, target.value, containers.added(program, held, Array((Field(value_of(thing, at)),)), target)
        )


def asked(program: Program, question: ast.expr) -> Taints:
    """The nodes among which a question looks for this host."""
    program.shell.asked = CLEAN
    program.evaluate(question)
    return program.shell.asked


def rounds(program: Program, node: ast.expr, limit: int = MAX_UNROLLED) -> tuple[list[Thing], bool]:
    """(What a loop variable is, round for round; whether these are all rounds, and made for sure).

    Of more than `limit` items, or of what is not known, there is one that stands for all.
    """
    at = program.at(node)
    if isinstance(node, (ast.Tuple, ast.List)) and 0 < len(node.elts) <= limit:
        return [program.evaluate(item) for item in node.elts], True
    asked = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    if asked in ("items", "keys", "values"):
        held = program.evaluate(node.func.value)  # type: ignore[attr-defined]
        if isinstance(held, Dictionary) and 0 < len(held.entries) <= limit and not held.of_environ:
            return [calls.entry_of(asked, key, thing, at) for key, thing in held.entries.items()], True
        return [(unknown(at, taints_in(held), f"@{at}", quoted=True),)], False
    thing = program.evaluate(node)
    if isinstance(thing, Array) and 0 < len(thing.fields) <= limit:
        return [item.pieces for item in thing.fields], not any(item.maybe for item in thing.fields)
    if is_value(thing) and (content := program.files.get(file_key(thing, at))) is not None:
        return [content], False
    return [(unknown(at, taints_in(thing), f"@{at}", quoted=True),)], False
