# SPDX-License-Identifier: Apache-2.0
"""What the names of a Python program hold, by its ast.

Values are followed by name, without regard to order: a name, an attribute, a parameter and a function's result are
tainted once anything tainted is put into them anywhere.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from stepguard.scripts.origin import Origin
from stepguard.scripts.python_ast import is_environ, is_list, is_text, items_of, name_of, returns_of, string_of
from stepguard.scripts.values import (
    CLEAN,
    Field,
    Piece,
    Taint,
    Taints,
    Value,
    computed,
    counted,
    taints_of,
    unknown,
)
from stepguard.scripts.variables import TASK, is_stale_count, is_stale_list

if TYPE_CHECKING:
    from stepguard.scripts.shell import Shell

_MAX_ROUNDS = 6  # of following what goes from name to name
# Of subprocess and os: they take a command, a text for the shell or a list of words.
STARTS = frozenset(
    ("run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput", "system", "popen")
)
EXECS = ("exec", "spawn", "posix_spawn")


@dataclass
class _Held:
    """What each name holds; "$NAME" is a variable of os.environ, "NAME()" what a function returns."""

    taints: dict[str, Taints] = field(default_factory=dict)
    grew: bool = False

    def get(self, name: str) -> Taints:
        return self.taints.get(name, CLEAN)

    def add(self, name: str, taints: Taints) -> None:
        if taints:
            before = self.taints.get(name, CLEAN)
            known = {(taint.at, taint.is_count, taint.computed) for taint in before}
            new = frozenset(t for t in taints if (t.at, t.is_count, t.computed) not in known)
            if new:
                path = frozenset(t._replace(path=(*t.path, name)[-4:]) for t in new)
                self.taints[name] = before | path
                self.grew = True


class Names:
    """A program's names and what they hold."""

    def __init__(self, data: bytes, nodes: list[ast.AST], origin: Origin, shell: Shell) -> None:
        self.nodes = nodes
        self.shell = shell
        self._origin = origin
        self._starts = [0]
        for line in data.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self.held = _Held()
        self.functions = {
            node.name: node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        self.classes = {
            node.name: item
            for node in nodes
            if isinstance(node, ast.ClassDef)
            for item in node.body
            if isinstance(item, ast.FunctionDef) and item.name == "__init__"
        }
        self._lists: dict[str, ast.List | ast.Tuple] = {}
        self.constants: dict[str, str] = {}
        self._texts: dict[str, ast.expr] = {}
        self._returns = returns_of(self.functions)

    # -- values -------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Finds what every name may hold."""
        for node in self.nodes:
            if isinstance(node, (ast.Subscript, ast.Call)):
                self._read(node)
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                if isinstance(node.value, (ast.List, ast.Tuple)):
                    self._lists[node.targets[0].id] = node.value
                elif isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                    self.constants[node.targets[0].id] = node.value.value
                elif isinstance(node.value, (ast.JoinedStr, ast.BinOp)):
                    self._texts[node.targets[0].id] = node.value
        for _ in range(_MAX_ROUNDS):
            self.held.grew = False
            for node in self.nodes:
                self._flow(node)
            if not self.held.grew:
                break

    def _flow(self, node: ast.AST) -> None:
        names = self.held
        if isinstance(node, ast.Assign):
            taints = self.taints(node.value)
            for target in node.targets:
                self._put(target, node.value, taints)
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            if node.value is not None:
                self._put(node.target, node.value, self.taints(node.value))
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            self._put(node.target, node.iter, self.taints(node.iter))
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._put(node.optional_vars, node.context_expr, self.taints(node.context_expr))
        elif isinstance(node, ast.Call):
            self._call(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for returned in self._returns.get(node.name, ()):
                names.add(f"{node.name}()", self.taints(returned))

    def _put(self, target: ast.expr, value: ast.expr, taints: Taints) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                for one, other in zip(target.elts, value.elts, strict=True):
                    self._put(one, other, self.taints(other))
            else:
                for one in target.elts:
                    self._put(one, value, taints)
        elif isinstance(target, ast.Starred):
            self._put(target.value, value, taints)
        elif isinstance(target, ast.Subscript):
            name = string_of(target.slice)
            if is_environ(target.value) and name:
                self.held.add(f"${name}", taints)
            else:
                self._put(target.value, value, taints)
        elif (name := name_of(target)) is not None:
            self.held.add(name, taints)

    def _call(self, node: ast.Call) -> None:
        called = name_of(node.func)
        if called is None:
            return
        function = self.functions.get(called) or self.classes.get(called)
        if function is not None:
            parameters = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
            if parameters[:1] == ["self"] or parameters[:1] == ["cls"]:
                parameters = parameters[1:]
            for parameter, argument in zip(parameters, node.args, strict=False):
                self.held.add(parameter, self.taints(argument))
            for keyword in node.keywords:
                if keyword.arg:
                    self.held.add(keyword.arg, self.taints(keyword.value))
        elif called == "add_argument":
            flags = [text for argument in node.args if (text := string_of(argument))]
            taints = self._keyword(node, "default")
            if flags and taints:
                self.held.add(max(flags, key=len).lstrip("-").replace("-", "_"), taints)
        elif called in ("append", "extend", "insert", "add", "update") and isinstance(node.func, ast.Attribute):
            holder = name_of(node.func.value)
            if holder is not None and not is_environ(node.func.value):
                for argument in node.args:
                    self.held.add(holder, self.taints(argument))
        if (
            called in ("setdefault", "putenv", "__setitem__")
            and len(node.args) == 2
            and (name := string_of(node.args[0]))
        ):
            self.held.add(f"${name}", self.taints(node.args[1]))
        if called == "update" and isinstance(node.func, ast.Attribute) and is_environ(node.func.value):
            for keyword in node.keywords:
                if keyword.arg:
                    self.held.add(f"${keyword.arg}", self.taints(keyword.value))
            for argument in node.args:
                if isinstance(argument, ast.Dict):
                    self._dictionary(argument)

    def _dictionary(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and (name := string_of(key)):
                self.held.add(f"${name}", self.taints(value))

    def _keyword(self, node: ast.Call, name: str) -> Taints:
        return next((self.taints(keyword.value) for keyword in node.keywords if keyword.arg == name), CLEAN)

    def taints(self, node: ast.expr) -> Taints:
        """What an expression comes from."""
        read = self._read(node)
        if read is not None:
            return read
        if isinstance(node, ast.Name):
            return self.held.get(node.id)
        if isinstance(node, ast.Attribute):
            return self.held.get(node.attr) | self.taints(node.value)
        if isinstance(node, ast.BinOp):
            both = self.taints(node.left) | self.taints(node.right)
            return both if isinstance(node.op, (ast.Add, ast.Mod)) and is_text(node) else computed(both)
        if isinstance(node, ast.Call):
            return self.result(node)
        if isinstance(node, (ast.Compare, ast.Constant, ast.Lambda)):
            return CLEAN
        if isinstance(node, ast.IfExp):
            return self.taints(node.body) | self.taints(node.orelse)
        found = CLEAN
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                found |= self.taints(child)
            elif isinstance(child, ast.comprehension):
                found |= self.taints(child.iter)
        return found

    def result(self, node: ast.Call) -> Taints:
        called = name_of(node.func) or ""
        if called in self.functions:
            return self.held.get(f"{called}()")
        words = self.words(node) if called in STARTS else None
        if words is not None:
            return words[1]
        found = CLEAN
        for argument in node.args:
            found |= self.taints(argument.value if isinstance(argument, ast.Starred) else argument)
        for keyword in node.keywords:
            found |= self.taints(keyword.value)
        if isinstance(node.func, ast.Attribute):
            found |= self.taints(node.func.value)
        return counted(found) if called == "len" else found

    def _read(self, node: ast.expr) -> Taints | None:
        """os.environ["X"], os.environ.get("X"), os.getenv("X")."""
        name = None
        if isinstance(node, ast.Subscript) and is_environ(node.value):
            name = string_of(node.slice)
        elif isinstance(node, ast.Call):
            called = name_of(node.func)
            is_get = isinstance(node.func, ast.Attribute) and called in ("get", "pop") and is_environ(node.func.value)
            if (is_get or called == "getenv") and node.args:
                name = string_of(node.args[0])
        if name is None or not name.startswith("SLURM_"):
            return self.held.get(f"${name}") if name else None
        if TASK.fullmatch(name):
            self.shell.job.reads_task_variable = True
        if f"${name}" in self.held.taints or not (is_stale_list(name) or is_stale_count(name)):
            return CLEAN
        return frozenset((Taint(self.at(node), name, is_stale_count(name)),))

    def at(self, node: ast.AST) -> int:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        return self._origin.at(self._starts[min(line, len(self._starts)) - 1] + column)

    def words(self, node: ast.Call) -> tuple[list[Field], Taints, bool] | None:
        """(The fields of the command that a call starts, what its output comes from, whether it is a shell's text)."""
        if not node.args:
            return None
        called = name_of(node.func) or ""
        arguments = node.args
        if called.startswith(EXECS) and called[-2:] not in ("ve", "vp", "pe") and not called.endswith("v"):
            fields = [self.field_of(argument) for argument in arguments[1:]]
            return fields, CLEAN, False
        first = arguments[1] if called.startswith(EXECS) and len(arguments) > 1 else arguments[0]
        if isinstance(first, ast.Name) and first.id in self._lists:
            first = self._lists[first.id]
        if (
            isinstance(first, ast.Call)
            and name_of(first.func) == "split"
            and first.args
            and isinstance(first.func, ast.Attribute)
        ):
            first = first.args[0] if name_of(first.func.value) == "shlex" else first.func.value
            return self._text(first)
        if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add) and is_list(first):
            fields = [self.field_of(item) for item in items_of(first)]
        elif isinstance(first, (ast.List, ast.Tuple)):
            fields = [self.field_of(item) for item in first.elts]
        else:
            return self._text(first)
        return fields, self._output(fields), False

    def _text(self, node: ast.expr) -> tuple[list[Field], Taints, bool]:
        whole = self.field_of(node)
        text = whole.text
        if "scontrol" in text and "show" in text and _asks_for_the_job(text):
            return [whole], CLEAN, True
        return [whole], self._inner_output(whole), True

    def _output(self, fields: list[Field]) -> Taints:
        texts = [item.text for item in fields]
        if texts[:1] and texts[0].endswith("scontrol") and "hostnames" not in texts and "hostname" not in texts:
            return CLEAN
        if texts[:1] and texts[0].endswith("scontrol") and len(texts) == 3:
            at = fields[0].at
            return frozenset((Taint(at, "SLURM_JOB_NODELIST", False),))
        if texts[:1] and texts[0].endswith("stepguard"):
            return CLEAN
        if len(texts) > 2 and texts[1] == "-c":
            return self._inner_output(fields[2])
        return taints_of(piece for item in fields for piece in item.pieces)

    def _inner_output(self, whole: Field) -> Taints:
        """What a shell's text prints."""
        shell = self.shell.child()
        return taints_of(shell.nested(whole.pieces, shell)) if self.shell.budget.take(1) else CLEAN

    def field_of(self, node: ast.expr) -> Field:
        return Field(tuple(self._pieces(node)) or (Piece("", self.at(node)),))

    def _pieces(self, node: ast.expr) -> Value:
        at = self.at(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return (Piece(node.value, at + 1, False),)
        if isinstance(node, ast.JoinedStr):
            found: list[Piece] = []
            for value in node.values:
                if isinstance(value, ast.Constant):
                    found.append(Piece(str(value.value), at + 2 if not found else at, False))
                else:
                    found += self._pieces(value)
            return tuple(found)
        if isinstance(node, ast.FormattedValue):
            return self._pieces(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return (*self._pieces(node.left), *self._pieces(node.right))
        if isinstance(node, ast.Name) and node.id in self.constants:
            return (Piece(self.constants[node.id], at, False, CLEAN, (), "", at),)
        if isinstance(node, ast.Name) and node.id in self._texts:
            # Once: a text that is made of itself has no end.
            made = self._texts.pop(node.id)
            pieces = self._pieces(made)
            self._texts[node.id] = made
            return pieces
        if isinstance(node, ast.Call) and name_of(node.func) == "str" and node.args:
            return self._pieces(node.args[0])
        return (unknown(at, self.taints(node), ast.dump(node)[:60], quoted=True),)


def _asks_for_the_job(text: str) -> bool:
    """Whether the text asks scontrol for the job."""
    words = text.split()
    return "job" in words[words.index("show") + 1 : words.index("show") + 2] if "show" in words else False
