# SPDX-License-Identifier: Apache-2.0
"""What an expression of a Python program may be, as far as the program tells."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from stepguard.scripts.values import (
    CLEAN,
    MAX_FIELDS,
    Array,
    Field,
    Piece,
    Taints,
    Value,
    bounded,
    carried,
    flat,
    join,
    key_of,
    split,
    taints_of,
    unknown,
)

# Of a piece: a number, with which + does not put texts together.
NUMBER = "#"


@dataclass(frozen=True, eq=False)
class Dictionary:
    """`of_environ`: it also has what is in os.environ. `rest`: what came from keys or values that are not known."""

    entries: dict[str, Thing] = field(default_factory=dict)
    of_environ: bool = False
    rest: Taints = CLEAN

    def with_(self, entries: dict[str, Thing]) -> Dictionary:
        """The same with other entries."""
        return Dictionary({**self.entries, **entries}, self.of_environ, self.rest)


@dataclass(frozen=True, eq=False)
class Code:
    """A function, lambda or class of the program; `given` and `named` are arguments that it has already."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
    defaults: dict[str, Thing] = field(default_factory=dict)
    given: tuple[Thing, ...] = ()
    named: dict[str, Thing] = field(default_factory=dict)


@dataclass(frozen=True)
class Named:
    """Something from elsewhere by its full name: os.environ, subprocess.run. It is its name where nothing is known."""

    path: str

    @property
    def last(self) -> str:
        """The name alone."""
        return self.path.rpartition(".")[2]


# A text or number is a Value, a list of anything an Array, of words.
Thing = Value | Array | Dictionary | Code | Named


def is_value(thing: Thing) -> bool:
    """Whether it is a text or number (the other things are tuples, too, or objects)."""
    return type(thing) is tuple


def value_of(thing: Thing, at: int) -> Value:
    """As one value."""
    if isinstance(thing, Array):
        return flat(thing)
    if isinstance(thing, Dictionary):
        return (unknown(at, taints_in(thing), quoted=True),)
    if isinstance(thing, Code):
        return (unknown(at),)
    if isinstance(thing, Named):
        return (unknown(at, CLEAN, thing.path, quoted=True),)
    return thing


def taints_in(thing: Thing) -> Taints:
    """What it comes from, wherever in it."""
    if isinstance(thing, Array):
        return CLEAN.union(*(piece.taints for item in thing.fields for piece in item.pieces if piece.taints))
    if isinstance(thing, Dictionary):
        return thing.rest.union(*(taints_in(entry) for entry in thing.entries.values()))
    if isinstance(thing, (Code, Named)):
        return CLEAN
    return taints_of(thing)


def added_to(thing: Thing, taints: Taints) -> Thing:
    """A text or number that comes from these, too."""
    if not taints or not is_value(thing):
        return thing
    return tuple(piece._replace(taints=piece.taints | taints) for piece in value_of(thing, 0))


def either(one: Thing, other: Thing, at: int) -> Thing:
    """What it may be when the one or the other path was taken."""
    if one is other:
        return one
    if isinstance(one, Dictionary) and isinstance(other, Dictionary):
        names = dict.fromkeys((*one.entries, *other.entries))
        entries = {
            name: either(one.entries[name], other.entries[name], at)
            if name in one.entries and name in other.entries
            else one.entries.get(name, other.entries.get(name, ()))
            for name in names
        }
        return Dictionary(entries, one.of_environ or other.of_environ, one.rest | other.rest)
    # A function or something from elsewhere tells nothing; the other does.
    if isinstance(one, (Code, Named)):
        return other if not isinstance(other, Named) else one
    if isinstance(other, (Code, Named)):
        return one
    if isinstance(one, Array) and not one.fields and isinstance(other, Dictionary):
        return other
    if isinstance(one, Dictionary):
        one = value_of(one, at)
    if isinstance(other, Dictionary):
        other = value_of(other, at)
    return join(one, other)


def held_by(name: str, thing: Thing) -> Thing:
    """As the variable `name` holds it."""
    if isinstance(thing, Array):
        return Array(tuple(item._replace(pieces=carried(name, item.pieces)) for item in thing.fields[:MAX_FIELDS]))
    if isinstance(thing, Dictionary):
        return thing.with_({key: held_by(name, entry) for key, entry in thing.entries.items()})
    return bounded(carried(name, thing)) if not isinstance(thing, (Code, Named)) else thing


def literal(text: str, at: int) -> Value:
    """A text that is known."""
    return (Piece(text, at, True),)


def file_key(path: Thing, at: int) -> str:
    """The name of the file with that path."""
    return key_of(value_of(path, at))


def fields_of(thing: Thing, at: int) -> list[Field]:
    """The words of a command; one that is there on some paths only, or differs between them, as the shell has it."""
    fields = thing.fields if isinstance(thing, Array) else (Field(value_of(thing, at)),)
    words: list[Field] = []
    for item in fields:
        pieces = item.pieces
        if len(pieces) == 1 and pieces[0].choices and not pieces[0].taints:
            words += (word._replace(maybe=item.maybe or word.maybe) for word in split(pieces))
        else:
            words.append(item if pieces else item._replace(pieces=(unknown(at)._replace(text=""),)))
    return words
