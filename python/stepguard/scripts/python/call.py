# SPDX-License-Identifier: Apache-2.0
"""One call in a Python program, of something from elsewhere."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from stepguard.scripts.python.nodes import name_of
from stepguard.scripts.python.program import Program
from stepguard.scripts.python.things import (
    Thing,
    taints_in,
    value_of,
)
from stepguard.scripts.values import CLEAN, Taints, Value, host_in, unknown


@dataclass
class Call:
    """One call: `path` is the full name of what comes from elsewhere, `base` what it is a method of."""

    program: Program
    node: ast.Call
    path: str
    base: Thing | None
    arguments: list[Thing]
    named: dict[str, Thing]
    at: int

    @property
    def name(self) -> str:
        """The last name of what is called."""
        return self.path.rpartition(".")[2] or name_of(self.node.func) or ""

    @property
    def receiver(self) -> ast.expr:
        """What a method is called on."""
        assert isinstance(self.node.func, ast.Attribute)
        return self.node.func.value

    def first(self) -> Thing:
        """The first argument, an empty text without."""
        return self.arguments[0] if self.arguments else ()

    def value(self, index: int) -> Value:
        """An argument as one value, empty without."""
        return value_of(self.arguments[index], self.at) if index < len(self.arguments) else ()

    def taints(self) -> Taints:
        """All that goes into the call."""
        found = taints_in(self.base) if self.base is not None else CLEAN
        for thing in (*self.arguments, *self.named.values()):
            found |= taints_in(thing)
        return found

    def unknown(self, taints: Taints) -> Value:
        """What it gives, where only that is known."""
        self.program.take(len(taints) // 4)
        label = host_in(value_of(self.base or (), self.at)) or f"@{self.at}"
        return (unknown(self.at, taints, label, quoted=True),)
