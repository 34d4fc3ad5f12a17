# SPDX-License-Identifier: Apache-2.0
"""Follows a script as a shell would run it, over all branches, without running anything.

Each statement is walked once for each way that leads to it; what both branches of an `if` may leave behind is joined.
The work is bounded: a script that needs more is read in part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import count

from stepguard.scripts import commands, setup
from stepguard.scripts.expand import Expander
from stepguard.scripts.facts import Job, Setup
from stepguard.scripts.origin import Origin
from stepguard.scripts.reader import read
from stepguard.scripts.scope import Scope
from stepguard.scripts.tree import (
    Assignment,
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
from stepguard.scripts.values import (
    CLEAN,
    MAX_FIELDS,
    UNKNOWN,
    Array,
    Field,
    Piece,
    Taints,
    Value,
    bounded,
    carried,
    computed,
    flat,
    key_of,
    taints_of,
    text_of,
    unknown,
)

_MAX_PIECES = 4096  # of a file or of what a command prints
_MAX_DEPTH = 60  # of calls, branches, and scripts within scripts
_NOTHING: Value = ()


class Budget:
    """How much may still be done for one file; `spent` when it was not enough."""

    def __init__(self, statements: int, nested_bytes: int) -> None:
        self._statements = statements
        self._nested_bytes = nested_bytes
        self.spent = False

    def take(self, statements: int, nested_bytes: int = 0) -> bool:
        self._statements -= statements
        self._nested_bytes -= nested_bytes
        if self._statements < 0 or self._nested_bytes < 0:
            self.spent = True
        return not self.spent


class Shell:
    """One shell process. `in_step`: it is a task of a step, or what a task starts."""

    def __init__(self, job: Job, scope: Scope, budget: Budget, in_step: bool = False, depth: int = 0) -> None:
        self.job = job
        self.scope = scope
        self.budget = budget
        self.in_step = in_step
        self.guarded_step = False
        self.branch: tuple[tuple[int, int], ...] = ()
        self.control: Taints = CLEAN
        self.whole = True
        self.inner_jobs: list[Job] = []
        self.called: set[str] = set()
        self._depth = depth
        self._expander = Expander(self)
        self._branches = count()
        self.fields = self._expander.fields
        self.value = self._expander.value
        self.lookup = self._expander.lookup

    # -- what others ask for ------------------------------------------------------------------------------------------

    def run(self, statements: Sequence[Statement], stdin: Value = _NOTHING) -> Value:
        """Runs statements one after another; what they print."""
        printed: list[Piece] = []
        if self._depth >= _MAX_DEPTH:
            self.budget.spent = True
            return ()
        self._depth += 1
        for statement in statements:
            if self.scope.ended or not self.budget.take(1):
                break
            printed += _RUN[type(statement)](self, statement, stdin)
            if len(printed) > _MAX_PIECES:
                del printed[_MAX_PIECES:]
        self._depth -= 1
        return tuple(printed)

    def output(self, statements: Sequence[Statement]) -> Value:
        """What $(…) becomes."""
        value = self.aside(lambda: self.run(statements))
        last = value[-1] if value else None
        if last is not None and last.text is not None and last.text.endswith("\n"):
            value = (*value[:-1], last._replace(text=last.text.rstrip("\n")))
        return value

    def as_file(self, content: Value, at: int) -> Value:
        """The name of a file with this content, for <(…)."""
        name = f"/dev/fd/{at}"
        self.scope.files[name] = content
        return (Piece(name, at, True),)

    def assign(self, name: str, value: Value | Array) -> None:
        self.scope.variables[name] = (
            Array(tuple(field._replace(pieces=carried(name, field.pieces)) for field in value.fields[:MAX_FIELDS]))
            if isinstance(value, Array)
            else bounded(carried(name, value))
        )
        if self.scope.exports_all:
            self.scope.exported.add(name)

    def nested(self, value: Value, shell: Shell | None = None, stdin: Value = _NOTHING) -> Value:
        """Runs text as a script: in this shell, or in `shell`."""
        shell = shell or self
        data = bytearray()
        pieces: list[tuple[int, int]] = []
        bound: dict[str, Value] = {}
        for piece in value:
            text = piece.text
            if text is None and piece.choices and not piece.taints:
                text = text_of((piece,))
            if text is None or UNKNOWN in text:
                name = f"_stepguard_{len(bound)}_{piece.at}"
                bound[name] = (piece._replace(quoted=False),)
                text = "${" + name + "}"
            pieces.append((len(data), piece.at))
            data += text.encode("utf-8", "surrogateescape")
        if not self.budget.take(1, len(data)):
            return ()
        reading = read(bytes(data), Origin(pieces))
        self.whole = self.whole and reading.whole
        shell.scope.variables.update(bound)
        return shell.run(reading.statements, stdin)

    def child(self, in_step: bool | None = None, job: Job | None = None) -> Shell:
        """A shell that is started as a program."""
        shell = Shell(
            job or self.job,
            self.scope.child(),
            self.budget,
            self.in_step if in_step is None else in_step,
            self._depth + 1,
        )
        shell.guarded_step = self.guarded_step
        shell.branch, shell.control, shell._branches = self.branch, self.control, self._branches
        shell.inner_jobs, shell.called = self.inner_jobs, self.called
        return shell

    def call(self, name: str, arguments: Sequence[Field], stdin: Value) -> Value:
        """Calls a function of the script."""
        function = self.scope.functions[name]
        self.called.add(name)
        before = self.scope.positional
        self.scope.positional = tuple(arguments)
        # A recursion adds nothing.
        del self.scope.functions[name]
        printed = self.run(function.body, stdin)
        self.scope.functions.setdefault(name, function)
        self.scope.positional = before
        self.scope.ended = False
        return printed

    def prepare(self, name: str, fields: Sequence[Field], at: int) -> None:
        """Notes a command that prepares a node outside of a step."""
        if not self.in_step and (told := setup.of_command(name, fields[1:], self.scope.variables)):
            self.job.setups.setdefault(at, Setup(at, told))

    def run_mentioned_functions(self, data: bytes) -> None:
        """Functions that nothing was seen to call, but that are named where a program may: export -f, trap, bash -c."""
        for name in list(self.scope.functions):
            if name in self.called:
                continue
            if re.search(
                rb"(?:export\s+-f|declare\s+-f|typeset\s+-f)[^\n]*\b" + re.escape(name.encode()) + rb"\b", data
            ):
                self.scope.ended = False
                self.call(name, (), ())

    # -- statements ---------------------------------------------------------------------------------------------------

    def _command(self, statement: Command, stdin: Value) -> Value:
        if statement.declares:
            self._declare(statement)
            return ()
        if not statement.words:
            for assignment in statement.assignments:
                self._assign(assignment)
            return ()
        fields = self.fields(statement.words)
        given: dict[str, Value] = {}
        for assignment in statement.assignments:
            given[assignment.name] = carried(assignment.name, self.value(assignment.value))
        if not fields:
            return ()
        return commands.run(self, fields, given, stdin, statement.at)

    def _assign(self, assignment: Assignment) -> None:
        name = assignment.name
        old = self.scope.variables.get(name)
        if assignment.array is not None:
            fields = tuple(self.fields(assignment.array))
            if assignment.append:
                before = old if isinstance(old, Array) else Array((Field(old),) if old else ())
                fields = (*before.fields, *fields)
            self.assign(name, Array(fields))
            return
        value = self.value(assignment.value)
        if assignment.subscript:
            before = old if isinstance(old, Array) else Array(())
            self.assign(name, Array((*before.fields, Field(value))))
        elif assignment.append:
            held = self.lookup(name, assignment.at) if old is not None else ()
            self.assign(name, (*flat(held), *value))
        else:
            self.assign(name, value)

    def _declare(self, statement: Command) -> None:
        kind = statement.declares
        flags = [field.text for field in self.fields(statement.words)]
        exports = kind == "export" or any(flag.startswith("-") and "x" in flag for flag in flags)
        for assignment in statement.assignments:
            self._assign(assignment)
        names = [assignment.name for assignment in statement.assignments] + [flag for flag in flags if flag[:1] != "-"]
        for name in names:
            if exports and "-n" not in flags:
                self.scope.exported.add(name)
        if any(name == commands.INHERITED for name in names) and exports:
            commands.inherited(self, statement.at)

    def _redirected(self, statement: Redirected, stdin: Value) -> Value:
        targets: list[str] = []
        for redirect in statement.redirects:
            if redirect.operator in ("<<", "<<<", "<"):
                stdin = self._input(redirect)
            else:
                targets.append(redirect.operator + key_of(self.value(redirect.target)))
        body = statement.body
        printed = _RUN[type(body)](self, body, stdin)
        if isinstance(body, Command) and not body.words and not body.assignments:
            printed = stdin  # $(< file)
        for target in targets:
            appends, name = target.startswith(">>"), target.lstrip(">&")
            before = self.scope.files.get(name, ()) if appends else ()
            self.scope.files[name] = (*before, *printed)[:_MAX_PIECES]
            printed = ()
        return printed

    def _input(self, redirect: Redirect) -> Value:
        value = self.value(redirect.target)
        if redirect.operator == "<":
            return self.scope.files.get(key_of(value), ())
        return value

    def _function(self, statement: Function, _: Value) -> Value:
        self.scope.functions[statement.name] = statement
        return ()

    def _pipeline(self, statement: Pipeline, stdin: Value) -> Value:
        value = stdin
        for stage in statement.stages:
            value = _RUN[type(stage)](self, stage, value)
        return value

    def _chain(self, statement: Chain, stdin: Value) -> Value:
        left = statement.first
        printed = _RUN[type(left)](self, left, stdin)
        decides = _is_question(left)
        for operator, right in statement.rest:
            if self.scope.ended or not self.budget.take(1):
                break
            printed = self._next(right, decides or operator == "||", printed, stdin)
            decides = decides or _is_question(right)
        return printed

    def _next(self, right: Statement, decides: bool, printed: Value, stdin: Value) -> Value:
        """The right side of && or ||; `decides`: whether it may not be reached."""
        states = [self.scope.copy()]
        if decides:
            printed = (*printed, *self._within((next(self._branches), 0), lambda: self.run((right,), stdin)))
        else:
            printed = (*printed, *self.run((right,), stdin))
        if decides or not self.scope.ended:
            # `cd there && X=1`: taken to succeed.
            self.scope.become([*states, self.scope.copy()] if decides else [self.scope.copy()])
        return printed

    def _within(self, place: tuple[int, int], action: Callable[[], Value]) -> Value:
        before = self.branch
        self.branch = (*before, place)
        try:
            return action()
        finally:
            self.branch = before

    def _if(self, statement: If, stdin: Value) -> Value:
        printed: list[Piece] = []
        states: list[Scope] = []
        number = next(self._branches)
        for arm, (condition, body) in enumerate(statement.branches):
            printed += self.run(condition, stdin)
            before = self.scope.copy()
            printed += self._within((number, arm), lambda body=body: self.run(body, stdin))  # type: ignore[misc]
            states.append(self.scope.copy())
            self.scope.become([before])
        printed += self._within((number, len(states)), lambda: self.run(statement.otherwise, stdin))
        states.append(self.scope.copy())
        self.scope.become(states)
        return tuple(printed)

    def _case(self, statement: Case, stdin: Value) -> Value:
        self.value(statement.subject)
        printed: list[Piece] = []
        before = self.scope.copy()
        states: list[Scope] = [] if statement.has_default else [before.copy()]
        number = next(self._branches)
        for arm, body in enumerate(statement.bodies):
            printed += self._within((number, arm), lambda body=body: self.run(body, stdin))  # type: ignore[misc]
            states.append(self.scope.copy())
            self.scope.become([before.copy()])
        self.scope.become(states)
        return tuple(printed)

    def _for(self, statement: For, stdin: Value) -> Value:
        fields = list(self.scope.positional or ()) if statement.words is None else self.fields(statement.words)
        before = self.scope.copy()
        if len(fields) == 1 and not fields[0].maybe:
            value = fields[0].pieces
        elif fields and not any(field.taints for field in fields) and len(fields) <= 8:
            choices = tuple(field.pieces for field in fields)
            value = (Piece(None, fields[0].at, False, CLEAN, choices),)
        else:
            taints = taints_of(piece for field in fields for piece in field.pieces)
            value = (unknown(fields[0].at if fields else 0, taints, statement.name),)
        self.assign(statement.name, value)
        printed = self.run(statement.body, stdin)
        self.scope.become([before, self.scope.copy()])
        return printed

    def _loop(self, statement: Loop, stdin: Value) -> Value:
        control = self.control
        printed = list(self.run(statement.condition, stdin))
        self.control = control | self._condition(statement.condition)
        before = self.scope.copy()
        printed += self.run(statement.body, stdin)
        self.scope.become([before, self.scope.copy()])
        self.control = control
        return tuple(printed)

    def _condition(self, statements: Sequence[Statement]) -> Taints:
        """What decides how often a loop runs, and the variables that count it."""
        taints = CLEAN
        for statement in statements:
            if isinstance(statement, Calculation):
                taints |= self._expander.arithmetic(statement.arithmetic)
                counters = (*statement.arithmetic.sets, *(name for name, _ in statement.arithmetic.reads))
                for name in counters if taints else ():
                    self.assign(name, (unknown(statement.arithmetic.at, taints, name),))
            elif isinstance(statement, Test):
                taints |= taints_of(piece for word in statement.words for piece in self.value(word))
        return computed(taints)

    def _group(self, statement: Group, stdin: Value) -> Value:
        if statement.subshell:
            return self.aside(lambda: self.run(statement.body, stdin))
        return self.run(statement.body, stdin)

    def aside(self, action: Callable[[], Value]) -> Value:
        """Runs something whose changes are its own, but for the files."""
        kept = self.scope
        self.scope = kept.copy()
        try:
            return action()
        finally:
            kept.files = self.scope.files
            self.scope = kept

    def _test(self, statement: Test, _: Value) -> Value:
        for word in statement.words:
            self.value(word)
        return ()

    def _calculation(self, statement: Calculation, _: Value) -> Value:
        self._expander.arithmetic(statement.arithmetic)
        return ()


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


_RUN: dict[type, Callable[[Shell, Statement, Value], Value]] = {
    Command: Shell._command,  # type: ignore[dict-item]
    Redirected: Shell._redirected,  # type: ignore[dict-item]
    Function: Shell._function,  # type: ignore[dict-item]
    Pipeline: Shell._pipeline,  # type: ignore[dict-item]
    Chain: Shell._chain,  # type: ignore[dict-item]
    If: Shell._if,  # type: ignore[dict-item]
    Case: Shell._case,  # type: ignore[dict-item]
    For: Shell._for,  # type: ignore[dict-item]
    Loop: Shell._loop,  # type: ignore[dict-item]
    Group: Shell._group,  # type: ignore[dict-item]
    Test: Shell._test,  # type: ignore[dict-item]
    Calculation: Shell._calculation,  # type: ignore[dict-item]
}
