# SPDX-License-Identifier: Apache-2.0
"""What a shell knows at one point of the script: variables, functions, the files that it has written; and how long it
may go on."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from stepguard.scripts.shell.tree import Function
from stepguard.scripts.values import Array, Field, Value, flat, join


class Budget:
    """How much may still be done for one file; `spent` when it was not enough. `unread`: what could not be read, by
    its places."""

    def __init__(self, statements: int, nested_bytes: int) -> None:
        self._statements = statements
        self._nested_bytes = nested_bytes
        self.spent = False
        self.unread: list[int] = []

    def take(self, statements: int, nested_bytes: int = 0) -> bool:
        self._statements -= statements
        self._nested_bytes -= nested_bytes
        if self._statements < 0 or self._nested_bytes < 0:
            self.spent = True
        return not self.spent


@dataclass
class Scope:
    variables: dict[str, Value | Array] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    functions: dict[str, Function] = field(default_factory=dict)
    references: dict[str, str] = field(default_factory=dict)  # declare -n: the variable that another one is
    files: dict[str, Value] = field(default_factory=dict)
    positional: tuple[Field, ...] | None = None  # None: not known
    exports_all: bool = False
    ended: bool = False  # by exit, return or exec: what follows is not reached

    def copy(self) -> Scope:
        return Scope(
            dict(self.variables),
            set(self.exported),
            dict(self.functions),
            self.references,
            dict(self.files),
            self.positional,
            self.exports_all,
            self.ended,
        )

    def child(self) -> Scope:
        """What a program that is started gets: the exported variables."""
        visible = {name: self.variables[name] for name in self.exported if name in self.variables}
        return Scope(visible, set(self.exported), dict(self.functions), {}, dict(self.files), ())

    def keep_exported(self, names: Collection[str]) -> None:
        """Leaves of what a program gets these variables, and those of Slurm, which srun and sbatch set anew."""
        self.exported = {name for name in self.exported if name in names or name.startswith("SLURM_")}
        self.variables = {name: value for name, value in self.variables.items() if name in self.exported}

    def become(self, states: list[Scope]) -> None:
        """Goes on from whichever of the states was reached."""
        reached = [state for state in states if not state.ended]
        if not reached:
            self.ended = True
            return
        first = reached[0]
        variables, files = first.variables, first.files
        for other in reached[1:]:
            variables = _joined(variables, other.variables)
            merged = _joined(files, other.files)  # type: ignore[arg-type]
            files = {name: flat(value) for name, value in merged.items()}
            first.exported |= other.exported
            first.functions.update(other.functions)
            first.positional = _joined_arguments(first.positional, other.positional)
        self.variables, self.files = variables, files
        self.exported, self.functions = first.exported, first.functions
        self.positional, self.exports_all, self.ended = first.positional, first.exports_all, False


def _joined_arguments(one: tuple[Field, ...] | None, other: tuple[Field, ...] | None) -> tuple[Field, ...] | None:
    """What $@ may hold: where one side does not know it, what the other has set."""
    if one == other:
        return one
    joined = join(Array(one or ()), Array(other or ()))
    return joined.fields if isinstance(joined, Array) else ()


def _joined(one: dict[str, Value | Array], other: dict[str, Value | Array]) -> dict[str, Value | Array]:
    if one == other:
        return one
    return {
        name: value
        if (value := one.get(name)) is other.get(name) and value is not None
        else join(value, other.get(name))
        for name in one.keys() | other.keys()
    }
