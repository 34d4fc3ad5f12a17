# SPDX-License-Identifier: Apache-2.0
"""A Python program at one point of its course: what its names, its environment and its files hold.

Names are kept in layers: a branch or a call writes into its own, which is joined with others or dropped at its end. An
attribute has the name ".attribute", whatever has it, and a variable of os.environ the name "$VARIABLE"; both last.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepguard.scripts.origin import Origin
from stepguard.scripts.python import texts
from stepguard.scripts.python.things import (
    Code,
    Dictionary,
    Named,
    Thing,
    added_to,
    either,
    file_key,
    held_by,
    taints_in,
    value_of,
)
from stepguard.scripts.values import CLEAN, MAX_FIELDS, Piece, Taint, Taints, Value, unknown
from stepguard.scripts.variables import TASK, is_stale_count, is_stale_list

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell

# Expressions and statements that are followed in one program, and what else takes as long as one of them.
MAX_STEPS = 100_000
HELD = "_held_by_the_shell_"
_QUOTE = re.compile(rb"[rRbBuUfF]{0,2}(?:\"\"\"|'''|\"|')")


class Layer:
    """What was written since a branch or a call began. `ended`: what follows in the block is not reached."""

    def __init__(self, outer: Layer | None = None) -> None:
        self.own: dict[str, Thing] = {}
        self.outer = outer
        self.ended = False

    def get(self, name: str) -> Thing | None:
        """What a name holds, in this layer or those outside."""
        layer: Layer | None = self
        while layer is not None:
            if name in layer.own:
                return layer.own[name]
            layer = layer.outer
        return None


@dataclass
class Frame:
    """A call that is followed."""

    code: Code
    call_at: int
    parameters: frozenset[str]
    layer: Layer
    shared: set[str] = field(default_factory=set)  # global and nonlocal
    changed: set[str] = field(default_factory=set)  # parameters, in place
    returned: list[Thing] = field(default_factory=list)
    ends: list[Layer] = field(default_factory=list)  # what each `return` leaves behind
    defined: list[Code] = field(default_factory=list)


Walk = Callable[["Program", Sequence[ast.stmt]], None]
Evaluate = Callable[["Program", ast.expr], Thing]


class Program:
    """Its state, and what is asked of it."""

    def __init__(self, data: bytes, origin: Origin, shell: Shell, walk: Walk, evaluate: Evaluate) -> None:
        self.shell = shell
        self._walk = walk
        self._evaluate = evaluate
        self.layer = Layer()
        self.files: dict[str, Value] = {}
        self.printed = CLEAN
        self.exported: dict[str, ast.AST] = {}  # variables of os.environ, and the statements that set them last
        self.here: ast.AST = ast.Pass(lineno=1, col_offset=0)  # the statement that is walked
        self.frames: list[Frame] = []
        self.methods: dict[str, list[Code]] = {}
        self.waiting: dict[ast.AST, Code] = {}  # functions that nothing has called yet
        self.results: dict[tuple[object, ...], Thing] = {}  # of calls with arguments that come from nowhere
        self.loops = 0  # that are walked, one within another
        self.changes = 0  # of what such a call may depend on
        self.acts = 0  # how often something was started or told of peers
        self.spent = False
        self.steps = 0
        self.used: dict[ast.AST, int] = {}  # steps in each function
        self._held: Mapping[str, Value] = {}
        self._data = data
        self._origin = origin
        self._starts = [0]
        for line in data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def walk(self, statements: Sequence[ast.stmt]) -> None:
        """Walks statements one after another, until one ends the path."""
        self._walk(self, statements)

    def evaluate(self, node: ast.expr) -> Thing:
        """What an expression may be; what it starts is noted."""
        return self._evaluate(self, node) if self.take() else ()

    def value(self, node: ast.expr) -> Value:
        """The same as one value."""
        return value_of(self.evaluate(node), self.at(node))

    def unknown(self, node: ast.AST, taints: Taints) -> Value:
        """What an expression is of which no more is known than what it comes from."""
        self.take(len(taints) // 4)
        at = self.at(node)
        return (unknown(at, taints, f"@{at}", quoted=True),)

    def take(self, steps: int = 1) -> bool:
        """Whether there is time left for so many steps."""
        self.steps += steps
        if self.steps > MAX_STEPS:
            self.spent = True
        return not self.spent

    # -- places -------------------------------------------------------------------------------------------------------

    def at(self, node: ast.AST) -> int:
        """Where a node stands in the file."""
        return self._origin.at(self._offset(getattr(node, "lineno", 1), getattr(node, "col_offset", 0)))

    def _offset(self, line: int, column: int) -> int:
        return self._starts[min(line, len(self._starts)) - 1] + column

    def begin(self, node: ast.expr) -> tuple[int, int]:
        """Where the text of a literal begins and where the literal ends."""
        start = self._offset(node.lineno, node.col_offset)
        quote = _QUOTE.match(self._data, start)
        return quote.end() if quote else start, self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    def placed(self, text: str, cursor: int, end: int) -> tuple[list[Piece], int]:
        """A text of a literal with its place, looked for from a place on, and where it ends."""
        self.take((end - cursor) >> 10)
        raw = text.encode("utf-8", "surrogatepass")
        place = self._data.find(raw, cursor, end)
        if self._held and HELD in text:
            place = max(place, cursor)
            return [*texts.held_in(text, HELD, self._held, self._origin.at(place))], place + len(raw)
        if place >= 0:
            return [Piece(text, self._origin.at(place), True)], place + len(raw)
        lines = text.splitlines(keepends=True)
        if len(lines) < 2:
            return [Piece(text, self._origin.at(cursor), True)], cursor
        found: list[Piece] = []
        for line in lines:  # with escapes in it: each line where it stands
            raw = line.rstrip("\n").encode("utf-8", "surrogatepass")
            place = self._data.find(raw, cursor, end) if raw.strip() else -1
            cursor = place + len(raw) if place >= 0 else cursor
            found.append(Piece(line, self._origin.at(place if place >= 0 else cursor), True))
        return found, cursor

    def hold(self, held: Mapping[str, Value]) -> None:
        """What the names stand for that are in the place of what a shell puts into the program."""
        self._held = held
        self.layer.own |= held

    def texts_of_many_lines(self, tree: ast.AST) -> Iterator[tuple[int, int]]:
        """Where the literals stand that have lines of their own."""
        for node in ast.walk(tree):
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno != node.lineno:
                start = self._offset(node.lineno, node.col_offset)
                yield start, self._offset(node.end_lineno or node.lineno, node.end_col_offset or 0)

    # -- names --------------------------------------------------------------------------------------------------------

    def look(self, name: str) -> Thing:
        """What a name holds; one that nothing has set is something from elsewhere."""
        held = self.layer.get(name)
        return held if held is not None else Named(name)

    def share(self, name: str) -> None:
        """A name is changed in place: if it is none of the call's own, the change lasts."""
        if not self.frames:
            return
        frame = self.frames[-1]
        layer: Layer | None = self.layer
        while layer is not None and name not in layer.own:
            layer = layer.outer if layer is not frame.layer else None
        if layer is None:
            frame.shared.add(name)
        elif layer is frame.layer and name in frame.parameters:
            frame.changed.add(name)

    def rebind(self, before: Thing, after: Thing) -> None:
        """What a call was given has been changed in place: so it is for whoever holds it."""
        layer: Layer | None = self.layer
        names: set[str] = set()
        while layer is not None:
            self.take(len(layer.own) // 8)
            names |= {name for name, thing in layer.own.items() if thing is before}
            layer = layer.outer
        for name in names:
            if self.look(name) is before:
                self.share(name)
                self.layer.own[name] = after

    def assign(self, name: str, thing: Thing, anew: bool = False) -> None:
        """Gives a name its value. An attribute keeps what it had, unless `anew`: it may be that of another object."""
        thing = added_to(thing, self.shell.placed)
        taints = taints_in(thing)
        self.take(len(taints) + _size(thing))
        if taints or name[0] == "$":
            self.changes += 1
        if name.startswith("$"):
            self.exported[name[1:]] = self.here
        if name.startswith(".") and not anew:
            before = self.layer.get(name)
            if before is not None:
                thing = either(before, thing, 0)
        self.layer.own[name] = held_by(name.lstrip("$."), thing)

    def environ(self, name: str, at: int) -> Thing:
        """What os.environ has under a name that is read at a place."""
        if TASK.fullmatch(name):
            self.shell.job.reads_task_variable = True
        held = self.layer.get(f"${name}")
        if held is not None:
            return held
        is_count = is_stale_count(name)
        taint = Taint(at, name, is_count, self.shell.guarded_step)
        stale = is_count or is_stale_list(name)
        return (unknown(at, frozenset((taint,)) if stale else CLEAN, name, quoted=True),)

    def environment(self) -> dict[str, Value]:
        """The variables that the program has set."""
        self.take(len(self.exported))
        return {name: value_of(self.look(f"${name}"), 0) for name in sorted(self.exported)}

    # -- branches -----------------------------------------------------------------------------------------------------

    def branch(self) -> Layer:
        """Begins a path; what it writes is in the layer that is returned."""
        self.layer = Layer(self.layer)
        return self.layer

    def leave(self) -> None:
        """Ends a path, without what it wrote."""
        assert self.layer.outer is not None
        self.layer = self.layer.outer

    def merge(self, layers: Sequence[Layer]) -> None:
        """Goes on from whichever of the paths was taken."""
        reached = [layer for layer in layers if not layer.ended]
        if not reached:
            self.layer.ended = True
            reached = list(layers)  # what is set lasts until the end of the program
        names = dict.fromkeys(name for layer in reached for name in layer.own)
        self.take(len(names) * len(reached) // 4)
        for name in names:
            things: list[Thing] = []
            for layer in reached:
                if name in layer.own:
                    things.append(layer.own[name])
                elif (before := self.layer.get(name)) is not None:
                    things.append(before)
            thing = things[0]
            for other in things[1:]:
                if other is not thing:
                    self.take(1 + (_size(thing) + _size(other)) // 4)
                    thing = either(thing, other, 0)
            if name.startswith("$SLURM_") and len(things) < len(reached):
                continue  # as Slurm has set it, on one of the paths
            self.layer.own[name] = thing

    def write(self, path: Thing, content: Value, at: int) -> None:
        """Something is written into a file."""
        key = file_key(path, at)
        before = self.files.get(key, ())
        self.take(len(before) // 8)
        if key and len(before) < MAX_FIELDS:
            self.files[key] = (*before, *content, Piece("\n", at))


def _size(thing: Thing) -> int:
    if isinstance(thing, Dictionary):
        return 4 * len(thing.entries)
    if isinstance(thing, (Code, Named)):
        return 1
    return len(thing.fields) if hasattr(thing, "fields") else len(thing)
