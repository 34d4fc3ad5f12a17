# SPDX-License-Identifier: Apache-2.0
"""Reads the value behind a name: in quotes, in none, as a shell writes it, and as a block of YAML."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from stepguard.archive.redaction.places import Place, line_start
from stepguard.archive.redaction.shell import ENDS, MAX_MULTI_LINE_BYTES, MAX_WORD_BYTES, Syntax, Word, Words
from stepguard.archive.redaction.spans import Span
from stepguard.archive.redaction.values import is_like_a_secret, is_unusual

_OPENING = re.compile(rb"""([$bruf]?)(\\{0,3}["'])""")
# By the opening quote: what may stand before the closing one. A shell writes 'it'\''s'.
_QUOTED = {
    b'"': re.compile(rb'(?:[^"\\\x00]+|\\.)*', re.DOTALL),
    b"'": re.compile(rb"(?:[^'\x00]+|'\\'')*"),
}
_UNQUOTED = re.compile(
    rb"""(?x)(?:
        [^\s\x00\x1b,;&|)}\]"'`<>\\$]+
      | \$\{ [^{}\s\x00]{0,128} \}
      | \$
      | \\ (?! [nrt"'\\] )
      | [,;&] (?! [\w.-]{1,32}[=:] | %(ends)b | \Z )
      | [|)}\]"'`>] (?! %(ends)b | \Z )
      | < (?! / | %(ends)b | \Z )
    )+"""
    % {b"ends": ENDS}
)
# YAML 1.2.2, section 8.1: password: |- and the value below, further to the right.
_BLOCK = re.compile(rb"[|>](?:[+-]?[1-9]?|[1-9][+-])[ \t]{0,16}(?:#[^\n]{0,256})?\r?\n")
_MAX_INDENT = 64
_LINE_END = re.compile(rb"[ \t\r]*\n[ \t]*")
_KEY_OF_YAML = re.compile(rb"""[ ]*(?:-[ ]+)*(?:\?[ ]+)?["']?""")


# A quote that opens the word that a text ends in: curl -u "me:
_OPEN_QUOTE = re.compile(rb"""(\$?["'])[^\s"']*\Z""")
_MAX_WORD_BEFORE_BYTES = 160


class Value(NamedTuple):
    """A value, from `start` to `end`; `secret` is what it means, None where it means what stands there. `parts` within
    it may be met elsewhere alone: those that look secret of one that is not known as a whole."""

    start: int
    end: int
    secret: bytes | None = None
    quoted: bool = False
    parts: tuple[Span, ...] = ()
    # In quotes alone is what a shell gets from elsewhere: "$X".
    is_elsewhere: bool = False

    def text(self, content: bytes) -> bytes:
        """What is to be judged."""
        return content[self.start : self.end] if self.secret is None else self.secret

    def spans(self) -> list[Span]:
        """All of it, and within it what alone may be met elsewhere."""
        return [Span(self.start, self.end, self.secret), *self.parts]


def read_value(words: Words, place: Place) -> Value:
    """The value at the place, without its quotes."""
    content, start = words.content, place.value_start
    if place.sign == b":" and (block := _BLOCK.match(content, start)):
        return _yaml_block(content, place.start, block)
    if place.is_shell and (value := _shell_value(words, start, place.outer_quote)):
        return value
    if opening := _OPENING.match(content, start):
        return _quoted(content, opening.end(), opening[2], place.is_shell)
    if place.outer_quote and place.is_shell:
        return _quoted(content, start, place.outer_quote, True)
    value = _unquoted(content, start)
    if words.syntax is Syntax.OUTPUT and place.is_variable and place.is_shell:
        return _value_of_env(content, place, value)
    return value


def read_word(words: Words, start: int) -> Value:
    """The word of a command line at `start`, without its quotes."""
    content = words.content
    if value := _shell_value(words, start, b""):
        return value
    if opening := _OPENING.match(content, start):
        return _quoted(content, opening.end(), opening[2], False)
    return _unquoted(content, start)


def rest_of_word(words: Words, first: int, start: int, end: int) -> Value | None:
    """The rest of a command's word from `start`, at least up to `end`, where a shell reads it so; the word begins
    behind `first`."""
    content = words.content
    opening = _OPEN_QUOTE.search(content, max(first, start - _MAX_WORD_BEFORE_BYTES), start)
    if words.syntax is Syntax.ARGUMENTS or (opening and content[opening.start() - 1 : opening.start()] == b"\\"):
        return None
    if not (opening or words.syntax is Syntax.SCRIPT or _OPENING.match(content, start)):
        return None
    quote = opening[1] if opening else b""
    if opening and opening.end(1) == start:
        start, quote = opening.start(), b""
    line_end = content.find(b"\n", start, start + MAX_MULTI_LINE_BYTES)
    word = words.word(start, line_end if line_end >= 0 else min(len(content), start + MAX_MULTI_LINE_BYTES), quote)
    return _at_least(content, value_of_word(content, word), end) if word else None


def value_of_word(content: bytes, word: Word) -> Value:
    """The value that a shell's word has."""
    plain = word.value is not None and word.value == content[word.start : word.end]
    texts = [part.secret or b"" for part in word.parts]
    parts = tuple(
        part for part, text in zip(word.parts, texts, strict=True) if is_unusual(text) and is_like_a_secret(text)
    )
    is_elsewhere = word.value is None and not any(text.strip(b"/:@.-_ ") for text in texts)
    return Value(word.start, word.end, None if plain else word.value, word.quoted, parts, is_elsewhere)


def _shell_value(words: Words, start: int, outer_quote: bytes) -> Value | None:
    """The value as a shell reads it, where it does: in a script, and wherever there are a shell's quotes."""
    opening = _OPENING.match(words.content, start)
    if opening and (len(opening[2]) > 1 or opening[1] not in (b"", b"$")):
        return None
    if words.syntax is Syntax.ARGUMENTS or not (opening or outer_quote or words.syntax is Syntax.SCRIPT):
        return None
    limit = min(len(words.content), start + MAX_MULTI_LINE_BYTES)
    word = words.word(start, limit, b"" if opening else outer_quote)
    # A longer one is not unquoted.
    is_cut = word is not None and word.end == limit < len(words.content)
    return None if word is None or is_cut else value_of_word(words.content, word)


def widened(content: bytes, value: Value) -> Value:
    """A secret without quotes, up to where other forms than a shell's may end it: abc;d in a .env."""
    return value if value.quoted else _at_least(content, value, _unquoted(content, value.start).end)


def _at_least(content: bytes, value: Value, end: int) -> Value:
    """The value, with what stands behind it up to `end`, and both of them for what may be met elsewhere."""
    if end <= value.end:
        return value
    whole = Span(value.start, end, content[value.start : end])
    return value._replace(end=end, secret=value.text(content), parts=(*value.parts, whole))


def _unquoted(content: bytes, start: int) -> Value:
    word = _UNQUOTED.match(content, start, start + MAX_WORD_BYTES)
    return Value(start, word.end() if word else start)


def _quoted(content: bytes, start: int, quote: bytes, multi_line: bool) -> Value:
    """From behind the opening quote to the closing one; where that is missing, to the end of the line."""
    line_end = content.find(b"\n", start, start + MAX_WORD_BYTES)
    line_end = line_end if line_end >= 0 else min(len(content), start + MAX_WORD_BYTES)
    if len(quote) > 1:
        # \"value\" inside of a string.
        closing = content.find(quote, start, line_end)
        return Value(start, closing if closing >= 0 else line_end, quoted=True)
    limit = start + MAX_MULTI_LINE_BYTES if multi_line else line_end
    match = _QUOTED[quote].match(content, start, max(limit, line_end))
    end = match.end() if match else start
    if content[end : end + 1] == quote and end < max(limit, line_end):
        return Value(start, end, quoted=True)
    zero = content.find(b"\0", start, line_end)
    return Value(start, zero if zero >= 0 else line_end, quoted=True)


def _value_of_env(content: bytes, place: Place, word: Value) -> Value:
    """The value to the end of the line, or in /proc/PID/environ to the NUL, where it has blanks. A first word that
    looks like a secret is one, and the rest a command: TOKEN=1a2b3c4d python train.py."""
    if place.before.endswith(b"\0"):
        end = content.find(b"\0", word.start, word.start + MAX_WORD_BYTES)
        return word._replace(end=end) if end >= 0 else word
    if content[word.end : word.end + 1] not in (b" ", b"\t") or is_unusual(content[word.start : word.end]):
        return word
    if not place.is_line_of_env(content):
        return word
    end = content.find(b"\n", word.end, word.start + MAX_MULTI_LINE_BYTES)
    return word._replace(end=end if end >= 0 else min(len(content), word.start + MAX_MULTI_LINE_BYTES))


def _yaml_block(content: bytes, key_start: int, block: re.Match[bytes]) -> Value:
    """The lines below a key that are further to the right than it; nothing where the key does not begin its line, and
    for a private key, which is known by its own lines."""
    start = block.end()
    key = _KEY_OF_YAML.fullmatch(content, line_start(content, key_start), key_start)
    indent = len(key[0].rstrip(b"\"'")) if key else _MAX_INDENT
    if indent >= _MAX_INDENT:
        return Value(start, start)
    lines = _further_right(indent).match(content, start, start + MAX_MULTI_LINE_BYTES)
    text = lines[0].strip() if lines else b""
    if not text or text.startswith(b"-----BEGIN "):
        return Value(start, start)
    first = content.index(text[:1], start)
    line_end = b" " if block[0].startswith(b">") else b"\n"
    return Value(first, first + len(text), _LINE_END.sub(line_end, text), quoted=True)


@lru_cache(maxsize=_MAX_INDENT)
def _further_right(indent: int) -> re.Pattern[bytes]:
    """Lines with more blanks before them than so many, or with nothing else."""
    return re.compile(rb"(?:[ ]{%d}[^\n]*(?:\n|\Z)|[ \t\r]*\n)+" % (indent + 1))
