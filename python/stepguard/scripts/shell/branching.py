# SPDX-License-Identifier: Apache-2.0
"""Statements that lead several ways: && and ||, if, case, for, while. All are walked, what they leave is joined."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.scope import Scope
from stepguard.scripts.shell.tree import (
    Calculation,
    Case,
    Chain,
    Command,
    For,
    Group,
    If,
    Loop,
    Pipeline,
    Redirected,
    Statement,
    Test,
    Text,
)
from stepguard.scripts.values import CLEAN, Piece, Taints, Value, computed, counted, placing, taints_of, unknown

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell


_MAX_WORD = 120  # of what an arm prints, in characters


def chain(shell: Shell, statement: Chain, stdin: Value) -> Value:
    left, placed = statement.first, shell.placed
    shell.asked = CLEAN
    printed = shell.step(left, stdin)
    decides = _is_question(left)
    certain = _always_succeeds(left)
    for operator, right in statement.rest:
        if shell.scope.ended or not shell.budget.take(1):
            break
        asked = shell.asked
        shell.placed |= asked
        printed = _next(shell, right, (decides or operator == "||", certain), printed, stdin)
        decides = decides or _is_question(right)
        certain = certain and _always_succeeds(right)
        shell.asked |= asked
    if not _ends(statement.rest[-1][1]):
        shell.placed = placed
    return printed


def _ends(statement: Statement) -> bool:
    """Whether what stands behind it is reached only where it is not."""
    if isinstance(statement, Group) and not statement.subshell and statement.body:
        return _ends(statement.body[-1])
    if isinstance(statement, Command) and statement.words and statement.words[0].parts:
        return getattr(statement.words[0].parts[0], "text", "") in ("exit", "return", "exec", "break", "continue")
    return False


def _next(shell: Shell, right: Statement, reached: tuple[bool, bool], printed: Value, stdin: Value) -> Value:
    """The right side of && or ||; `reached`: whether it may not be, as one question decides; whether it is for sure."""
    decides, certain = reached
    states = [shell.snapshot()]
    if decides:
        said = _within(shell, (next(shell.branches), 0), lambda: shell.run((right,), stdin))
        printed = (*printed, *_either([(), said]))
    else:
        printed = (*printed, *shell.run((right,), stdin))
    # `cd there && X=1`: taken to succeed. `./done && exit`: not, or nothing would follow.
    if decides or (shell.scope.ended and not certain):
        shell.scope.become([*states, shell.snapshot()])
    return printed


def _within(shell: Shell, place: tuple[int, int], action: Callable[[], Value]) -> Value:
    before = shell.branch
    shell.branch = (*before, place)
    try:
        return action()
    finally:
        shell.branch = before


def any_of(shell: Shell, actions: Sequence[Callable[[], Value]], apart: bool) -> Value:
    """Does one of several things, nobody knows which; `apart`: as in the arms of an if, else it is one thing anyway."""
    printed: list[Piece] = []
    states: list[Scope] = []
    before = shell.snapshot()
    number = next(shell.branches)
    for arm, action in enumerate(actions):
        printed += _within(shell, (number, arm), action) if apart else action()
        states.append(shell.snapshot())
        shell.scope.become([before.copy()])
    shell.scope.become(states)
    return tuple(printed)


def if_(shell: Shell, statement: If, stdin: Value) -> Value:
    printed: list[Piece] = []
    arms: list[Value] = []
    states: list[Scope] = []
    number = next(shell.branches)
    placed = shell.placed
    for arm, (condition, body) in enumerate(statement.branches):
        shell.asked = CLEAN
        printed += shell.run(condition, stdin)
        shell.placed |= shell.asked
        before = shell.snapshot()
        arms.append(_within(shell, (number, arm), lambda body=body: shell.run(body, stdin)))  # type: ignore[misc]
        states.append(shell.snapshot())
        shell.scope.become([before])
    arms.append(_within(shell, (number, len(states)), lambda: shell.run(statement.otherwise, stdin)))
    states.append(shell.snapshot())
    if not any(body and _ends(body[-1]) for _, body in statement.branches):
        shell.placed = placed
    shell.scope.become(states)
    return (*printed, *_either(arms))


def _either(arms: Sequence[Value]) -> Value:
    """What is printed where one of several arms runs: one of their words; all that they say where it is more."""
    words = [_word(arm) for arm in arms]
    if not any(words) or None in words:
        return tuple(piece for arm in arms for piece in arm)
    distinct = tuple(dict.fromkeys(word for word in words if word is not None))
    at = next(piece.at for word in distinct for piece in word)
    return (Piece(None, at, False, CLEAN, distinct), Piece("\n", at))


def _word(printed: Value) -> Value | None:
    """A line without what ends it; None where it is several, or comes from the nodes."""
    text = "".join(piece.text or "\n\n" for piece in printed)
    if "\n" in text[:-1] or len(text) > _MAX_WORD or any(piece.taints for piece in printed):
        return None
    return printed[:-1] if printed and printed[-1].text == "\n" else printed


def case(shell: Shell, statement: Case, stdin: Value) -> Value:
    placed = shell.placed
    shell.placed |= placing([*shell.value(statement.subject), *_patterns(shell, statement)])
    before = shell.snapshot()
    states: list[Scope] = [] if statement.has_default else [before.copy()]
    arms: list[Value] = [()] * len(states)
    number = next(shell.branches)
    for arm, body in enumerate(statement.bodies):
        arms.append(_within(shell, (number, arm), lambda body=body: shell.run(body, stdin)))  # type: ignore[misc]
        states.append(shell.snapshot())
        shell.scope.become([before.copy()])
    shell.scope.become(states)
    shell.placed = placed
    return _either(arms)


def _patterns(shell: Shell, statement: Case) -> Iterator[Piece]:
    """What the patterns of a case may be, other than plain text."""
    for word in statement.patterns:
        if not all(isinstance(part, Text) for part in word.parts):
            yield from shell.value(word)


def for_(shell: Shell, statement: For, stdin: Value) -> Value:
    fields = list(shell.scope.positional or ()) if statement.words is None else shell.fields(statement.words)
    before = shell.snapshot()
    if len(fields) == 1 and not fields[0].maybe:
        value = fields[0].pieces
    elif fields and not any(field.taints for field in fields) and len(fields) <= 8:
        choices = tuple(field.pieces for field in fields)
        value = (Piece(None, fields[0].at, False, CLEAN, choices),)
    else:
        taints = taints_of(piece for field in fields for piece in field.pieces)
        value = (unknown(fields[0].at if fields else 0, taints, statement.name),)
    shell.assign(statement.name, value)
    control, placed = shell.control, shell.placed
    shell.control |= computed(frozenset(taint for taint in taints_of(value) if taint.is_count))
    looped, shell.looped = shell.looped, computed(counted(taints_of(value)))
    printed = shell.run(statement.body, stdin)
    shell.control, shell.placed, shell.looped = control, placed, looped
    shell.scope.become([before, shell.snapshot()])
    return printed


def loop(shell: Shell, statement: Loop, stdin: Value) -> Value:
    control, placed = shell.control, shell.placed
    shell.asked = CLEAN
    printed = list(shell.run(statement.condition, stdin))
    shell.placed |= shell.asked
    shell.control = control | _condition(shell, statement.condition)
    before = shell.snapshot()
    looped, shell.looped = shell.looped, computed(counted(taints_of(stdin)))
    printed += shell.run(statement.body, stdin)
    shell.scope.become([before, shell.snapshot()])
    shell.control, shell.placed, shell.looped = control, placed, looped
    return tuple(printed)


def _condition(shell: Shell, statements: Sequence[Statement]) -> Taints:
    """What decides how often a loop runs, and the variables that count it."""
    taints = CLEAN
    for statement in statements:
        if isinstance(statement, Calculation):
            taints |= shell.expander.arithmetic(statement.arithmetic)
            counters = (*statement.arithmetic.sets, *(name for name, _ in statement.arithmetic.reads))
            for name in counters if taints else ():
                shell.assign(name, (unknown(statement.arithmetic.at, taints, name),))
        elif isinstance(statement, Test):
            taints |= taints_of(piece for word in statement.words for piece in shell.value(word))
    return computed(taints)


def _always_succeeds(statement: Statement) -> bool:
    """Whether what stands behind its && is reached."""
    if isinstance(statement, Redirected):
        return _always_succeeds(statement.body)
    if isinstance(statement, Command) and statement.words and statement.words[0].parts:
        return getattr(statement.words[0].parts[0], "text", "") in ("echo", "printf", "true", ":")
    return False


def _is_question(statement: Statement) -> bool:
    """Whether it is there to be answered, not to be done."""
    if isinstance(statement, (Test, Calculation)):
        return True
    if isinstance(statement, Redirected):
        return _is_question(statement.body)
    if isinstance(statement, Pipeline):
        return _is_question(statement.stages[-1])
    if isinstance(statement, Chain):
        return any(_is_question(part) for part in (statement.first, *(right for _, right in statement.rest)))
    if isinstance(statement, Command) and statement.words and statement.words[0].parts:
        name = getattr(statement.words[0].parts[0], "text", "")
        return name in ("test", "[", "grep", "egrep", "command", "type", "which", "hash", "diff", "cmp", "false")
    return False
