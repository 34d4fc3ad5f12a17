# SPDX-License-Identifier: Apache-2.0
"""What a variable, a word or an output may hold, as far as the script tells, and which stale variable it came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from stepguard.scripts.variables import THIS_HOST

UNKNOWN = "\ufffc"  # stands for what is not known, in the text of a field
_MAX_CHOICES = 8
_MAX_STEPS = 4
MAX_WEIGHT = 256  # of a value, in pieces; 128 characters weigh as much as a piece
MAX_FIELDS = 512  # of an array
MAX_TAINTS = 128  # of a value
AS_POINT = "(here)"  # label of a text all of which is taken to stand where it begins


class Taint(NamedTuple):
    """A value that was read from a variable of the job's nodes.

    `at` is where it was read, `variable` from which, `is_count` whether it is a number of nodes, `in_step` whether that
    was within a guarded step, `computed` whether it went through arithmetic since, `path` the variables that it went
    through.
    """

    at: int
    variable: str
    is_count: bool
    in_step: bool = False
    computed: bool = False
    path: tuple[str, ...] = ()


Taints = frozenset[Taint]
CLEAN: Taints = frozenset()


class Piece(NamedTuple):
    """A part of a value: text, or one of several values, or what is not known (`label` then names it).

    `at` is where it was written, `used_at` where the variable that holds it was expanded (-1: in none).
    """

    text: str | None
    at: int
    quoted: bool = False
    taints: Taints = CLEAN
    choices: tuple[tuple[Piece, ...], ...] = ()
    label: str = ""
    used_at: int = -1


Value = tuple[Piece, ...]


class Array(NamedTuple):
    """An array's elements; `keys` names each ("" for one without), and is empty where none has a name."""

    fields: tuple[Field, ...]
    keys: tuple[str, ...] = ()

    @property
    def all_keys(self) -> tuple[str, ...]:
        return self.keys or ("",) * len(self.fields)


class Field(NamedTuple):
    """A word as a command gets it; `maybe`: only on some paths through the script."""

    pieces: Value
    maybe: bool = False

    @property
    def at(self) -> int:
        return self.pieces[0].at if self.pieces else 0

    @property
    def text(self) -> str:
        """The word, with UNKNOWN for what is not known."""
        return text_of(self.pieces)

    @property
    def is_unknown(self) -> bool:
        """Nothing of it is known, and it stands without quotes: it may be no word, or several."""
        return bool(self.pieces) and all(
            piece.text is None and not piece.choices and not piece.quoted for piece in self.pieces
        )

    @property
    def taints(self) -> Taints:
        return taints_of(self.pieces)


def text_of(value: Value) -> str:
    """The text, with the first choice where there are several."""
    if len(value) == 1 and value[0].text is not None:
        return value[0].text
    return "".join(_text(piece) for piece in value)


def _text(piece: Piece) -> str:
    if piece.text is not None:
        return piece.text
    if piece.choices:
        return max((text_of(choice) for choice in piece.choices), key=_says)
    return UNKNOWN


def _says(text: str) -> int:
    """How much of a text is known: of "", what is not known, and text, the last says most."""
    return 2 * bool(text) - (UNKNOWN in text)


def texts_of(value: Value) -> list[str]:
    """All texts that the value may have, a few at most."""
    found = [""]
    for piece in value:
        if piece.choices:
            tails = [text for choice in piece.choices for text in texts_of(choice)]
        else:
            tails = [UNKNOWN if piece.text is None else piece.text]
        found = [head + tail for head in found for tail in tails][:_MAX_CHOICES]
    return found


def key_of(value: Value) -> str:
    """A name for what is not known in full: two words of one key are taken for the same file."""
    if len(value) == 1 and value[0].text is not None:
        return _relative(value[0].text)
    return _relative("".join(map(_key, value)))


def _key(piece: Piece) -> str:
    if piece.text is None and piece.choices:
        says_most = max(piece.choices, key=lambda choice: _says(text_of(choice)))
        return "".join(map(_key, says_most))
    return f"${{{piece.label}}}" if piece.text is None else piece.text


def _relative(path: str) -> str:
    for folder in ("./", "${PWD}/", "${SLURM_SUBMIT_DIR}/"):
        path = path.removeprefix(folder)
    return path


def taints_of(value: Iterable[Piece]) -> Taints:
    found = [piece.taints for piece in value if piece.taints]
    if len(found) < 2:
        return found[0] if found else CLEAN
    return capped(CLEAN.union(*found))


def capped(taints: Taints) -> Taints:
    """Not more than a person would read."""
    return taints if len(taints) <= MAX_TAINTS else frozenset(sorted(taints)[:MAX_TAINTS])


def unknown(at: int, taints: Taints = CLEAN, label: str = "", quoted: bool = False) -> Piece:
    return Piece(None, at, quoted, taints, (), label)


def host_in(value: Iterable[Piece]) -> str:
    """The label of this host's name, "" where it is not in the value."""
    return next((piece.label for piece in value if piece.label in THIS_HOST), "")


def placing(compared: Sequence[Piece]) -> Taints:
    """The nodes among which a question looks for this host, of all that it compares."""
    return frozenset(taint for taint in taints_of(compared) if not taint.is_count) if host_in(compared) else CLEAN


