# SPDX-License-Identifier: Apache-2.0
"""Builtins of the shell: what they do to its variables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.options import behind_equals
from stepguard.scripts.values import (
    LINES,
    WORDS,
    Array,
    Field,
    Value,
    computed,
    counted,
    flat,
    split,
    taints_of,
    unknown,
)

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell


def end(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    shell.scope.ended = True
    return ()


def set_(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    texts = [field.text for field in fields]
    if texts[1:2] == ["-A"] and len(fields) > 2:  # ksh's arrays
        shell.assign(texts[2], Array(tuple(fields[3:])))
    elif "--" in texts:
        shell.scope.positional = tuple(fields[texts.index("--") + 1 :])
    elif len(texts) > 1 and texts[1][:1] not in "-+":
        shell.scope.positional = tuple(fields[1:])
    elif any(text.startswith("-") and "a" in text[:8] and not text.startswith("--") for text in texts[1:]):
        shell.scope.exports_all = "-o" not in texts or "allexport" in texts
    elif "allexport" in texts:
        shell.scope.exports_all = "-o" in texts
    elif "+a" in texts:
        shell.scope.exports_all = False
    return ()


def shopt(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    texts = [field.text for field in fields]
    if "lastpipe" in texts:
        shell.keeps_last_stage = "-s" in texts
    return ()


def shift(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    if shell.scope.positional is not None:
        by = int(fields[1].text) if len(fields) > 1 and fields[1].text.isdecimal() and len(fields[1].text) < 4 else 1
        left = shell.scope.positional[:by]
        several = tuple(field for field in left if field.is_unknown or field.maybe)  # one of them may be more words
        shell.scope.positional = (*several, *shell.scope.positional[by:])
    return ()


def unset(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    for field in fields[1:]:
        if field.text.isidentifier():
            shell.scope.variables[field.text] = ()
            shell.scope.exported.discard(field.text)
    return ()


def export(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    for field in fields[1:]:
        name, equals, _ = field.text.partition("=")
        if equals and name.isidentifier():
            shell.assign(name, behind_equals(field))
        if name.isidentifier():
            shell.scope.exported.add(name)
    return ()


def read(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    names: list[str] = []
    words = list(fields[1:])
    array = ""
    whole = False
    while words:
        text = words.pop(0).text
        whole = whole or text == "-d"
        if not text.startswith("-"):
            names.append(text)
        elif text[-1] in "dniNptu" and words:  # they take a value
            value = words.pop(0).text
            stdin = shell.scope.files.get(f"&{value}", stdin) if text.endswith("u") else stdin
        elif text.endswith("a") and words:
            array = words.pop(0).text
    if array:
        shell.assign(array, _elements(stdin, at, WORDS))
    for name in names:
        shell.assign(name, stdin if whole and len(names) == 1 else (unknown(at, taints_of(stdin), name),))
    return ()


def mapfile(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    name = fields[-1].text if len(fields) > 1 and not fields[-1].text.startswith("-") else "MAPFILE"
    shell.assign(name, _elements(stdin, at, LINES))
    return ()


def _elements(stdin: Value, at: int, parts: re.Pattern[str]) -> Array:
    if stdin and all(piece.text is not None for piece in stdin):
        return Array(tuple(split(tuple(piece._replace(quoted=False) for piece in stdin), parts)))
    return Array((Field((unknown(at, taints_of(stdin)),)),))


def alias(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    for field in fields[1:]:
        name, equals, _ = field.text.partition("=")
        if equals:
            shell.aliases[name] = behind_equals(field)
    return ()


def unalias(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    for field in fields[1:]:
        shell.aliases.pop(field.text, None)
    return ()


def silent(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """A builtin that prints nothing and changes no variable."""
    return ()


def trap(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    code = fields[1] if len(fields) > 2 else None
    if code is not None and code.text not in ("-", ""):
        if code.text in shell.scope.functions:
            shell.aside(lambda: shell.call(code.text, (), ()))
        else:
            shell.aside(lambda: shell.nested(code.pieces))
    return ()


_LET = re.compile(r"\s*([A-Za-z_]\w*)\s*[-+*/%]?=(?!=)(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")


def let(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    for field in fields[1:]:
        found = _LET.match(field.text)
        if found is not None:
            taints = field.taints
            for name in _NAME.findall(found[2]):
                taints |= counted(taints_of(flat(shell.lookup(name, field.at))))
            shell.assign(found[1], (unknown(at, computed(taints), found[1]),))
    return ()


def test(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    shell.ask([piece for field in fields for piece in field.pieces])
    return ()


BUILTINS = {
    **dict.fromkeys((":", "cd", "false", "sleep", "true", "umask", "wait"), silent),
    "[": test,
    "test": test,
    "alias": alias,
    "unalias": unalias,
    "exit": end,
    "return": end,
    "set": set_,
    "shift": shift,
    "shopt": shopt,
    "unset": unset,
    "export": export,
    "setenv": export,
    "read": read,
    "mapfile": mapfile,
    "readarray": mapfile,
    "trap": trap,
    "let": let,
}
