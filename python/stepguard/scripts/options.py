# SPDX-License-Identifier: Apache-2.0
"""The options of srun, sbatch and salloc among a command's fields, some of which are not known.

stepguard.slurm.srun_arguments reads what srun really was given, to the letter; here words may be open, and the values
of other plugins' options must not be taken for the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from stepguard.scripts.values import UNKNOWN, Field, Piece, Value, texts_of
from stepguard.slurm.srun_options import ALIASES, OPTIONS

GUARD = "auto-resume"
_SHORT = {form[0]: name for name, form in OPTIONS.items() if form[:1].isalpha()}
_TAKES_VALUE = frozenset(name for name, form in OPTIONS.items() if form.endswith(":") and not form.endswith("::"))
# Of sbatch and salloc alone (22.05 to 26.05).
_ALLOCATOR_TAKES_VALUE = frozenset(("array", "batch", "wrap", "export-file", "signal", "bell", "wait-all-nodes"))
_ALLOCATOR_TAKES_NONE = frozenset(("wait",))  # sbatch; srun's takes seconds
_ALLOCATOR_SHORT = {"a": "array", "o": "output", "e": "error"}
# Of pyxis (NVIDIA), which takes them as words of their own, too.
_PLUGINS = frozenset(
    f"container-{name}" for name in ("image", "mounts", "workdir", "name", "save", "mount-home", "env", "entrypoint")
) - {"container-mount-home", "container-entrypoint"}
_SHORTEST_GUARD = len("--au")
_SHORTEST_ARGUMENT = len("--auto-r")  # where getopt does not tell what it is short for


class Given(NamedTuple):
    """An option as given. `field` is the one that names it, `value` what stands behind "=" or in the next field."""

    name: str
    value: Value
    field: Field
    has_value: bool

    @property
    def maybe(self) -> bool:
        return self.field.maybe


class CommandLine(NamedTuple):
    options: tuple[Given, ...]
    program: tuple[Field, ...]

    def last(self, name: str) -> Given | None:
        return next((given for given in reversed(self.options) if given.name == name), None)

    def has(self, name: str) -> bool:
        return any(given.name == name for given in self.options)


class Exported(NamedTuple):
    """What --export hands on beside Slurm's variables: `names` (None: all, or it is not known), those `given` anew."""

    names: frozenset[str] | None
    given: frozenset[str]


def exported_by(line: CommandLine) -> Exported:
    """What srun or sbatch hand on of their own environment."""
    option = line.last("export")
    if option is None or option.maybe:
        return Exported(None, frozenset())
    parts = [part.strip().partition("=") for text in texts_of(option.value) for part in text.split(",")]
    given = frozenset(name for name, equals, _ in parts if equals)
    names = frozenset(name for name, equals, _ in parts if not equals)
    is_open = "ALL" in names or any(UNKNOWN in name for name in names)
    return Exported(None if is_open else names, given)


def is_guard(text: str) -> bool:
    """Whether a word is --auto-resume, whole or shortened as getopt takes it, with or without a value."""
    name = text.partition("=")[0]
    return len(name) >= _SHORTEST_GUARD and "--auto-resume".startswith(name)


class Argument(NamedTuple):
    """--auto-resume among the arguments of a program. `is_for_srun`: as nobody but srun is told it, with a value of 1.

    A program that has the option itself takes it as a switch (OpenMMLab's tools/train.py), or with another word, which
    srun would refuse (True, a directory): that decides nothing for the step.
    """

    field: Field
    value: str
    is_for_srun: bool


def arguments(fields: Sequence[Field]) -> Iterator[Argument]:
    """Each --auto-resume with a value among a program's arguments."""
    for index, field in enumerate(fields):
        text = field.text
        name, equals, value = text.partition("=")
        if len(name) < _SHORTEST_ARGUMENT or not is_guard(text):
            continue
        if equals:
            yield Argument(field, value, "1" in texts_of(behind_equals(field)))
        elif index + 1 < len(fields) and fields[index + 1].text == "1":
            yield Argument(field, "1", True)


