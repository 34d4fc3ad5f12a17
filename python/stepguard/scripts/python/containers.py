# SPDX-License-Identifier: Apache-2.0
"""Lists, dictionaries and the environment of a Python program: what is read from them and put into them."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from stepguard.scripts.python.nodes import name_of
from stepguard.scripts.python.program import Program
from stepguard.scripts.python.things import (
    NUMBER,
    Dictionary,
    Named,
    Thing,
    either,
    fields_of,
    is_value,
    taints_in,
    value_of,
)
from stepguard.scripts.values import (
    MAX_FIELDS,
    Array,
    Field,
    Piece,
    bounded,
    computed,
    host_in,
    texts_of,
    unknown,
)

# What holds the environment, by its full name; a parameter by its own.
ENVIRONS = frozenset(("os.environ", "environ", "os.environb"))
_LIKE_ENVIRON = frozenset(("environ", "env", "environment"))


def is_environ(program: Program, node: ast.expr) -> bool:
    """Whether that is the environment."""
    path = path_of(program, node)
    if path is not None:
        return path in ENVIRONS or (path.rpartition(".")[2] in _LIKE_ENVIRON)
    if name_of(node) in _LIKE_ENVIRON:
        held = program.evaluate(node)
        return is_value(held) and not taints_in(held)
    return False


def keys_of(program: Program, node: ast.expr) -> list[str]:
    """The texts that a key may be."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    value = program.value(node)
    return [text for text in texts_of(value) if text.isidentifier()]


def read_environ(program: Program, node: ast.expr, key: ast.expr) -> Thing:
    """What a variable of the environment is. A name that a function is given is read where the function is called."""
    at = program.at(node)
    frame = program.frames[-1] if program.frames else None
    if frame is not None and isinstance(key, ast.Name) and key.id in frame.parameters:
        at = frame.call_at
    found: Thing | None = None
    for name in keys_of(program, key):
        thing = program.environ(name, at)
        found = thing if found is None else either(found, thing, at)
    return found if found is not None else (unknown(at, label=f"@{at}", quoted=True),)


def subscript(program: Program, node: ast.Subscript) -> Thing:
    """What x[key] is."""
    if is_environ(program, node.value):
        return read_environ(program, node, node.slice)
    base = program.evaluate(node.value)
    at = program.at(node)
    if isinstance(base, Dictionary):
        return entry(program, base, keys_of(program, node.slice), at)
    if isinstance(base, Array):
        return _element(program, base, node)
    if not isinstance(node.slice, (ast.Slice, ast.Constant)):
        program.evaluate(node.slice)
    return (unknown(at, taints_in(base), host_in(value_of(base, at)) or f"@{at}", quoted=True),)


def entry(program: Program, held: Dictionary, keys: Sequence[str], at: int) -> Thing:
    """What a dictionary has under one of the keys."""
    found: Thing | None = None
    for key in keys:
        if key in held.entries:
            thing = held.entries[key]
        elif held.of_environ:
            thing = program.environ(key, at)
        else:
            continue
        found = thing if found is None else either(found, thing, at)
    if found is not None:
        return found
    return (unknown(at, held.rest if keys else taints_in(held), quoted=True),)


def _element(program: Program, base: Array, node: ast.Subscript) -> Thing:
    index = node.slice
    program.take(len(base.fields) // 8)
    certain = not any(field.maybe for field in base.fields)
    if isinstance(index, ast.Slice):
        lower, upper = whole(index.lower), whole(index.upper)
        if certain and index.step is None and lower is not None and upper is not None:
            return Array(base.fields[slice(lower if index.lower else None, upper if index.upper else None)])
        return base
    number = whole(index)
    if certain and index is not None and number is not None and -len(base.fields) <= number < len(base.fields):
        return base.fields[number].pieces
    program.evaluate(index)
    return program.unknown(node, taints_in(base))


def whole(node: ast.expr | None) -> int | None:
    """A whole number that stands there; 0 for nothing."""
    if node is None:
        return 0
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = whole(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None


def list_(program: Program, node: ast.List | ast.Tuple | ast.Set) -> Thing:
    """A list, tuple or set."""
    fields: list[Field] = []
    for item in node.elts:
        fields += items(program, item)
    return Array(tuple(fields))


def items(program: Program, node: ast.expr) -> list[Field]:
    """What an item of a list, or an argument, puts there: *x many."""
    if isinstance(node, ast.Starred):
        return fields_of(program.evaluate(node.value), program.at(node))
    return [Field(program.value(node) or (Piece("", program.at(node), True),))]


def dictionary(program: Program, node: ast.Dict) -> Thing:
    """A dictionary that is written out."""
    held = Dictionary()
    for key, value in zip(node.keys, node.values, strict=True):
        thing = program.evaluate(value)
        if key is None:
            if is_environ(program, value):
                held = Dictionary(held.entries, True, held.rest)
            elif isinstance(thing, Dictionary):
                held = united(held, thing)
            continue
        names = keys_of(program, key)
        if names:
            held.entries.update(dict.fromkeys(names, thing))
        else:
            held = Dictionary(held.entries, held.of_environ, held.rest | taints_in(thing))
    program.take(len(held.entries) // 4)
    return held


def united(one: Dictionary, other: Dictionary) -> Dictionary:
    """one | other."""
    return Dictionary({**one.entries, **other.entries}, one.of_environ or other.of_environ, one.rest | other.rest)


def as_dictionary(program: Program, node: ast.expr) -> Dictionary | None:
    """A dictionary, or the environment as one."""
    thing = evaluated(program, node)
    return thing if isinstance(thing, Dictionary) else None


def evaluated(program: Program, node: ast.expr) -> Thing:
    """What an expression is, the environment as a dictionary."""
    return Dictionary(of_environ=True) if is_environ(program, node) else program.evaluate(node)


def path_of(program: Program, node: ast.expr) -> str | None:
    """The full name of something from elsewhere; None where it is none."""
    if isinstance(node, ast.Name):
        held = program.look(node.id)
        return held.path if isinstance(held, Named) else None
    if isinstance(node, ast.Attribute) and program.layer.get(f".{node.attr}") is None:
        base = path_of(program, node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


def added(program: Program, left: Thing, right: Thing, node: ast.AST) -> Thing:
    """left + right."""
    at = program.at(node)
    if isinstance(left, Array) or isinstance(right, Array):
        fields = (*fields_of(left, at), *fields_of(right, at))
        program.take(len(fields) // 8)
        return Array(fields[:MAX_FIELDS])
    one, other = value_of(left, at), value_of(right, at)
    if any(piece.text is not None and piece.label != NUMBER for piece in (*one, *other)):
        return bounded((*one, *other))
    taints = computed(taints_in(one) | taints_in(other))
    program.take(len(taints) // 4)
    return (unknown(at, taints, f"@{at}", quoted=True),)


def into_environ(program: Program, held: Dictionary) -> None:
    """os.environ.update(held)."""
    for name, thing in held.entries.items():
        program.assign(f"${name}", thing)
