# SPDX-License-Identifier: Apache-2.0
"""Python's statements, in their order."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from stepguard.scripts.python import binding, branches, calls, containers, starts
from stepguard.scripts.python.nodes import string_of
from stepguard.scripts.python.program import Program
from stepguard.scripts.python.things import (
    Code,
    Named,
    Thing,
)


def walk(program: Program, statements: Sequence[ast.stmt]) -> None:
    """Walks statements one after another, until one ends the path."""
    for statement in statements:
        if program.layer.ended or not program.take():
            return
        program.here = statement
        _STATEMENTS.get(type(statement), _other)(program, statement)
        if isinstance(statement, (ast.Break, ast.Continue)):
            return


def _other(program: Program, node: ast.stmt) -> None:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            program.evaluate(child)


# -- assignments ------------------------------------------------------------------------------------------------------


def _assign(program: Program, node: ast.Assign) -> None:
    value = node.value
    if isinstance(value, ast.Tuple) and any(isinstance(target, ast.Tuple) for target in node.targets):
        things = [program.evaluate(item) for item in value.elts]
        for target in node.targets:
            if isinstance(target, ast.Tuple) and len(target.elts) == len(things):
                for one, thing in zip(target.elts, things, strict=True):
                    binding.bind(program, one, thing, program.at(value))
                return
    thing = program.evaluate(value)
    for target in node.targets:
        binding.bind(program, target, thing, program.at(value))
        starts.settings(program, target, thing)


def _annotated(program: Program, node: ast.AnnAssign) -> None:
    if node.value is not None:
        binding.bind(program, node.target, program.evaluate(node.value), program.at(node.value))


def _augmented(program: Program, node: ast.AugAssign) -> None:
    target = node.target
    if isinstance(node.op, ast.BitOr) and containers.is_environ(program, target):
        held = containers.as_dictionary(program, node.value)
        if held is not None:
            containers.into_environ(program, held)
        return
    operation = ast.copy_location(ast.BinOp(target, node.op, node.value), node)
    thing = program.evaluate(operation)
    if isinstance(target, (ast.Name, ast.Attribute)):
        calls.change(program, target, thing)
    else:
        binding.bind(program, target, thing, program.at(node))


def _delete(program: Program, node: ast.Delete) -> None:
    for target in node.targets:
        if isinstance(target, ast.Subscript) and containers.is_environ(program, target.value):
            for key in containers.keys_of(program, target.slice):
                program.assign(f"${key}", ())


def _import(program: Program, node: ast.Import) -> None:
    for alias in node.names:
        package = alias.name.partition(".")[0]
        program.assign(alias.asname or package, Named(alias.name if alias.asname else package))


def _import_from(program: Program, node: ast.ImportFrom) -> None:
    for alias in node.names:
        if alias.name != "*":
            program.assign(alias.asname or alias.name, Named(f"{node.module or ''}.{alias.name}"))


def _global(program: Program, node: ast.Global | ast.Nonlocal) -> None:
    if program.frames:
        program.frames[-1].shared.update(node.names)


# -- functions --------------------------------------------------------------------------------------------------------


def _function(program: Program, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    code = Code(node, calls.defaults_of(program, node.args) | _defaults_by_decorators(program, node))
    program.assign(node.name, code)
    program.waiting[node] = code
    if program.frames:
        program.frames[-1].defined.append(code)


def _defaults_by_decorators(program: Program, node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Thing]:
    """click: @option("--nnodes", default=…) gives the parameter nnodes."""
    found: dict[str, Thing] = {}
    for decorator in node.decorator_list:
        program.evaluate(decorator)
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else ():
            if keyword.arg == "default" and isinstance(decorator, ast.Call):
                flags = [text for argument in decorator.args if (text := string_of(argument))]
                name = max(flags, key=len, default="").lstrip("-").replace("-", "_")
                thing = program.evaluate(keyword.value)
                is_made = isinstance(thing, Code) and isinstance(thing.node, ast.Lambda)
                found[name] = calls.invoke(program, thing, (), {}, program.at(keyword.value)) if is_made else thing  # type: ignore[arg-type]
    return found


def _class(program: Program, node: ast.ClassDef) -> None:
    program.assign(node.name, Code(node))
    layer = program.branch()
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            code = Code(statement, calls.defaults_of(program, statement.args))
            program.methods.setdefault(statement.name, []).append(code)
            program.waiting[statement] = code
        else:
            program.walk((statement,))
    program.leave()
    for name, thing in layer.own.items():  # its names are attributes
        program.assign(name if name[0] in ".$" else f".{name}", thing)


def _return(program: Program, node: ast.Return) -> None:
    thing = program.evaluate(node.value) if node.value is not None else ()
    if program.frames and thing != ():
        program.frames[-1].returned.append(thing)
    calls.leave_call(program)
    program.layer.ended = True


def _raise(program: Program, node: ast.Raise) -> None:
    _other(program, node)
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if isinstance(raised, ast.Name) and raised.id == "SystemExit":
        starts.judge_environment(program)
    program.layer.ended = True


_STATEMENTS: dict[type, Callable[[Program, ast.stmt], None]] = {
    ast.Assign: _assign,  # type: ignore[dict-item]
    ast.AnnAssign: _annotated,  # type: ignore[dict-item]
    ast.AugAssign: _augmented,  # type: ignore[dict-item]
    ast.Delete: _delete,  # type: ignore[dict-item]
    ast.Import: _import,  # type: ignore[dict-item]
    ast.ImportFrom: _import_from,  # type: ignore[dict-item]
    ast.Global: _global,  # type: ignore[dict-item]
    ast.Nonlocal: _global,  # type: ignore[dict-item]
    ast.If: branches.if_,  # type: ignore[dict-item]
    ast.Match: branches.match_,  # type: ignore[dict-item]
    ast.Try: branches.try_,  # type: ignore[dict-item]
    ast.TryStar: branches.try_,  # type: ignore[dict-item]
    ast.For: branches.for_,  # type: ignore[dict-item]
    ast.AsyncFor: branches.for_,  # type: ignore[dict-item]
    ast.While: branches.while_,  # type: ignore[dict-item]
    ast.With: branches.with_,  # type: ignore[dict-item]
    ast.AsyncWith: branches.with_,  # type: ignore[dict-item]
    ast.FunctionDef: _function,  # type: ignore[dict-item]
    ast.AsyncFunctionDef: _function,  # type: ignore[dict-item]
    ast.ClassDef: _class,  # type: ignore[dict-item]
    ast.Return: _return,  # type: ignore[dict-item]
    ast.Raise: _raise,  # type: ignore[dict-item]
}
