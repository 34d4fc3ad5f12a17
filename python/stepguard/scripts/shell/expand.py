# SPDX-License-Identifier: Apache-2.0
"""Words → fields, as a shell expands them, with what is not known left open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.shell.tree import Arithmetic, Parameter, Part, Substitution, Text, Word
from stepguard.scripts.values import (
    CLEAN,
    Array,
    Field,
    Piece,
    Taint,
    Taints,
    Value,
    capped,
    computed,
    counted,
    flat,
    is_word_or_nothing,
    join,
    readings,
    split,
    taints_of,
    text_of,
    unknown,
)
from stepguard.scripts.variables import TASK, is_stale_count, is_stale_list

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell

_MAX_FIELDS = 2048  # of a command
_MAX_COMMANDS = 8  # that one may be
_MAX_WORDS = 256  # of one that may be several
_DEFAULTS = (":-", "-", ":=", "=")
_ALTERNATIVES = (":+", "+")
_ALL = ("@", "*")


class Expander:
    """Expands words in the scope of a shell."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def fields(self, words: Sequence[Word]) -> list[Field]:
        """The fields of a command's words."""
        found: list[Field] = []
        for word in words:
            parts = word.parts
            if len(parts) == 1 and isinstance(parts[0], Text):
                found.append(Field((Piece(parts[0].text, parts[0].at, parts[0].quoted),)))
            else:
                found.extend(self._fields(word))
        self._shell.budget.take(len(found) >> 3)
        return found[:_MAX_FIELDS]

    def commands(self, words: Sequence[Word]) -> list[list[Field]]:
        """The fields of a command's words; several times where a variable holds one of several commands, or of several
        words for one."""
        made: list[list[Field]] = [[]]
        since = 0
        for index, word in enumerate(words):
            may_be_several = 2 * len(made) <= _MAX_COMMANDS and len(words) <= _MAX_WORDS
            tails = self._readings(word, index == 0) if may_be_several else []
            if len(made) < len(made) * len(tails) <= _MAX_COMMANDS:
                before = self.fields(words[since:index])
                made = [[*head, *before, *tail] for head in made for tail in tails]
                since = index + 1
        behind = self.fields(words[since:])
        self._shell.budget.take(4 * (len(made) - 1))
        return [[*head, *behind][:_MAX_FIELDS] for head in made]

    def _readings(self, word: Word, is_name: bool) -> list[list[Field]]:
        """What $A may be: where it is one of several commands, or one of several lists of words; else nothing."""
        part = word.parts[0] if len(word.parts) == 1 else None
        if not isinstance(part, Parameter) or part.quoted or _quotes_default(part):
            return []
        held = self._shell.scope.variables.get(part.name, ())
        if part.operator not in _DEFAULTS and (isinstance(held, Array) or not any(piece.choices for piece in held)):
            return []
        value = self._parameter(part)
        if isinstance(value, Array) or not any(piece.choices for piece in value):
            return []
        found = [list(split(self._expanded(one, part))) for one in readings(value)]
        names = {fields[0].text if fields else "" for fields in found}
        several = any(len(fields) > 1 for fields in found)
        return found if several or (is_name and not part.operator and len(names) > 1 and "" not in names) else []

    def value(self, word: Word) -> Value:
        """A word that is not split: of an assignment, a here-document, a file's name."""
        pieces: list[Piece] = []
        for part in word.parts:
            pieces += flat(self._part(part))
        self._shell.budget.take(len(pieces) >> 4)
        return tuple(pieces)

    def _fields(self, word: Word) -> Iterator[Field]:
        here: list[Piece] = []
        any_quoted = False
        for part in word.parts:
            value = self._part(part)
            if isinstance(value, Array):
                for index, field in enumerate(value.fields):
                    if index and here:
                        yield Field(tuple(here))
                        here = []
                    if field.maybe and not here:
                        yield field
                    else:
                        here += field.pieces
                continue
            if isinstance(part, Text) or part.quoted:
                any_quoted = any_quoted or part.quoted
                here += value
                continue
            has_more = bool(here) or part is not word.parts[-1]
            if has_more and is_word_or_nothing(value):  # --nodes=$N, $HOST:/path, where N and HOST may be empty
                here += value
                continue
            fields = list(split(value))
            if not fields:
                continue
            if len(fields) == 1 and not fields[0].maybe:
                here += fields[0].pieces
                continue
            for index, field in enumerate(fields):
                if here and (index or field.maybe):
                    yield Field(tuple(here))
                    here = []
                if field.maybe:
                    yield field
                else:
                    here += field.pieces
        if here or any_quoted:
            yield Field(tuple(here) or (Piece("", word.at, True),))

    def _part(self, part: Part) -> Value | Array:
        if isinstance(part, Text):
            return (Piece(part.text, part.at, part.quoted),)
        if isinstance(part, Parameter):
            value = self._used(self._parameter(part), part)
            one_word = part.quoted and "*" in (part.name, part.subscript)
            return flat(value) if one_word else value
        if isinstance(part, Substitution):
            output = self._shell.output(part.body)
            if part.process:
                return self._shell.as_file(output, part)
            if not output:
                output = (unknown(part.at),)
            if part.quoted:
                return self._quoted(output, True)
            return _unquoted(output)
        return (unknown(part.at, self.arithmetic(part), quoted=True),)

    def _used(self, value: Value | Array, part: Parameter) -> Value | Array:
        if not isinstance(value, Array):
            return self._expanded(value, part)
        fields = [field._replace(pieces=self._expanded(field.pieces, part)) for field in value.fields]
        if not part.quoted:
            fields = [found for field in fields for found in _split(field)]
        return Array(tuple(fields))

    def _expanded(self, value: Value, part: Parameter) -> Value:
        # An argument is looked for where the function is called, whatever variable it is in meanwhile.
        is_argument, quoted = self._shell.is_argument, part.quoted
        within = not _quotes_default(part)
        return tuple(
            piece._replace(
                quoted=quoted or (piece.quoted and piece.text == ""),
                used_at=piece.used_at if is_argument(piece) else part.at,
                choices=tuple(self._expanded(one, part) for one in piece.choices) if within else piece.choices,
            )
            for piece in value
        )

    def _quoted(self, value: Value | Array, quoted: bool) -> Value | Array:
        if not quoted or isinstance(value, Array):
            return value
        return tuple(piece if piece.quoted else piece._replace(quoted=True) for piece in value)

    def arithmetic(self, part: Arithmetic) -> Taints:
        """What the result of a calculation comes from; sets the variables that it sets."""
        read = [taints_of(flat(self.lookup(name, at))) for name, at in part.reads]
        printed = [taints_of(self._shell.output(command.body)) for command in part.commands]
        self._shell.budget.take(len(read) >> 2)
        taints = computed(capped(counted(CLEAN.union(*read)).union(*printed)))
        counters = {name for name, _ in part.reads}
        for name in part.sets:
            looped = self._shell.looped if name in counters else CLEAN
            self._shell.assign(name, (unknown(part.at, taints | looped),))
        return taints

    def lookup(self, name: str, at: int) -> Value | Array:
        """What the variable holds; one of the job's nodes is read here when the script has not set it itself."""
        variables = self._shell.scope.variables
        if name in variables:
            return variables[name]
        is_count = is_stale_count(name)
        if is_count or is_stale_list(name):
            return (unknown(at, frozenset((Taint(at, name, is_count, self._shell.guarded_step),)), name),)
        if TASK.fullmatch(name):
            self._shell.job.reads_task_variable = True
        return (unknown(at, CLEAN, name),)

    def _parameter(self, part: Parameter) -> Value | Array:
        name, operator, at = part.name, part.operator, part.at
        is_argument = name in _ALL or name.isdigit()
        value = self._positional(part) if is_argument else self.lookup(name, at)
        if operator == "!":
            return self._indirect(value, at)
        value = self._element(part, value)
        if operator == "#" and name != "#":
            return (unknown(at, counted(taints_of(flat(value))), quoted=True),)
        if operator in _DEFAULTS:
            value = self._default(part, value)
            if operator.endswith("="):
                self._shell.assign(name, value)
            return value
        if operator in _ALTERNATIVES:
            given = self.value(part.argument) if part.argument is not None else ()
            known = flat(value)
            if known and all(piece.text is not None for piece in known):
                return given if text_of(known) else ()
            return join((), given) if not (name in self._shell.scope.variables and known == ()) else ()
        if operator in ("", "^^", ",,", "@") and not isinstance(value, Array):
            return value if operator == "" else tuple(p._replace(text=p.text and p.text.lower()) for p in value)
        if operator == ":" and isinstance(value, Array):
            return _behind(value, _start(part) - is_argument)
        if operator == "":
            return value
        taints = taints_of(flat(value))
        if operator in (":?", "?"):
            return value
        return (unknown(at, taints, name, part.quoted),)

    def _positional(self, part: Parameter) -> Value | Array:
        known = self._shell.scope.positional
        if part.name in ("@", "*"):
            return Array(known) if known is not None else (unknown(part.at, CLEAN, part.name),)
        number = int(part.name) if len(part.name) < 4 else 0
        if number == 0 and "0" in self._shell.scope.variables:
            return self._shell.scope.variables["0"]
        if known is None or number == 0:
            return (unknown(part.at, CLEAN, part.name),)
        return known[number - 1].pieces if number <= len(known) else ()

    def _indirect(self, value: Value | Array, at: int) -> Value | Array:
        name = text_of(flat(value))
        return self.lookup(name, at) if name.isidentifier() else (unknown(at, taints_of(flat(value))),)

    def _element(self, part: Parameter, value: Value | Array) -> Value | Array:
        if not isinstance(value, Array):
            return value
        index = part.subscript
        if index in _ALL or part.name in _ALL:
            return value
        if index in value.keys and not index.isdecimal():
            return value.fields[len(value.keys) - 1 - value.keys[::-1].index(index)].pieces
        number = int(index) if index.isdigit() and len(index) < 6 else 0 if not index else None
        certain = not any(field.maybe for field in value.fields)
        if number is not None and certain and all(_is_known(field.pieces) for field in value.fields):
            return value.fields[number].pieces if number < len(value.fields) else ()
        taints = taints_of(flat(value))
        for name in () if index.isdigit() else _names(index):
            taints |= computed(counted(taints_of(flat(self.lookup(name, part.at)))))
        return (unknown(part.at, taints, f"{part.name}[{index}]"),)

    def _default(self, part: Parameter, value: Value | Array) -> Value | Array:
        is_set = part.name in self._shell.scope.variables or (part.name.isdigit() and bool(flat(value)))
        known = flat(value)
        if is_set and known and all(piece.text for piece in known):
            return value
        default = self.value(part.argument) if part.argument is not None else ()
        if part.name.isdigit() and self._shell.scope.positional is not None and not known:
            return default
        if is_set and not known and part.operator in (":-", ":="):
            return default
        if not is_set and not taints_of(known) and not known[0].choices:
            # Mostly the caller's wish; what is written here is what it is without one.
            return (Piece(None, part.at, False, taints_of(default), ((unknown(part.at, CLEAN, part.name),), default)),)
        return join(value, default)