def through(name: str, taints: Taints) -> Taints:
    """The taints of what was assigned to the variable `name`."""
    return frozenset(
        taint
        if taint.path[-1:] == (name,) or len(taint.path) >= _MAX_STEPS
        else taint._replace(path=(*taint.path, name))
        for taint in taints
    )


def bounded(value: Value) -> Value:
    """A value that stays small, however often a script doubles it: what is too long is not known."""
    if _weight(value, MAX_WEIGHT) > 0:
        return value
    return (unknown(value[0].at, taints_of(value)),)


def _weight(value: Value, left: int) -> int:
    """What is left of the bound after the pieces and characters of a value."""
    for piece in value:
        left -= 1 + (len(piece.text) >> 7 if piece.text else 0)
        for choice in piece.choices:
            if left <= 0:
                break
            left = _weight(choice, left - 1)
        if left <= 0:
            break
    return left


def carried(name: str, value: Value) -> Value:
    """A value as the variable `name` holds it."""
    if not any(piece.taints for piece in value):
        return value
    return tuple(piece._replace(taints=through(name, piece.taints)) if piece.taints else piece for piece in value)


def computed(taints: Taints) -> Taints:
    return frozenset(taint._replace(computed=True) for taint in taints)


def counted(taints: Taints) -> Taints:
    return frozenset(taint._replace(is_count=True) for taint in taints)


WORDS = re.compile(r"(\s+)|\S+")
LINES = re.compile(r"(\n+)|[^\n]+")


def split(value: Value, parts: re.Pattern[str] = WORDS) -> Iterator[Field]:
    """The fields of an expansion without quotes; `parts` finds them, and in its group what stands between them."""
    here: list[Piece] = []
    for piece in value:
        if piece.choices and not piece.quoted:
            options = [list(split(choice)) for choice in piece.choices]
            if all(len(fields) < 2 for fields in options) and not _may_be_option(options):
                if all(options):
                    here.append(piece)
                else:
                    yield from (Field(tuple(here)),) if here else ()
                    here = []
                    yield Field((piece,), True)
                continue
            if here:
                yield Field(tuple(here))
                here = []
            for fields in options:
                yield from (field._replace(maybe=True) for field in fields)
        elif piece.text is None or piece.quoted:
            here.append(piece)
        else:
            for found in parts.finditer(piece.text):
                if found[1]:
                    if here:
                        yield Field(tuple(here))
                    here = []
                else:
                    here.append(piece._replace(text=found[0], at=piece.at + found.start()))
    if here:
        yield Field(tuple(here))


def readings(value: Value) -> list[Value]:
    """The values without choices that it may be; nothing where they are too many."""
    made: list[Value] = [()]
    for piece in value:
        tails = [tail for choice in piece.choices for tail in readings(choice)] if piece.choices else [(piece,)]
        made = [(*head, *tail) for head in made for tail in tails]
        if len(made) > _MAX_CHOICES:
            return []
    return list(dict.fromkeys(made))


def is_word_or_nothing(value: Value) -> bool:
    """Whether it is one of several words, or none, but never two."""
    return len(value) == 1 and bool(value[0].choices) and all(len(list(split(one))) < 2 for one in value[0].choices)


def _may_be_option(options: list[list[Field]]) -> bool:
    """${A:---option=1}: what is not known there may be no word at all."""
    may_be_none = not all(options) or any(fields[0].is_unknown for fields in options if fields)
    return may_be_none and any(fields[0].text[:1] == "-" for fields in options if fields)


def join(one: Value | Array | None, other: Value | Array | None) -> Value | Array:
    """What a variable may hold when the one or the other path was taken."""
    if one is other or one == other:
        return one or ()
    if not isinstance(one, Array) and not isinstance(other, Array) and one and other and _same(one, other):
        return one
    if isinstance(one, Array) or isinstance(other, Array):
        return _join_arrays(_as_array(one), _as_array(other))
    first, second = one or (), other or ()
    common = _common(first, second)
    tails = dict.fromkeys((first[common:], second[common:]))
    choices: list[Value] = []
    for tail in tails:
        alone = len(tail) == 1 and tail[0].choices
        choices += tail[0].choices if alone else (tail,)
    distinct = tuple(dict.fromkeys(choices))[:_MAX_CHOICES]
    at = next((piece.at for tail in tails for piece in tail), 0)
    taints = taints_of(piece for tail in tails for piece in tail)
    return bounded((*first[:common], Piece(None, at, False, taints, distinct)))


def _same(one: Value, other: Value) -> bool:
    """Whether both are the same text, written in two places."""
    known = all(piece.text is not None and not piece.taints for piece in (*one, *other))
    return known and text_of(one) == text_of(other)


def _join_arrays(one: Array, other: Array) -> Array:
    common = _common(one.fields, other.fields)
    tails = dict.fromkeys((*one.fields[common:], *other.fields[common:]))
    return Array((*one.fields[:common], *(field._replace(maybe=True) for field in tails))[:MAX_FIELDS])


def _common(one: tuple[object, ...], other: tuple[object, ...]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _as_array(value: Value | Array | None) -> Array:
    if isinstance(value, Array):
        return value
    return Array((Field(value),)) if value else Array(())


def flat(value: Value | Array) -> Value:
    """As one value: the elements of an array with blanks between them."""
    if not isinstance(value, Array):
        return value
    pieces: list[Piece] = []
    for field in value.fields:
        if pieces:
            pieces.append(Piece(" ", field.at))
        pieces += field.pieces
    return tuple(pieces)
