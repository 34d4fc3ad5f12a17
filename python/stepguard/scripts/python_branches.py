# SPDX-License-Identifier: Apache-2.0
"""Python's statements that lead several ways. All are walked, and what they leave is joined."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from stepguard.scripts import python_binding, python_calls
from stepguard.scripts.python_program import Layer, Program
from stepguard.scripts.python_things import (
    Dictionary,
    Thing,
)


def _path(program: Program, statements: Sequence[ast.stmt]) -> Layer:
    layer = program.branch()
    program.walk(statements)
    program.leave()
    return layer


def _arm(program: Program, place: tuple[int, int], statements: Sequence[ast.stmt]) -> Layer:
    """A path that is taken in some runs only: what it starts is conditional."""
    before = program.shell.branch
    program.shell.branch = (*before, place)
    layer = _path(program, statements)
    program.shell.branch = before
    return layer


def if_(program: Program, node: ast.If) -> None:
    if _is_main(node.test):
        program.walk(node.body)
        return
    layers: list[Layer] = []
    number = next(program.shell.branches)
    rest: list[ast.stmt] = [node]
    while len(rest) == 1 and isinstance(rest[0], ast.If):  # elif
        node = rest[0]
        program.evaluate(node.test)
        layers.append(_arm(program, (number, len(layers)), node.body))
        rest = node.orelse
    layers.append(_arm(program, (number, len(layers)), rest))
    program.merge(layers)


def match_(program: Program, node: ast.Match) -> None:
    program.evaluate(node.subject)
    number = next(program.shell.branches)
    layers = [_arm(program, (number, arm), case.body) for arm, case in enumerate(node.cases)]
    program.merge([*layers, Layer()])


def try_(program: Program, node: ast.Try) -> None:
    body = _path(program, node.body)
    within = Layer()
    within.own = dict(body.own)
    # Where it failed is not known: what it set may be there, or not.
    layers: list[Layer] = []
    for handler in node.handlers:
        layer = program.branch()
        program.merge([within, Layer()])
        program.walk(handler.body)
        program.leave()
        layers.append(layer)
    program.layer, outer = body, program.layer
    if not body.ended:
        program.walk(node.orelse)
    program.layer = outer
    program.merge([body, *layers])
    ended, program.layer.ended = program.layer.ended, False
    program.walk(node.finalbody)
    program.layer.ended = program.layer.ended or ended


def for_(program: Program, node: ast.For | ast.AsyncFor) -> None:
    rounds = _rounds(program, node)
    layer = program.branch()
    for target_thing in rounds if rounds is not None else [python_binding.looped(program, node.iter)]:
        python_binding.bind(program, node.target, target_thing, program.at(node.iter))
        program.walk(node.body)
        layer.ended = False
    program.leave()
    program.merge([layer] if rounds else [layer, Layer()])
    program.walk(node.orelse)


def _rounds(program: Program, node: ast.For | ast.AsyncFor) -> list[Thing] | None:
    """The items of a loop over a few that are known."""
    iterated = node.iter
    if (
        isinstance(iterated, ast.Call)
        and isinstance(iterated.func, ast.Attribute)
        and iterated.func.attr in ("items", "keys", "values")
    ):
        held = program.evaluate(iterated.func.value)
        if (
            isinstance(held, Dictionary)
            and 0 < len(held.entries) <= python_binding.MAX_UNROLLED
            and not held.of_environ
        ):
            at = program.at(iterated)
            return [python_calls.entry_of(iterated.func.attr, key, thing, at) for key, thing in held.entries.items()]
        return None
    if isinstance(iterated, (ast.Tuple, ast.List)) and 0 < len(iterated.elts) <= python_binding.MAX_UNROLLED:
        return [program.evaluate(item) for item in iterated.elts]
    return None


def while_(program: Program, node: ast.While) -> None:
    program.evaluate(node.test)
    layer = _path(program, node.body)
    layer.ended = False
    program.merge([layer, Layer()])
    program.walk(node.orelse)


def with_(program: Program, node: ast.With | ast.AsyncWith) -> None:
    for item in node.items:
        thing = program.evaluate(item.context_expr)
        if item.optional_vars is not None:
            python_binding.bind(program, item.optional_vars, thing, program.at(item.context_expr))
    program.walk(node.body)


def _is_main(node: ast.expr) -> bool:
    """__name__ == "__main__"."""
    return isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "__name__"