def parse(fields: Sequence[Field], allocator: bool = False) -> CommandLine:
    """Reads the fields behind srun, sbatch or salloc up to the program."""
    options: list[Given] = []
    position = 0
    while position < len(fields):
        field = fields[position]
        text = field.text
        if field.maybe and not field.is_unknown and _begins_program(fields[position:]):
            break
        if field.is_unknown or (field.maybe and not text.startswith("-")) or not text:
            position += 1
            continue
        if text == "--":
            position += 1
            break
        if len(text) < 2 or text[0] != "-":
            break
        following = fields[position + 1] if position + 1 < len(fields) else None
        if text.startswith("--"):
            given, used = _long(field, following, allocator)
            options.append(given)
        else:
            found, used = _short(field, following, allocator)
            options += found
        position += used
    return CommandLine(tuple(options), tuple(fields[position:]))


def _begins_program(fields: Sequence[Field]) -> bool:
    """Whether a word that may be there is a program: long options that may be there follow it, none of them srun's."""
    if fields[0].text.startswith("-"):
        return False
    with_it = takewhile(lambda field: field.maybe, fields[1:])
    names = [field.text[2:].partition("=")[0] for field in with_it if field.text.startswith("--")]
    return bool(names) and not any(is_guard(f"--{name}") or _resolve(name) in OPTIONS for name in names)


def _long(field: Field, following: Field | None, allocator: bool) -> tuple[Given, int]:
    written, equals, _ = field.text[2:].partition("=")
    if is_guard(f"--{written}"):
        name, takes = GUARD, True
    else:
        name = _resolve(written)
        takes = name in _PLUGINS or _takes_value(name, allocator)
    if equals:
        return Given(name, behind_equals(field), field, True), 1
    if takes and following is not None:
        return Given(name, following.pieces, field, True), 2
    return Given(name, (), field, False), 1


def _takes_value(name: str, allocator: bool) -> bool:
    if allocator and name in _ALLOCATOR_TAKES_NONE:
        return False
    return name in _TAKES_VALUE or (allocator and name in _ALLOCATOR_TAKES_VALUE)


def _resolve(written: str) -> str:
    if written in OPTIONS:
        return ALIASES.get(written, written)
    fits = [name for name in OPTIONS if name.startswith(written)] if len(written) > 2 else []
    return ALIASES.get(fits[0], fits[0]) if len(fits) == 1 else written


def _short(field: Field, following: Field | None, allocator: bool) -> tuple[list[Given], int]:
    text = field.text
    found: list[Given] = []
    begin = 1
    while begin < len(text):
        letter = text[begin]
        name = _ALLOCATOR_SHORT.get(letter, "") if allocator else ""
        name = name or _SHORT.get(letter, letter)
        takes = _takes_value(name, allocator)
        if not takes:
            found.append(Given(name, (), field, False))
            begin += 1
        elif begin + 1 < len(text):
            found.append(Given(name, behind(field, begin + 1), field, True))
            return found, 1
        else:
            value = following.pieces if following is not None else ()
            found.append(Given(name, value, field, following is not None))
            return found, 2
    return found, 1


def behind_equals(field: Field) -> Value:
    """What stands behind the first "=" of a field."""
    return behind(field, field.text.index("=") + 1)


def behind(field: Field, offset: int) -> Value:
    """What stands behind that many characters of a field."""
    kept: list[Piece] = []
    for piece in field.pieces:
        length = 1 if piece.text is None and not piece.choices else len(Field((piece,)).text)
        if offset >= length:
            offset -= length
        elif offset and piece.choices:
            choices = tuple(behind(Field(choice), min(offset, len(Field(choice).text))) for choice in piece.choices)
            kept.append(piece._replace(choices=choices))
            offset = 0
        elif offset and piece.text is not None:
            kept.append(piece._replace(text=piece.text[offset:], at=piece.at + offset))
            offset = 0
        else:
            kept.append(piece)
            offset = 0
    return tuple(kept)
