# SPDX-License-Identifier: Apache-2.0
"""A shell script as this room sees it: less than a grammar knows, and all that says what is started with which words.

`at` is a byte offset in the file, wherever the text was found: also of what a quoted string or a here-document holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(slots=True)
class Text:
    """What stands there as it is, escapes resolved."""

    text: str
    at: int
    quoted: bool


@dataclass(slots=True)
class Parameter:
    """$NAME, or ${NAME[subscript] operator argument}; `operator` "#" is the length, "!" the variable that it names."""

    name: str
    at: int
    quoted: bool
    operator: str = ""
    argument: Word | None = None
    subscript: str = ""


@dataclass(slots=True)
class Substitution:
    """$(…), `…`, <(…) or >(…), which `reads` what is written to it."""

    body: tuple[Statement, ...]
    at: int
    quoted: bool
    process: bool = False
    reads: bool = False


@dataclass(slots=True)
class Arithmetic:
    """$((…)), ((…)): the variables that it reads and sets, and the commands within."""

    reads: tuple[tuple[str, int], ...]
    sets: tuple[str, ...]
    commands: tuple[Substitution, ...]
    at: int
    quoted: bool = False


Part: TypeAlias = Text | Parameter | Substitution | Arithmetic


@dataclass(slots=True)
class Word:
    """Parts that stand side by side."""

    parts: tuple[Part, ...]
    at: int


@dataclass(slots=True)
class Assignment:
    """NAME=value, NAME+=value, NAME[subscript]=value; `array` holds the words of NAME=(…), else None."""

    name: str
    at: int
    value: Word
    array: tuple[Word, ...] | None
    append: bool
    subscript: str


@dataclass(slots=True)
class Redirect:
    """`operator` is ">", ">>", ">&", "<", "<&", "3<", "3>", "3>>" (of another descriptor), "<<<" or "<<", whose
    target is the here-document, expanded unless quoted."""

    operator: str
    target: Word


@dataclass(slots=True)
class Command:
    """A simple command; `declares` is export, local, … for those that assign their arguments."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...]
    at: int
    declares: str = ""


@dataclass(slots=True)
class Redirected:
    body: Statement
    redirects: tuple[Redirect, ...]


@dataclass(slots=True)
class Function:
    name: str
    body: tuple[Statement, ...]
    at: int


@dataclass(slots=True)
class Pipeline:
    stages: tuple[Statement, ...]


@dataclass(slots=True)
class Chain:
    """first && second || third: the rest with the operator before each."""

    first: Statement
    rest: tuple[tuple[str, Statement], ...]


@dataclass(slots=True)
class If:
    """(condition, body) of if and each elif, and the body of else."""

    branches: tuple[tuple[tuple[Statement, ...], tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...]


@dataclass(slots=True)
class Case:
    subject: Word
    patterns: tuple[Word, ...]
    bodies: tuple[tuple[Statement, ...], ...]
    has_default: bool


@dataclass(slots=True)
class For:
    """for NAME in words; without `in`, over the arguments."""

    name: str
    words: tuple[Word, ...] | None
    body: tuple[Statement, ...]


@dataclass(slots=True)
class Loop:
    """while and until; for ((…)) with its arithmetic as the condition."""

    condition: tuple[Statement, ...]
    body: tuple[Statement, ...]


@dataclass(slots=True)
class Group:
    """{ …; } or ( … )."""

    body: tuple[Statement, ...]
    subshell: bool


@dataclass(slots=True)
class Test:
    """[ … ] or [[ … ]]: only what it reads matters; `matches`: by =~, which leaves it in BASH_REMATCH."""

    words: tuple[Word, ...]
    matches: bool = False


@dataclass(slots=True)
class Calculation:
    """(( … ))"""

    arithmetic: Arithmetic


Statement: TypeAlias = (
    Command | Redirected | Function | Pipeline | Chain | If | Case | For | Loop | Group | Test | Calculation
)
