# SPDX-License-Identifier: Apache-2.0
"""Follows a script as a shell would run it, over all branches, without running anything.

Each statement is walked once for each way that leads to it; what both branches of an `if` may leave behind is joined.
The work is bounded: a script that needs more is read in part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import count

from stepguard.scripts.facts import Job, Setup
from stepguard.scripts.origin import Origin
from stepguard.scripts.scope import Budget, Scope
from stepguard.scripts.shell import commands, setup
from stepguard.scripts.shell.expand import Expander
from stepguard.scripts.shell.reader import read
from stepguard.scripts.shell.statements import RUN
from stepguard.scripts.shell.tree import (
    Statement,
    Substitution,
)
from stepguard.scripts.values import (
    AS_POINT,
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
    placing,
    text_of,
)

_MAX_PIECES = 4096  # of a file or of what a command prints
_MAX_DEPTH = 60  # of calls, branches, and scripts within scripts
_NOTHING: Value = ()


class Shell:
    """One shell process. `in_step`: it is a task of a step, or what a task starts."""

    def __init__(self, job: Job, scope: Scope, budget: Budget, in_step: bool = False, depth: int = 0) -> None:
        self.job = job
        self.scope = scope
        self.budget = budget
        self.in_step = in_step
        self.guarded_step = False
        self.branch: tuple[tuple[int, int], ...] = ()
        self.control: Taints = CLEAN  # what decides how often the statement that runs is reached
        self.looped: Taints = CLEAN  # what a counter counts that each round of the loop changes
        self.asked: Taints = CLEAN  # the nodes among which the last question looked for this host
        self.placed: Taints = CLEAN  # those of the questions that decide whether the statement that runs is reached
        self.whole = True
        self.aliases: dict[str, Value] = {}
        self._readers: dict[str, Sequence[Statement]] = {}  # of what is written to the files of >(…)
        self.inner_jobs: list[Job] = []
        self.called: set[str] = set()
        self.keeps_last_stage = False  # … | read NAME sets this shell's own (zsh, ksh, shopt -s lastpipe)
        self._locals: dict[str, tuple[Value | Array | None, bool]] | None = None  # what they hide, if it was exported
        self._depth = depth
        self._argument_ats: set[int] = set()  # where the words stand that the function was called with
        self.expander = Expander(self)
        self.branches = count()
        self.fields = self.expander.fields
        self.value = self.expander.value
        self.lookup = self.expander.lookup

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
            printed += RUN[type(statement)](self, statement, stdin)
            if len(printed) > _MAX_PIECES:
                del printed[_MAX_PIECES:]
        self._depth -= 1
        return tuple(printed)

    def step(self, statement: Statement, stdin: Value) -> Value:
        """Runs one statement; what it prints."""
        return RUN[type(statement)](self, statement, stdin)

    def output(self, statements: Sequence[Statement]) -> Value:
        """What $(…) becomes."""
        value = self.aside(lambda: self.run(statements))
        last = value[-1] if value else None
        if last is not None and last.text is not None and last.text.endswith("\n"):
            value = (*value[:-1], last._replace(text=last.text.rstrip("\n")))
        return value

    def as_file(self, content: Value, process: Substitution) -> Value:
        """The name of a file with this content, for <(…), or whose content is read, for >(…)."""
        name = f"/dev/fd/{process.at}"
        self.scope.files[name] = content
        if process.reads:
            self._readers[name] = process.body
        return (Piece(name, process.at, True),)

    def write(self, file: str, content: Value) -> None:
        """Makes this the content of a file."""
        self.scope.files[file] = content[:_MAX_PIECES]
        if file in self._readers:
            self.aside(lambda: self.run(self._readers[file], content))

    def assign(self, name: str, value: Value | Array) -> None:
        self.budget.take(
            len(value.fields) >> 3 if isinstance(value, Array) else sum(len(piece.taints) for piece in value) >> 4
        )
        variable = self.scope.references.get(name, name)
        if self.placed and not isinstance(value, Array):
            value = tuple(piece._replace(taints=piece.taints | self.placed) for piece in value)
        self.scope.variables[variable] = self.scope.variables[name] = (
            value._replace(
                fields=tuple(field._replace(pieces=carried(name, field.pieces)) for field in value.fields[:MAX_FIELDS])
            )
            if isinstance(value, Array)
            else bounded(carried(name, value))
        )
        if self.scope.exports_all:
            self.scope.exported.add(variable)

    def hide(self, name: str) -> bool:
        """Makes a variable one of the function that runs; whether it was none of it before."""
        if self._locals is None or name in self._locals or not name.isidentifier():
            return False
        self._locals[name] = (self.scope.variables.get(name), name in self.scope.exported)
        return True

    def _uncover(self) -> None:
        """Gives back what the variables of a function hid."""
        for name, (value, exported) in (self._locals or {}).items():
            self.scope.exported.discard(name)
            self.scope.exported.update((name,) if exported else ())
            self.scope.variables.pop(name, None)
            if value is not None:
                self.scope.variables[name] = value

    def nested(self, value: Value, shell: Shell | None = None, stdin: Value = _NOTHING) -> Value:
        """Runs text as a script: in this shell, or in `shell`."""
        shell = shell or self
        data = bytearray()
        pieces: list[tuple[int, int]] = []
        points: set[int] = set()
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
            if piece.label == AS_POINT:
                points.add(len(data))
            data += text.encode("utf-8", "surrogateescape")
        if not self.budget.take(1, len(data)):
            return ()
        reading = read(bytes(data), Origin(pieces, as_points=frozenset(points)))
        if reading.broken_at >= 0:
            self.budget.unread.append(reading.broken_at)
        self.whole = self.whole and reading.whole
        shell.scope.variables.update(bound)
        return shell.run(reading.statements, stdin)

    def nested_apart(self, value: Value, stdin: Value = _NOTHING) -> Value:
        """Runs text as a script in a shell of its own."""
        child = self.child()
        printed = child.nested(value, child, stdin)
        self.whole = self.whole and child.whole
        return printed

    def start(self, fields: Sequence[Field], stdin: Value, at: int) -> Value:
        """Runs a command whose words are known; what it prints."""
        return commands.run(self, fields, {}, stdin, at)

    def child(self, in_step: bool | None = None, job: Job | None = None) -> Shell:
        """A shell that is started as a program."""
        self.budget.take(len(self.scope.exported) >> 3)
        shell = Shell(
            job or self.job,
            self.scope.child(),
            self.budget,
            self.in_step if in_step is None else in_step,
            self._depth + 1,
        )
        shell._argument_ats = self._argument_ats
        shell.guarded_step = self.guarded_step
        shell.branch, shell.control, shell.branches = self.branch, self.control, self.branches
        shell.placed = self.placed
        shell.inner_jobs, shell.called = self.inner_jobs, self.called
        return shell

    def call(self, name: str, arguments: Sequence[Field], stdin: Value) -> Value:
        """Calls a function of the script."""
        function = self.scope.functions[name]
        self.called.add(name)
        placed = self.placed
        before, ats_before, references = self.scope.positional, self._argument_ats, self.scope.references
        locals_before, self._locals = self._locals, {}
        self.scope.positional = tuple(arguments)
        self._argument_ats = {piece.at for field in arguments for piece in field.pieces}
        # A recursion adds nothing.
        del self.scope.functions[name]
        printed = self.run(function.body, stdin)
        self.scope.functions.setdefault(name, function)
        self._uncover()
        self._locals, self.placed = locals_before, placed
        self.scope.positional, self._argument_ats, self.scope.references = before, ats_before, references
        self.scope.ended = False
        return printed

    def is_argument(self, piece: Piece) -> bool:
        """Whether it is a part of what the function was called with that runs."""
        return piece.at in self._argument_ats

    def prepare(self, name: str, fields: Sequence[Field], at: int) -> None:
        """Notes a command that prepares a node outside of a step."""
        if not self.in_step and (told := setup.of_command(name, fields[1:], self.scope.variables)):
            self.job.setups.setdefault(at, Setup(at, told))

    def ask(self, compared: Sequence[Piece]) -> None:
        """Notes what a question compares."""
        self.asked |= placing(compared)

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

    def aside(self, action: Callable[[], Value]) -> Value:
        """Runs something whose changes are its own, but for the files."""
        kept, kept_locals = self.scope, self._locals
        self.scope = self.snapshot()
        self._locals = None if kept_locals is None else dict(kept_locals)
        try:
            return action()
        finally:
            kept.files = self.scope.files
            self.scope, self._locals = kept, kept_locals

    def snapshot(self) -> Scope:
        """The scope as it is now. With many variables that is work, too."""
        self.budget.take(len(self.scope.variables) >> 8)
        return self.scope.copy()
