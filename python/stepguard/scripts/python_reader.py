# SPDX-License-Identifier: Apache-2.0
"""Python programs, by Python's own ast: which values come from the job's variables, and what they decide.

What is started through subprocess and os is read as the shell command that it is.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepguard.scripts import launching
from stepguard.scripts.origin import Origin
from stepguard.scripts.programs import DECIDING
from stepguard.scripts.python_ast import name_of, string_of
from stepguard.scripts.python_values import EXECS, STARTS, Names
from stepguard.scripts.values import (
    CLEAN,
    Taints,
    unknown,
)
from stepguard.scripts.variables import RENDEZVOUS

if TYPE_CHECKING:
    from stepguard.scripts.shell import Shell

_MAX_NODES = 60_000
_PRINTS = frozenset(("print", "write", "info", "debug", "warning", "error", "log", "writelines", "exception", "dumps"))
# Calls whose first arguments say where peers are (PyTorch, sockets); others have names for them.
_JOINS = frozenset(("init_process_group", "TCPStore", "create_connection"))


@dataclass
class Result:
    """`whole`: all of it was read. `printed`: what the program's output comes from."""

    whole: bool = True
    printed: Taints = CLEAN


def follow(data: bytes, origin: Origin, shell: Shell) -> Result:
    """Follows a program; what it starts is noted in the shell's job."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Result(whole=False)
    nodes = list(ast.walk(tree))
    if len(nodes) > _MAX_NODES:
        return Result(whole=False)
    program = _Program(data, nodes, origin, shell)
    try:
        program.settle()
        return Result(printed=program.judge())
    except RecursionError:
        return Result(whole=False)


class _Program(Names):
    # -- what they decide ---------------------------------------------------------------------------------------------

    def judge(self) -> Taints:
        """Notes what decides where something runs; returns what the program prints."""
        printed = CLEAN
        for node in self.nodes:
            if not isinstance(node, ast.Call):
                continue
            called = name_of(node.func) or ""
            if called == "print" or (called == "write" and "stdout" in ast.dump(node.func)):
                printed |= self.result(node)
            elif called in STARTS or called.startswith(EXECS):
                self._start(node)
            elif called not in _PRINTS:
                self._peers(node, called)
        if any(name.startswith("$") and RENDEZVOUS.fullmatch(name[1:]) for name in self.held.taints):
            for name, taints in sorted(self.held.taints.items()):
                if name.startswith("$") and RENDEZVOUS.fullmatch(name[1:]):
                    launching.use(self.shell, taints, f"{name[1:]} in os.environ", min(taint.at for taint in taints))
        return printed

    def _peers(self, node: ast.Call, called: str) -> None:
        at = self.at(node)
        if called in _JOINS:
            for argument in node.args:
                launching.use(self.shell, self.taints(argument), f"{called}()", at)
        if called in self.functions or called in self.classes or called in ("add_argument", "get", "setdefault"):
            return
        for keyword in node.keywords:
            if keyword.arg and DECIDING.search(keyword.arg):
                launching.use(self.shell, self.taints(keyword.value), f"{keyword.arg} of {called}()", at)

    def _start(self, node: ast.Call) -> None:
        """A program that is started is read as the command that it is."""
        from stepguard.scripts import commands

        found = self.words(node)
        if found is None:
            return
        fields, _, text = found
        shell = self.shell.child()
        for name, taints in self.held.taints.items():
            if name.startswith("$"):
                shell.scope.variables[name[1:]] = (unknown(self.at(node), taints, name[1:]),)
                shell.scope.exported.add(name[1:])
        for path, taints in self._written().items():
            shell.scope.files[path] = (unknown(self.at(node), taints),)
        if text:
            shell.nested(fields[0].pieces, shell)
        elif fields:
            commands.run(shell, fields, {}, (), self.at(node))
        self.shell.whole = self.shell.whole and shell.whole

    def _written(self) -> dict[str, Taints]:
        """Files that are written somewhere in the program, with all that is written anywhere: names are few."""
        taints = CLEAN
        paths: list[str] = []
        for node in self.nodes:
            if isinstance(node, ast.Call):
                called = name_of(node.func)
                if called in ("write", "writelines", "write_text", "print"):
                    taints |= self.result(node)
                elif called == "open":
                    paths += [path for argument in node.args[:1] for path in self._paths(argument)]
                if called == "write_text" and isinstance(node.func, ast.Attribute):
                    paths += self._paths(node.func.value)
        return dict.fromkeys(paths, taints) if taints else {}

    def _paths(self, node: ast.expr) -> list[str]:
        if (text := string_of(node)) is not None:
            return [text]
        if isinstance(node, ast.Name) and node.id in self.constants:
            return [self.constants[node.id]]
        if isinstance(node, ast.Call) and node.args:
            return self._paths(node.args[0])
        # A parameter: whatever strings the program passes anywhere as arguments.
        return [
            text
            for call in self.nodes
            if isinstance(call, ast.Call) and name_of(call.func) in self.functions
            for argument in call.args
            if (text := string_of(argument)) is not None
        ]
