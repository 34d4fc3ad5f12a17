# SPDX-License-Identifier: Apache-2.0
"""What each kind of statement does in a shell; branching.py has those that have more than one way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from stepguard.scripts.shell import assigning, branching, commands
from stepguard.scripts.shell.tree import (
    Calculation,
    Case,
    Chain,
    Command,
    For,
    Function,
    Group,
    If,
    Loop,
    Pipeline,
    Redirect,
    Redirected,
    Statement,
    Test,
)
from stepguard.scripts.values import Piece, Value, carried, key_of, taints_of, text_of, unknown

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell


def _command(shell: Shell, statement: Command, stdin: Value) -> Value:
    if statement.declares:
        assigning.declare(shell, statement)
        return ()
    if not statement.words:
        for assignment in statement.assignments:
            assigning.assign(shell, assignment)
        return ()
    possible = shell.expander.commands(statement.words)
    given: dict[str, Value] = {}
    for assignment in statement.assignments:
        given[assignment.name] = carried(assignment.name, shell.value(assignment.value))
    if len(possible) == 1:
        return commands.run(shell, possible[0], given, stdin, statement.at) if possible[0] else ()
    run = partial(commands.run, shell, given=given, stdin=stdin, at=statement.at)
    names = {fields[0].text if fields else "" for fields in possible}
    ways = [partial(run, fields) if fields else tuple for fields in possible]
    return branching.any_of(shell, ways, apart=len(names) > 1)


def _redirected(shell: Shell, statement: Redirected, stdin: Value) -> Value:
    targets: list[str] = []
    for redirect in statement.redirects:
        if redirect.operator in ("<<", "<<<", "<"):
            stdin = _input(shell, redirect)
        elif redirect.operator == "<&":
            stdin = shell.scope.files.get(f"&{key_of(shell.value(redirect.target))}", stdin)
        elif redirect.operator.endswith("<"):
            shell.scope.files[f"&{redirect.operator[:-1]}"] = _input(shell, redirect)
        elif redirect.operator[0].isdecimal():
            _open(shell, redirect)
        elif redirect.operator == ">&":
            target = key_of(shell.value(redirect.target))
            opened = shell.scope.files.get(f">&{target}")
            targets += [f">>{text_of(opened)}"] if opened else [] if target.isdecimal() else [f">{target}"]
        else:
            targets.append(redirect.operator + key_of(shell.value(redirect.target)))
    body = statement.body
    printed = shell.step(body, stdin)
    if isinstance(body, Command) and not body.words and not body.assignments:
        printed = stdin  # $(< file)
    for target in targets:
        appends, name = target.startswith(">>"), target.lstrip(">&")
        before = shell.scope.files.get(name, ()) if appends else ()
        shell.write(name, (*before, *printed))
        printed = ()
    return printed


def _open(shell: Shell, redirect: Redirect) -> None:
    """exec 3> FILE: what is written to >&3 from here on goes there."""
    descriptor = redirect.operator.rstrip(">")
    file = key_of(shell.value(redirect.target))
    if not redirect.operator.endswith(">>"):
        shell.write(file, ())
    shell.scope.files[f">&{descriptor}"] = (Piece(file, -1, True),)


def _input(shell: Shell, redirect: Redirect) -> Value:
    value = shell.value(redirect.target)
    if not redirect.operator.startswith("<<"):
        return shell.scope.files.get(key_of(value), ())
    return value


def _function(shell: Shell, statement: Function, _: Value) -> Value:
    shell.scope.functions[statement.name] = statement
    return ()


def _pipeline(shell: Shell, statement: Pipeline, stdin: Value) -> Value:
    value = stdin
    last = len(statement.stages) - 1
    for index, stage in enumerate(statement.stages):
        run = partial(shell.step, stage, value)
        value = run() if not last or (index == last and shell.keeps_last_stage) else shell.aside(run)
    return value


def _group(shell: Shell, statement: Group, stdin: Value) -> Value:
    if statement.subshell:
        return shell.aside(lambda: shell.run(statement.body, stdin))
    return shell.run(statement.body, stdin)


def _test(shell: Shell, statement: Test, _: Value) -> Value:
    compared = [piece for word in statement.words for piece in shell.value(word)]
    shell.ask(compared)
    if statement.matches:
        shell.assign("BASH_REMATCH", (unknown(statement.words[0].at, taints_of(compared), "BASH_REMATCH"),))
    return ()


def _calculation(shell: Shell, statement: Calculation, _: Value) -> Value:
    shell.expander.arithmetic(statement.arithmetic)
    return ()


RUN: dict[type, Callable[[Shell, Statement, Value], Value]] = {
    Command: _command,  # type: ignore[dict-item]
    Redirected: _redirected,  # type: ignore[dict-item]
    Function: _function,  # type: ignore[dict-item]
    Pipeline: _pipeline,  # type: ignore[dict-item]
    Chain: branching.chain,  # type: ignore[dict-item]
    If: branching.if_,  # type: ignore[dict-item]
    Case: branching.case,  # type: ignore[dict-item]
    For: branching.for_,  # type: ignore[dict-item]
    Loop: branching.loop,  # type: ignore[dict-item]
    Group: _group,  # type: ignore[dict-item]
    Test: _test,  # type: ignore[dict-item]
    Calculation: _calculation,  # type: ignore[dict-item]
}
