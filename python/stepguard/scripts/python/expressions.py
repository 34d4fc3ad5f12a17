# SPDX-License-Identifier: Apache-2.0
"""What Python's expressions are."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from stepguard.scripts.python import binding, calls, containers, library, texts
from stepguard.scripts.python.program import Program
from stepguard.scripts.python.things import (
    NUMBER,
    Code,
    Dictionary,
    Named,
    Thing,
    added_to,
    either,
    is_value,
    taints_in,
    value_of,
)
from stepguard.scripts.values import (
    CLEAN,
    MAX_FIELDS,
    Array,
    Field,
    Piece,
    Taints,
    bounded,
    computed,
    unknown,
)

_MAX_ROUNDS = 32  # a comprehension over so many known items is made item by item


def evaluate(program: Program, node: ast.expr) -> Thing:
    """What an expression may be; what it starts is noted."""
    return _EXPRESSIONS.get(type(node), _any)(program, node)


def _any(program: Program, node: ast.expr) -> Thing:
    found = CLEAN
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            found |= taints_in(program.evaluate(child))
    return program.unknown(node, found)


def _constant(program: Program, node: ast.Constant) -> Thing:
    value = node.value
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if isinstance(value, str):
        return tuple(program.placed(value, *program.begin(node))[0])
    at = program.at(node)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return (Piece(str(value)[:32], at, True, CLEAN, (), NUMBER),)
    return (unknown(at, quoted=True),)


def _joined_str(program: Program, node: ast.JoinedStr) -> Thing:
    cursor, end = program.begin(node)
    pieces: list[Piece] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            found, cursor = program.placed(str(part.value), cursor, end)
            pieces += found
        elif isinstance(part, ast.FormattedValue):
            pieces += program.value(part.value)
    return bounded(tuple(pieces)) if pieces else ()


def _name(program: Program, node: ast.Name) -> Thing:
    return program.look(node.id)


def _attribute(program: Program, node: ast.Attribute) -> Thing:
    base = program.evaluate(node.value)
    held = program.layer.get(f".{node.attr}")
    if held is not None:
        taints = taints_in(base) if is_value(base) else CLEAN
        return either(held, program.unknown(node, taints), 0) if taints else held
    if node.attr in program.methods and not isinstance(base, Named):
        if calls.is_property(program, node.attr):
            return calls.method(program, node.attr, (), {}, program.at(node))
        return program.methods[node.attr][-1]
    if isinstance(base, Named):
        return Named(f"{base.path}.{node.attr}")
    if isinstance(base, Dictionary) and node.attr in base.entries:  # OmegaConf's
        return base.entries[node.attr]
    return base if is_value(base) or isinstance(base, Array) else program.unknown(node, taints_in(base))


def _binary(program: Program, node: ast.BinOp) -> Thing:
    if isinstance(node.op, ast.BitOr):
        return _union(program, node)
    if isinstance(node.op, ast.Add):
        return _sum(program, node)
    left, right = program.evaluate(node.left), program.evaluate(node.right)
    at = program.at(node)
    one = value_of(left, at)
    if isinstance(node.op, ast.Mod) and any(piece.text and piece.label != NUMBER for piece in one):
        return bounded(texts.percent(one, right, at))
    other = value_of(right, at)
    if isinstance(node.op, ast.Div) and any(piece.text and piece.label != NUMBER for piece in other):
        return bounded((*one, Piece("/", at, True), *other))  # pathlib's
    return program.unknown(node, computed(taints_in(left) | taints_in(right)))


def _union(program: Program, node: ast.BinOp) -> Thing:
    """a | b: of dictionaries, or of sets and numbers."""
    sides = [containers.evaluated(program, side) for side in (node.left, node.right)]
    if isinstance(sides[0], Dictionary) and isinstance(sides[1], Dictionary):
        return containers.united(sides[0], sides[1])
    return program.unknown(node, computed(taints_in(sides[0]) | taints_in(sides[1])))


def _sum(program: Program, node: ast.BinOp) -> Thing:
    """a + b + …: from left to right, however many."""
    operands = [node.right]
    left = node.left
    while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Add):
        operands.append(left.right)
        left = left.left
    held = program.evaluate(left)
    for operand in reversed(operands):
        held = containers.added(program, held, program.evaluate(operand), node)
    return held


def _if_expression(program: Program, node: ast.IfExp) -> Thing:
    asked = binding.asked(program, node.test)
    thing = either(program.evaluate(node.body), program.evaluate(node.orelse), program.at(node))
    return added_to(thing, asked)


def _bool(program: Program, node: ast.BoolOp) -> Thing:
    found = program.evaluate(node.values[0])
    for value in node.values[1:]:
        found = either(found, program.evaluate(value), program.at(node))
    return found


def _question(program: Program, node: ast.expr) -> Thing:
    compared: list[Piece] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            compared += program.value(child)
    program.shell.ask(compared)
    return (unknown(program.at(node), quoted=True),)


def _walrus(program: Program, node: ast.NamedExpr) -> Thing:
    thing = program.evaluate(node.value)
    program.assign(node.target.id, thing)
    return thing


def _lambda(program: Program, node: ast.Lambda) -> Thing:
    return Code(node, calls.defaults_of(program, node.args))


def _comprehension(program: Program, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Thing:
    fields: list[Field] = []
    program.branch()
    for over, is_maybe in _rounds(program, node.generators):
        value = program.value(node.elt)
        if over and not any(piece.taints for piece in value):
            value = (*value, unknown(program.at(node), over, quoted=True))
        fields.append(Field(value or (Piece("", program.at(node), True),), is_maybe))
    program.leave()
    return Array(tuple(fields[:MAX_FIELDS]))


def _dictionary_comprehension(program: Program, node: ast.DictComp) -> Thing:
    held = Dictionary()
    program.branch()
    for over, _ in _rounds(program, node.generators):
        keys, thing = containers.keys_of(program, node.key), program.evaluate(node.value)
        rest = over if keys else over | taints_in(thing)
        held = Dictionary({**held.entries, **dict.fromkeys(keys, thing)}, False, held.rest | rest)
    program.leave()
    return held


def _rounds(program: Program, generators: list[ast.comprehension]) -> Iterator[tuple[Taints, bool]]:
    """Binds the targets of a comprehension, for each of its rounds: what it goes over, whether it may be left out."""
    first, *inner = generators
    for thing in binding.rounds(program, first.iter, _MAX_ROUNDS)[0]:
        binding.bind(program, first.target, thing, program.at(first.iter))
        for condition in first.ifs:
            program.evaluate(condition)
        if not inner:
            yield taints_in(thing), bool(first.ifs) and not taints_in(thing)
            continue
        for over, is_maybe in _rounds(program, inner):
            yield taints_in(thing) | over, is_maybe or bool(first.ifs)


def _inner(program: Program, node: ast.Await | ast.Starred | ast.FormattedValue) -> Thing:
    return program.evaluate(node.value)


def _yield(program: Program, node: ast.Yield | ast.YieldFrom) -> Thing:
    thing = program.evaluate(node.value) if node.value is not None else ()
    if program.frames and thing != ():
        program.frames[-1].returned.append(thing)
    return (unknown(program.at(node)),)


_EXPRESSIONS: dict[type, Callable[[Program, ast.expr], Thing]] = {
    ast.Constant: _constant,  # type: ignore[dict-item]
    ast.JoinedStr: _joined_str,  # type: ignore[dict-item]
    ast.Name: _name,  # type: ignore[dict-item]
    ast.Attribute: _attribute,  # type: ignore[dict-item]
    ast.Subscript: containers.subscript,  # type: ignore[dict-item]
    ast.List: containers.list_,  # type: ignore[dict-item]
    ast.Tuple: containers.list_,  # type: ignore[dict-item]
    ast.Set: containers.list_,  # type: ignore[dict-item]
    ast.Dict: containers.dictionary,  # type: ignore[dict-item]
    ast.BinOp: _binary,  # type: ignore[dict-item]
    ast.IfExp: _if_expression,  # type: ignore[dict-item]
    ast.BoolOp: _bool,  # type: ignore[dict-item]
    ast.Compare: _question,
    ast.NamedExpr: _walrus,  # type: ignore[dict-item]
    ast.Lambda: _lambda,  # type: ignore[dict-item]
    ast.ListComp: _comprehension,  # type: ignore[dict-item]
    ast.SetComp: _comprehension,  # type: ignore[dict-item]
    ast.GeneratorExp: _comprehension,  # type: ignore[dict-item]
    ast.DictComp: _dictionary_comprehension,  # type: ignore[dict-item]
    ast.Await: _inner,  # type: ignore[dict-item]
    ast.Starred: _inner,  # type: ignore[dict-item]
    ast.FormattedValue: _inner,  # type: ignore[dict-item]
    ast.Yield: _yield,  # type: ignore[dict-item]
    ast.YieldFrom: _yield,  # type: ignore[dict-item]
    ast.Call: library.call,  # type: ignore[dict-item]
}
