# SPDX-License-Identifier: Apache-2.0
"""Python's statements that lead several ways. All are walked, and what they leave is joined."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from stepguard.scripts.python import binding
from stepguard.scripts.python.program import Layer, Program
from stepguard.scripts.python.things import taints_in
from stepguard.scripts.values import CLEAN, Taints, computed


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
    """if, elif, else."""
    if _is_main(node.test):
        program.walk(node.body)
        return
    layers: list[Layer] = []
    placed = program.shell.placed
    number = next(program.shell.branches)
    rest: list[ast.stmt] = [node]
    while len(rest) == 1 and isinstance(rest[0], ast.If):  # elif
        node = rest[0]
        program.shell.placed |= binding.asked(program, node.test)
        layers.append(_arm(program, (number, len(layers)), node.body))
        rest = node.orelse
    layers.append(_arm(program, (number, len(layers)), rest))
    if not any(layer.ended for layer in layers):
        program.shell.placed = placed
    program.merge(layers)


def match_(program: Program, node: ast.Match) -> None:
    """match: any case, or none."""
    program.evaluate(node.subject)
    number = next(program.shell.branches)
    layers = [_arm(program, (number, arm), case.body) for arm, case in enumerate(node.cases)]
    program.merge([*layers, Layer()])


def try_(program: Program, node: ast.Try) -> None:
    """try: the body to its end, or a handler from anywhere in it."""
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
    """for: each known item, or some rounds for all; or none."""
    things, all_of_them = binding.rounds(program, node.iter)
    counts = frozenset(taint for thing in things for taint in taints_in(thing) if taint.is_count)
    layer = program.branch()
    with _loop(program, counts) as rounds:
        for thing in things if all_of_them else things * rounds:
            binding.bind(program, node.target, thing, program.at(node.iter))
            program.walk(node.body)
            layer.ended = False
    program.leave()
    program.merge([layer] if all_of_them else [layer, Layer()])
    program.walk(node.orelse)


def while_(program: Program, node: ast.While) -> None:
    """while: some rounds, or none."""
    layer = program.branch()
    with _loop(program, CLEAN) as rounds:
        for _ in range(rounds):
            program.shell.placed |= binding.asked(program, node.test)
            program.walk(node.body)
            layer.ended = False
    program.leave()
    program.merge([layer, Layer()])
    program.walk(node.orelse)


@contextmanager
def _loop(program: Program, counts: Taints) -> Iterator[int]:
    """A loop that `counts` rounds; how many are walked: in an outer one, what a round leaves to the next is seen."""
    shell, before, placed = program.shell, program.shell.control, program.shell.placed
    shell.control = before | computed(counts)
    program.loops += 1
    yield 2 if program.loops == 1 else 1
    program.loops -= 1
    shell.control, shell.placed = before, placed


def with_(program: Program, node: ast.With | ast.AsyncWith) -> None:
    """with: what is bound, and the body."""
    for item in node.items:
        thing = program.evaluate(item.context_expr)
        if item.optional_vars is not None:
            binding.bind(program, item.optional_vars, thing, program.at(item.context_expr))
    program.walk(node.body)


def _is_main(node: ast.expr) -> bool:
    """__name__ == "__main__"."""
    return isinstance(node, ast.Compare) and isinstance(node.left, ast.Name) and node.left.id == "__name__"
