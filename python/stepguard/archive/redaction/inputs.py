# SPDX-License-Identifier: Apache-2.0
"""Finds secrets that a script gives to a variable as input: `read DB_PASSWORD <<< "x"`, its here-documents, and
DB_PASSWORD=$(cat <<END. Only where the name of the variable says that it is a secret.

bash(1), Here Documents, Here Strings, and read in SHELL BUILTIN COMMANDS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from stepguard.archive.redaction.assignments import Assignments
from stepguard.archive.redaction.names import MAX_NAME_BYTES
from stepguard.archive.redaction.places import name_start
from stepguard.archive.redaction.reading import Value, value_of_word
from stepguard.archive.redaction.shell import MAX_MULTI_LINE_BYTES, Syntax, Words
from stepguard.archive.redaction.spans import Span

_INPUT = re.compile(
    rb"""(?x)
    << (?: (?P<string> < ) [ \t]{0,8}
         | (?P<dash> -? ) [ \t]{0,8} (?P<quote> ["'\\]? ) (?P<delimiter> [\w.-]{1,64} ) [^\n]{0,256} \n )
    """
)
_CAT = re.compile(rb"""([A-Za-z_]\w{0,127})=["']?\$\([ \t]{0,4}cat[ \t]{0,8}""")
_READ = re.compile(rb"read([ \t][^\n|;&<>]{1,256})")
_MAX_COMMAND_BYTES = 256
# What takes the next word: -p PROMPT, -rt 5.
_OPTION_WITH_WORD = re.compile(rb"""-[A-Za-z]*[pdtnNuia][ \t]+(?:"[^"]*"|'[^']*'|\S+)""")
_NAME = re.compile(rb"[A-Za-z_]\w*")
_TO_A_DELIMITER = re.compile(rb"[ \t]-\w*d")
_FIELD = re.compile(rb"\S+")
# How often the word of the delimiter may stand in the text before it.
_MAX_DELIMITERS = 16


class Inputs:
    """Finds values that go to variables as input."""

    def __init__(self, assignments: Assignments) -> None:
        self._assignments = assignments

    def spans(self, script: bytes) -> Iterator[Span]:
        """All of them, in time that grows with the size of the script."""
        words = Words(script, Syntax.SCRIPT)
        for match in _INPUT.finditer(script):
            names, all_of_it = _variables(script, match.start())
            if any(map(self._assignments.may_be_secret, names)):
                read = _string if match["string"] else _document
                yield from self._secrets(script, names, read(words, match, len(names), all_of_it))

    def _secrets(self, script: bytes, names: Sequence[bytes], values: Sequence[Value]) -> Iterator[Span]:
        for name, value in zip(names, values, strict=False):
            if self._assignments.is_secret(name, value, script):
                yield from value.spans()


def _variables(script: bytes, at: int) -> tuple[list[bytes], bool]:
    """The names of the variables that get the input which begins at a place, and whether they get all its lines."""
    first = max(0, at - _MAX_COMMAND_BYTES, script.rfind(b"\n", max(0, at - _MAX_COMMAND_BYTES), at) + 1)
    command = script.rfind(b"read", first, at)
    if command >= 0 and (read := _READ.fullmatch(script, command, at)):
        words = _OPTION_WITH_WORD.sub(b"", read[1]).split()
        return [word for word in words if _NAME.fullmatch(word)], _TO_A_DELIMITER.search(read[1]) is not None
    command = script.rfind(b"$(", first, at)
    start = name_start(script, script.rfind(b"=", first, command), MAX_NAME_BYTES) if command >= 0 else 0
    cat = _CAT.fullmatch(script, start, at) if command >= 0 else None
    return ([cat[1]] if cat else []), True


def _string(words: Words, match: re.Match[bytes], count: int, all_of_it: bool) -> list[Value]:
    script = words.content
    word = words.word(match.end(), min(len(script), match.end() + MAX_MULTI_LINE_BYTES))
    if word is None:
        return []
    value = value_of_word(script, word)
    fields = _fields(script, value.start, value.end, count)
    # What needs to be unquoted is not taken apart, and goes as a whole.
    return fields if count > 1 and value.secret is None and len(fields) == count else [value] * count


def _document(words: Words, match: re.Match[bytes], count: int, all_of_it: bool) -> list[Value]:
    script = words.content
    start, end = match.end(), _document_end(script, match)
    if end is None:
        return []
    if not all_of_it:
        newline = script.find(b"\n", start, end)
        end = newline if newline >= 0 else end
    fields = _fields(script, start, end, count)
    if match["quote"]:
        return fields
    read = (words.here(field.start, field.end) for field in fields)
    return [
        value_of_word(script, word)._replace(quoted=True) if word else field
        for word, field in zip(read, fields, strict=True)
    ]


def _document_end(script: bytes, match: re.Match[bytes]) -> int | None:
    """Where the line before the delimiter ends; None where no delimiter is near."""
    start, limit = match.end(), min(len(script), match.end() + MAX_MULTI_LINE_BYTES)
    at = start - 1
    for _ in range(_MAX_DELIMITERS):
        at = script.find(match["delimiter"], at + 1, limit)
        if at < 0:
            return None
        line = script.rfind(b"\n", start - 1, at) + 1
        indent = script[line:at].strip(b"\t") if match["dash"] else script[line:at]
        behind = at + len(match["delimiter"])
        if line and not indent and script[behind : behind + 1] in (b"", b"\r", b"\n", b")"):
            return max(start, line - 1)
    return None


def _fields(script: bytes, start: int, end: int, count: int) -> list[Value]:
    """The text taken apart at blanks into so many; the last has the rest."""
    fields = [Value(*field.span(), quoted=True) for field in _FIELD.finditer(script, start, end)]
    if not fields:
        return []
    last = Value(fields[min(count, len(fields)) - 1].start, fields[-1].end, quoted=True)
    return [*fields[: count - 1], last] if count <= len(fields) else [last._replace(start=fields[0].start)] * count
