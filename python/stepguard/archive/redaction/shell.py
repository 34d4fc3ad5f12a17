# SPDX-License-Identifier: Apache-2.0
"""Reads one word as bash does, and says what bash makes of it: of `"abc"'d'\\&` the value abcd&.

bash(1), QUOTING and Parameter Expansion. What a substitution gives is not known; of "${X:-abc}" it is abc, which the
script shows. Nothing is looked up or run. Time grows with the size of the word, which is bounded.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from stepguard.archive.redaction.escapes import IN_ANSI, IN_BRACES_IN_DOUBLE, IN_DOUBLE, IN_HERE, IN_NO_QUOTES, unescape
from stepguard.archive.redaction.spans import Span

MAX_WORD_BYTES = 1 << 16
MAX_MULTI_LINE_BYTES = 4096
MAX_DEFAULT_BYTES = 1024
_MAX_DEPTH = 2
# Of quotes and expansions in one word. Hostile text has words of thousands, which begin anew at each name within them.
_MAX_PIECES = 24

# The end of a word in no quotes: a blank, or one of these signs where something else goes on.
ENDS = rb"""[\s\x00\x1b,;:&|)}\]"'`<>\\]"""
# A script may hold any language, and a shell's words may stand in the strings of another. So \n ends a word, as it does
# in echo "A=x\nB=y", and a quote with \ before it or a bracket only goes on where more of the word follows.
_RUN = re.compile(
    rb"""(?x)(?:
        [^\s\x00\x1b,;&|()}\]"'`<>\\$]+
      | , (?! [\w.-]{1,32}[=:] | %(ends)b | \Z )
      | [}\]] (?! %(ends)b | \Z )
      | \\ [^nrt"'\\\n\r\x00\x1b]
      | \\ ["'\\] (?= [\w\\@%%+=./~^*!\#?-] )
      | \\' (?= ' )
      | \\ \r?\n (?= [^\s\#] )
    )+"""
    % {b"ends": ENDS}
)
_ENDS = re.compile(ENDS)
_ONE_IN_QUOTES = re.compile(rb"""(?:'([^'\x00]*)'|"([^"\\$`\x00]*)")(?!["'\\$`])""")
_ONE = re.compile(rb"""(?:'([^'\x00]*)'|"([^"\\$`\x00]*)"|[\w@%+=:./!*^~#?-]+)(?=[\s;&|<>()\x00\x1b]|\Z)""")
_SINGLE = re.compile(rb"[^'\x00]*")
_ANSI = re.compile(rb"(?:[^'\\\x00]+|\\[^\x00])*")
_DOUBLE = re.compile(rb'(?:[^"\\$`\x00]+|\\[^\x00])+')
_HERE = re.compile(rb"(?:[^\\$`\x00]+|\\[^\x00])+")
_BRACED = re.compile(rb"""(?:[^}"'\\$`\x00\n]+|\\[^\x00])+""")
# There 'a}b' is a}b with its quotes.
_BRACED_IN_DOUBLE = re.compile(rb"""(?:[^}"'\\$`\x00\n]+|\\[^\x00]|'[^'"\\$`\x00\n]*'|')+""")

_DEFAULT = re.compile(rb"\$\{[A-Za-z_]\w{0,127}:?[-=+]")
_EXPANSION = re.compile(
    rb"""(?x)
      \$ (?: [A-Za-z_]\w* | [0-9@*?\#!$-] | \{ [^{}\s\x00]{1,128} \}
           | \( (?: [^()\x00] | \( (?: [^()\x00] | \( [^()\x00]{0,256} \) ){0,256} \) ){0,1024} \) )
    | ` (?: [^`\\\x00\n] | \\[^\x00\n] ){0,1024} `
    """
)


class Syntax(Enum):
    """How the words of a text are written."""

    # A shell's script: quotes and backslashes are a shell's.
    SCRIPT = "script"
    # A command line after the shell: a word is its value.
    ARGUMENTS = "arguments"
    # Whatever a program prints. Quotes may be a shell's (`set -x`), backslashes outside of them are none.
    OUTPUT = "output"