def _unquoted(output: Value) -> Value:
    """What a command printed, for a word without quotes."""
    return tuple(
        piece._replace(quoted=piece.quoted and not piece.text, choices=tuple(map(_unquoted, piece.choices)))
        for piece in output
    )


def _quotes_default(part: Parameter) -> bool:
    """${A:-"x y"}, which is one word."""
    return part.argument is not None and any(one.quoted for one in part.argument.parts)


def _start(part: Parameter) -> int:
    """Where ${A[@]:2} begins, 0 where that is not known."""
    text = part.argument.parts[0] if part.argument is not None and part.argument.parts else None
    return int(text.text) if isinstance(text, Text) and text.text.isdecimal() and len(text.text) < 4 else 0


def _behind(value: Array, start: int) -> Array:
    """The elements from `start` on; all of them when one before it may be several."""
    left_out = value.fields[: max(start, 0)]
    return value if any(field.maybe or field.is_unknown for field in left_out) else Array(value.fields[len(left_out) :])


def _split(field: Field) -> Iterator[Field]:
    return (found._replace(maybe=found.maybe or field.maybe) for found in split(field.pieces))


def _is_known(value: Value) -> bool:
    return all(piece.text is not None for piece in value)


def _names(index: str) -> list[str]:
    text = "".join(char if char.isalnum() or char == "_" else " " for char in index)
    return [name for name in text.split() if name.isidentifier()]
