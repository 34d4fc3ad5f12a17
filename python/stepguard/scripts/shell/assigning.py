# SPDX-License-Identifier: Apache-2.0
"""Assignments and declarations: NAME=value, arrays with and without keys, export, local, declare and their flags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from stepguard.scripts.options import behind_equals
from stepguard.scripts.shell import launching
from stepguard.scripts.shell.tree import Arithmetic, Assignment, Command, Part
from stepguard.scripts.values import (
    CLEAN,
    Array,
    Field,
    Piece,
    Taints,
    Value,
    computed,
    counted,
    flat,
    taints_of,
    text_of,
    unknown,
)
from stepguard.scripts.variables import INHERITED

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell

_KEYED = re.compile(r"\[([\w.:-]+)\]=")
_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPANDED = re.compile(r"\$\{?([A-Za-z_]\w*)")


def assign(shell: Shell, assignment: Assignment) -> None:
    """NAME=value and its like."""
    name = assignment.name
    old = shell.scope.variables.get(name)
    if assignment.array is not None:
        array = _array(shell.fields(assignment.array))
        if assignment.append:
            array = _behind(old if isinstance(old, Array) else Array((Field(old),) if old else ()), array)
        shell.assign(name, array)
        return
    value = shell.value(assignment.value)
    if shell.looped and any(_reads(part, name) for part in assignment.value.parts):
        value = (*value, unknown(assignment.at, shell.looped, quoted=True))
    if assignment.subscript:
        keys = _of_keys(shell, assignment)
        element = Array(
            (Field((*value, Piece("", assignment.at, True, keys)) if keys else value),), (assignment.subscript,)
        )
        shell.assign(name, _behind(old if isinstance(old, Array) else Array(()), element))
    elif assignment.append:
        held = shell.lookup(name, assignment.at) if old is not None else ()
        shell.assign(name, (*flat(held), *value))
    else:
        shell.assign(name, value)


def _of_keys(shell: Shell, assignment: Assignment) -> Taints:
    """What the variables in NAME[$KEY]= come from: ${!NAME[@]} gives the keys back."""
    names = _EXPANDED.findall(assignment.subscript)
    return taints_of(piece for name in names for piece in flat(shell.lookup(name, assignment.at)))


def _reads(part: Part, name: str) -> bool:
    """n=$((n + 1)): a counter."""
    return isinstance(part, Arithmetic) and any(name == read for read, _ in part.reads)


def _array(fields: list[Field]) -> Array:
    """The words of NAME=(…), of which some may be [key]=value."""
    keys = [_KEYED.match(field.text) for field in fields]
    if not any(keys):
        return Array(tuple(fields))
    words = [
        field._replace(pieces=behind_equals(field)) if key else field for field, key in zip(fields, keys, strict=True)
    ]
    return Array(tuple(words), tuple(key[1] if key else "" for key in keys))


def _behind(one: Array, other: Array) -> Array:
    keys = (*one.all_keys, *other.all_keys) if one.keys or other.keys else ()
    return Array((*one.fields, *other.fields), keys)


def declare(shell: Shell, statement: Command) -> None:
    """export, local, declare, readonly, typeset."""
    fields = shell.fields(statement.words)
    flags = [field.text for field in fields]
    given = {letter for flag in flags if flag.startswith("-") for letter in flag[1:]}
    exports = statement.declares == "export" or "x" in given
    hides = statement.declares not in ("export", "readonly") and not given & set("fFgp")
    for name in flags if hides else ():
        if shell.hide(name):
            shell.scope.variables[name] = ()
    for assignment in statement.assignments:
        if hides:
            shell.hide(assignment.name)
        if assignment.array is None and "n" in given and statement.declares != "export":
            _refer(shell, assignment)
            continue
        assign(shell, assignment)
        if assignment.array is None and "i" in given:
            shell.assign(assignment.name, _calculated(shell, flat(shell.lookup(assignment.name, assignment.at))))
    names = [assignment.name for assignment in statement.assignments]
    for field in fields:
        name, equals, _ = field.text.partition("=")
        if equals and name.isidentifier():  # export "$1"
            shell.assign(name, behind_equals(field))
        names += [name] if name[:1] != "-" else []
    if exports and not (statement.declares == "export" and "n" in given):
        shell.scope.exported.update(names)
        if INHERITED in names:
            launching.mention(shell, statement.at, "variable", "1")


def _refer(shell: Shell, assignment: Assignment) -> None:
    """declare -n: another name for a variable. What that holds now is read here."""
    named = text_of(shell.value(assignment.value))
    if named.isidentifier() and named != assignment.name:
        shell.scope.references = {**shell.scope.references, assignment.name: named}
        shell.scope.variables[assignment.name] = shell.lookup(named, assignment.value.at)


def _calculated(shell: Shell, value: Value) -> Value:
    """What a variable that is declared as a number holds: names in its value are read."""
    taints = CLEAN
    for piece in value:
        for found in _NAME.finditer(piece.text or ""):
            taints |= counted(taints_of(flat(shell.lookup(found[0], piece.at + found.start()))))
    return (unknown(value[0].at, taints_of(value) | computed(taints)),) if taints else value
