# SPDX-License-Identifier: Apache-2.0
"""Calls in a Python program. What comes from elsewhere and is not known passes on all that it is given."""

from __future__ import annotations

import ast
from dataclasses import replace

from stepguard.scripts.python import calls, containers, starts
from stepguard.scripts.python.call import Call
from stepguard.scripts.python.functions import FUNCTIONS
from stepguard.scripts.python.methods import METHODS
from stepguard.scripts.python.program import Program
from stepguard.scripts.python.things import (
    Code,
    Dictionary,
    Named,
    Thing,
    taints_in,
    value_of,
)
from stepguard.scripts.values import (
    CLEAN,
    text_of,
)


def call(program: Program, node: ast.Call) -> Thing:
    """What a call gives; what it does is noted."""
    code = _code(program, node.func)
    arguments, named = given_to(program, node)
    at = program.at(node)
    if isinstance(code, Code):
        return calls.invoke(program, code, arguments, named, at)
    if code is not None:
        return calls.method(program, code, arguments, named, at)
    return _elsewhere(program, node, arguments, named)


def _code(program: Program, func: ast.expr) -> Code | str | None:
    """The function that is called, or the name of a method; None where it is not the program's own."""
    if isinstance(func, ast.Attribute):
        if containers.path_of(program, func) is not None:
            return None
        held = program.layer.get(f".{func.attr}")
        if isinstance(held, Code):
            return held
        if func.attr not in program.methods:
            return None
        program.evaluate(func.value)
        return func.attr
    if not isinstance(func, (ast.Name, ast.Lambda, ast.Call, ast.IfExp)):
        return None
    found = program.evaluate(func)
    return found if isinstance(found, Code) else None


def given_to(program: Program, node: ast.Call) -> tuple[list[Thing], dict[str, Thing]]:
    """The arguments of a call, those in order and those by name."""
    arguments: list[Thing] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            arguments += [field.pieces for field in containers.items(program, argument)]
        else:
            arguments.append(program.evaluate(argument))
    named: dict[str, Thing] = {}
    for keyword in node.keywords:
        thing = program.evaluate(keyword.value)
        if keyword.arg is not None:
            named[keyword.arg] = thing
        elif isinstance(thing, Dictionary):
            named |= thing.entries
    return arguments, named


def _elsewhere(program: Program, node: ast.Call, arguments: list[Thing], named: dict[str, Thing]) -> Thing:
    """Calls something from elsewhere, or a method of what it gave."""
    func = node.func
    path = containers.path_of(program, func)
    base: Thing | None = None
    if isinstance(func, ast.Attribute):
        if containers.is_environ(program, func.value):
            path = f"os.environ.{func.attr}"
        elif path is None:
            base = program.evaluate(func.value)
    made = Call(program, node, path or "", base, arguments, named, program.at(node))
    if path is not None and (handler := FUNCTIONS.get(path) or FUNCTIONS.get(_builtin(path))):
        return handler(made)
    is_callback = bool(arguments) and isinstance(arguments[0], Code)
    if starts.is_start(made.path, made.name) and not is_callback:
        return starts.start(made)
    if base is not None and (handler := METHODS.get(made.name)):
        return handler(made)
    return _other(made)


def _builtin(path: str) -> str:
    head, _, last = path.rpartition(".")
    if head.endswith("environ"):
        return f"os.environ.{last}"
    return path.removeprefix("builtins.")


def _other(made: Call) -> Thing:
    """Not known: it gives what it was given, and calls the functions that it was given with the rest."""
    if made.name == "add_argument":
        return _add_argument(made)
    first = made.first()
    if isinstance(first, Named) and starts.is_start(first.path, first.last):  # submit(subprocess.run, …)
        return starts.start(replace(made, path=first.path, arguments=made.arguments[1:]))
    starts.peers(made)
    taints = made.taints()
    for thing in (*made.arguments, *made.named.values()):
        if isinstance(thing, Code) and not isinstance(thing.node, ast.ClassDef):
            names = [argument.arg for argument in (*thing.node.args.posonlyargs, *thing.node.args.args)]
            passed: dict[str, Thing] = {
                name: made.unknown(taints) for name in names if taints and name not in thing.defaults
            }
            taints |= taints_in(calls.invoke(made.program, thing, (), passed, made.at))
    return made.unknown(taints)


def _add_argument(made: Call) -> Thing:
    """argparse: an option's default is what the attribute of that name may be."""
    flags = [text_of(value_of(thing, made.at)) for thing in made.arguments]
    name = text_of(value_of(made.named["dest"], made.at)) if "dest" in made.named else max(flags, key=len, default="")
    if "default" in made.named and name:
        made.program.assign("." + name.lstrip("-").replace("-", "_"), made.named["default"])
    return made.unknown(CLEAN)