class Word(NamedTuple):
    """A word, from `start` to `end`: within its quotes where one pair has all of it, and of ${X:-abc} only abc."""

    start: int
    end: int
    # None where a substitution takes part. Then `parts` are what is known, each with its value.
    value: bytes | None
    parts: tuple[Span, ...]
    quoted: bool

    def literals(self) -> tuple[Span, ...]:
        """What is known of it."""
        return self.parts if self.value is None else (Span(self.start, self.end, self.value),)


class Words:
    """Reads words of one text. None of its methods looks back, and what they gave up on they do not begin anew."""

    def __init__(self, content: bytes, syntax: Syntax) -> None:
        self.content = content
        self.syntax = syntax
        self._given_up = 0

    def word(self, start: int, limit: int, quote: bytes = b"") -> Word | None:
        """The word that begins at `start`, or goes on there within `quote`; None where a quote or brace stays open up
        to `limit`, or it has too many pieces. Outside of scripts only quotes make a word, as in 'it'\\''s'."""
        goes_on = self.syntax is Syntax.SCRIPT
        # Nearly all words are of one piece.
        if not quote and (one := (_ONE if goes_on else _ONE_IN_QUOTES).match(self.content, start, limit)):
            inside = one.lastindex or 0
            return Word(*one.span(inside), one[inside], (), inside > 0)
        if start < self._given_up:
            return None
        reader = _Reader(self.content, start, limit, goes_on)
        return self._result(reader, (not quote or reader.quote(quote)) and reader.pieces())

    def default(self, start: int, in_double: bool) -> Word | None:
        """What stands between `start`, which is behind "${X:-", and the brace that closes it."""
        reader = _Reader(self.content, start, min(len(self.content), start + MAX_DEFAULT_BYTES))
        return self._result(reader, start >= self._given_up and reader.braced(in_double))

    def here(self, start: int, end: int) -> Word | None:
        """The body of a here-document whose delimiter has no quotes."""
        reader = _Reader(self.content, start, end)
        return self._result(reader, start >= self._given_up and reader.here())

    def _result(self, reader: _Reader, is_whole: bool) -> Word | None:
        if reader.is_too_long:
            self._given_up = reader.at
        return reader.finish() if is_whole else None


