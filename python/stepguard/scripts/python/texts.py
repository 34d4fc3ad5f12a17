# SPDX-License-Identifier: Apache-2.0
"""Texts that Python puts together: %, format, join; and takes apart: split."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from stepguard.scripts.python.things import Dictionary, Thing, value_of
from stepguard.scripts.values import Array, Piece, Value, split, unknown

# printf-style and format-style fields (Python's library reference, "printf-style String Formatting", "Format String
# Syntax").
_PERCENT = re.compile(r"%(?:\((?P<name>\w+)\))?[-#0 +]*[\d*]*(?:\.[\d*]+)?(?P<kind>[a-zA-Z%])")
_BRACES = re.compile(r"(?P<escaped>\{\{|\}\})|\{(?P<name>\w*)[^{}!:]*(?:![rsa])?(?::[^{}]*)?\}")
_MAX_DEPTH = 8  # of dictionaries
_DOLLAR = re.compile(r"(?P<escaped>\$\$)|\$\{?(\w+)\}?")


def percent(text: Value, given: Thing, at: int) -> Value:
    """text % given."""
    entries = getattr(given, "entries", {})
    items = _things(given, at)

    def chosen(found: re.Match[str], number: int) -> Value | None:
        if found["kind"] == "%":
            return None
        if found["name"]:
            return value_of(entries.get(found["name"], ()), at)
        return items[number] if number < len(items) else ()

    return _filled(text, _PERCENT, chosen)


def format_(text: Value, given: Iterable[Thing], named: dict[str, Thing], at: int) -> Value:
    """text.format(*given, **named)."""
    items = [value_of(thing, at) for thing in given]

    def chosen(found: re.Match[str], number: int) -> Value | None:
        if found["escaped"]:
            return None
        name = found["name"]
        if name and not name.isdigit():
            return value_of(named.get(name, ()), at)
        index = int(name) if name else number
        return items[index] if index < len(items) else ()

    return _filled(text, _BRACES, chosen)


def substituted(text: Value, named: dict[str, Thing], at: int) -> Value:
    """string.Template(text).substitute(named)."""

    def chosen(found: re.Match[str], _: int) -> Value | None:
        if found["escaped"]:
            return None
        return value_of(named.get(found[2], ()), at) or (Piece(found[0], at, True),)

    return _filled(text, _DOLLAR, chosen)


def replaced(text: Value, old: str, new: Value) -> Value:
    """text.replace(old, new)."""
    return _filled(text, re.compile(re.escape(old)), lambda found, number: new) if old else text


def settings(thing: Thing, at: int, depth: int = 0) -> Value:
    """What json.dump and yaml.dump write, with the keys before what they hold."""
    if not isinstance(thing, Dictionary) or depth > _MAX_DEPTH:
        return value_of(thing, at)
    pieces: list[Piece] = []
    for key, entry in thing.entries.items():
        pieces += (Piece(f"\n{key}: ", at, True), *settings(entry, at, depth + 1))
    return (*pieces, unknown(at, thing.rest)) if thing.rest else tuple(pieces)


def held_in(text: str, mark: str, held: Mapping[str, Value], at: int) -> Value:
    """A text with what the shell has put into it, where names that begin with `mark` stand."""
    pattern = re.compile(rf"{mark}\d+_")
    return _filled((Piece(text, at, True),), pattern, lambda found, number: held.get(found[0], ()))


def joined(separator: Value, items: Thing, at: int) -> Value:
    """separator.join(items)."""
    if not isinstance(items, Array):
        return value_of(items, at)
    pieces: list[Piece] = []
    for index, item in enumerate(items.fields):
        if index:
            pieces += separator
        pieces += item.pieces
    return tuple(pieces)


def words(text: Value) -> Thing:
    """text.split(): a list where some of the text is known."""
    if not any(piece.text for piece in text):
        return text
    return Array(tuple(split(tuple(piece._replace(quoted=False) if piece.text else piece for piece in text))))


def _things(given: Thing, at: int) -> list[Value]:
    if isinstance(given, Array):
        return [item.pieces for item in given.fields]
    return [value_of(given, at)]


def _filled(text: Value, pattern: re.Pattern[str], chosen: Callable[[re.Match[str], int], Value | None]) -> Value:
    """The text with the fields of a pattern filled; `chosen` gives what the nth is, None for an escape."""
    pieces: list[Piece] = []
    number = 0
    for piece in text:
        if piece.text is None:
            pieces.append(piece)
            continue
        end = 0
        for found in pattern.finditer(piece.text):
            filled = chosen(found, number)
            if filled is None:
                filled = (piece._replace(text=found[0][:1], at=piece.at + found.start()),)
            else:
                number += 1
            pieces.append(piece._replace(text=piece.text[end : found.start()], at=piece.at + end))
            pieces += filled
            end = found.end()
        pieces.append(piece._replace(text=piece.text[end:], at=piece.at + end))
    return tuple(piece for piece in pieces if piece.text != "") or text[:1]