class _Reader:
    """Goes along one word. Its methods answer False where a quote or a brace is not closed."""

    def __init__(self, content: bytes, at: int, limit: int, goes_on: bool = True) -> None:
        self.at = at
        self.is_too_long = False
        self._content, self._limit, self._goes_on = content, limit, goes_on
        self._depth = self._pieces = 0
        self._start = at
        self._literal: list[bytes] = []
        self._literal_start = self._literal_end = at
        self._parts: list[Span] = []
        # What is not known; of ${X:-abc} the reader of abc.
        self._unknown: list[_Reader | None] = []
        # The quotes of each quoted piece: the opening one, where its inside begins, and where that ends.
        self._quotes: list[tuple[bytes, int, int]] = []

    def finish(self) -> Word:
        end = self.at
        self._flush()
        if len(self._unknown) == 1 and not self._parts and (default := self._unknown[0]):
            return default.finish()
        parts = list(self._parts)
        for default in self._unknown:
            parts += default.finish().literals() if default else ()
        start, quoted = self._start, False
        if self._quotes:
            (first, inside, _), (last, _, closing) = self._quotes[0], self._quotes[-1]
            quoted = inside - len(first) <= start
            if quoted and first == last and closing + 1 == end:
                start, end = inside, closing
        if self._unknown:
            return Word(start, end, None, tuple(parts), quoted)
        return Word(start, end, b"".join(part.secret or b"" for part in parts), (), quoted)

    def pieces(self) -> bool:
        """Piece after piece, as long as the word goes on."""
        while self.at < self._limit:
            if not self._count():
                return False
            opening = self._opening()
            if opening:
                is_first = self.at == self._start
                if not is_first and not self._opens(opening):
                    break
                self.at += len(opening)
                if not self.quote(opening):
                    return False
            elif not self._goes_on:
                # 'it'\''s'
                if not self._content.startswith(b"\\''", self.at, self._limit) or not self._quotes:
                    break
                self._add(self.at + 2, b"'")
            elif self._content[self.at] in b"$`":
                if self._content[self.at] == ord("`") and not self._opens(b"`"):
                    break
                if not self._expand(in_double=False):
                    return False
            elif run := _RUN.match(self._content, self.at, self._limit):
                if run.end() == self._limit < len(self._content):
                    self.at, self.is_too_long = run.end(), True
                    return False
                self._add(run.end(), unescape(IN_NO_QUOTES, run[0]))
            else:
                break
        return True

    def quote(self, opening: bytes) -> bool:
        """From behind the opening quote to behind the closing one."""
        inside = self.at
        if opening in (b"'", b"$'"):
            match = (_SINGLE if opening == b"'" else _ANSI).match(self._content, inside, self._limit)
            body = match[0] if match else b""
            self._add(inside + len(body), body if opening == b"'" else unescape(IN_ANSI, body))
        else:
            while self._run(_DOUBLE, IN_DOUBLE):
                if self._content[self.at] == opening[-1]:
                    break
                if not self._expand(in_double=True):
                    return False
        if self.at >= self._limit or self._content[self.at] != opening[-1]:
            return False
        self._quotes.append((opening, inside, self.at))
        self.at += 1
        return True

    def braced(self, in_double: bool) -> bool:
        """Up to the brace that closes ${X:-."""
        run = _BRACED_IN_DOUBLE if in_double else _BRACED
        while self._run(run, IN_BRACES_IN_DOUBLE if in_double else IN_NO_QUOTES):
            if self._content[self.at] == ord("}"):
                return True
            if not self._count():
                return False
            opening = self._opening()
            if opening and not (in_double and opening == b"$'"):
                self.at += len(opening)
                if not self.quote(opening):
                    return False
            elif not self._expand(in_double):
                return False
        return False

    def here(self) -> bool:
        """Up to the limit."""
        while self._run(_HERE, IN_HERE):
            if not self._expand(in_double=True):
                return False
        return True

    def _count(self) -> bool:
        self._pieces += 1
        self.is_too_long = self._pieces > _MAX_PIECES
        return not self.is_too_long

    def _run(self, run: re.Pattern[bytes], escape: re.Pattern[bytes]) -> bool:
        """Takes plain text; whether something else is behind it."""
        if match := run.match(self._content, self.at, self._limit):
            self._add(match.end(), unescape(escape, match[0]))
        return self.at < self._limit

    def _opening(self) -> bytes:
        """The opening quote that stands here."""
        one = self._content[self.at : self.at + 1]
        if one == b"$":
            two = self._content[self.at : min(self.at + 2, self._limit)]
            return two if two in (b"$'", b'$"') else b""
        return one if one in (b"'", b'"') else b""

    def _opens(self, opening: bytes) -> bool:
        """Whether a quote in the middle of a word opens another piece, and is not the end of what the word is in."""
        inside = self.at + len(opening)
        if opening != b"`" and self._content.startswith(opening[-1:], inside, self._limit):
            return True
        line_end = self._content.find(b"\n", inside, self._limit)
        closing = self._content.find(opening[-1:], inside, line_end if line_end >= 0 else self._limit)
        is_escape = opening == b"$'" and self._content.startswith(b"\\", inside)
        return closing >= 0 and (is_escape or not _ENDS.match(self._content, inside))

    def _expand(self, in_double: bool) -> bool:
        # What a program prints has been expanded.
        if not self._goes_on or not self._count():
            return False
        if match := _DEFAULT.match(self._content, self.at, self._limit):
            limit = min(self._limit, match.end() + MAX_DEFAULT_BYTES)
            default = _Reader(self._content, match.end(), limit)
            default._depth, default._pieces = self._depth + 1, self._pieces
            if default._depth > _MAX_DEPTH or not default.braced(in_double):
                self.is_too_long = default.is_too_long
                return False
            self._pieces = default._pieces
            self._pass_over(default.at + 1, default)
            return True
        if match := _EXPANSION.match(self._content, self.at, self._limit):
            self._pass_over(match.end(), None)
            return True
        if self._content[self.at] in b"`\0" or self._content.startswith((b"${", b"$("), self.at):
            return False
        self._add(self.at + 1, b"$")
        return True

    def _add(self, end: int, text: bytes) -> None:
        if not self._literal:
            self._literal_start = self.at
        self._literal.append(text)
        self.at = self._literal_end = end

    def _pass_over(self, end: int, default: _Reader | None) -> None:
        self._flush()
        self._unknown.append(default)
        self.at = end

    def _flush(self) -> None:
        if literal := b"".join(self._literal):
            self._parts.append(Span(self._literal_start, self._literal_end, literal))
        self._literal = []
