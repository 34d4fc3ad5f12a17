# SPDX-License-Identifier: Apache-2.0
"""Finds values that are secret by the name before them: in `set -x`, `env`, scripts, JSON, YAML, TOML, command lines.

Three forms: NAME=VALUE and "name": "value" with all that is written between the two, `--name value`, and
`setenv NAME value`. A value in quotes ends with them (also on a later line, after NAME="), another one at the first
blank; so of a passphrase of several words without quotes only the first is found by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepguard.archive.redaction.alternation import alternation
from stepguard.archive.redaction.names import MAX_NAME_BYTES, Names, Variable
from stepguard.archive.redaction.spans import Span
from stepguard.archive.redaction.values import (
    is_code,
    is_identifier,
    is_like_a_secret,
    is_path,
    is_placeholder,
    is_prose,
    is_unusual,
)

_NAME_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_MAX_VALUE_BYTES = 1 << 16
_MAX_MULTI_LINE_BYTES = 4096
# Between a name and its value: "name": x, ['name'] = x, name := x, name: str = x, ('name', x), <name>x.
_BETWEEN = rb"""
    [\w.-]{0,40}
    (?P<quote>\\{0,3}["'])? \]? [ \t]{0,8}
    (?P<sign>
        (?: :[ ]? (?:str|bytes|Optional\[str\]|str[ ]\|[ ]None) [ ]? )? = (?:=|>|(?!~))
      | [:?+]= | :(?!:|//) | , | >
    )
    [ \t]{0,8}
"""
_FLAG = re.compile(rb"--([A-Za-z][\w.-]{1,63})[ \t]{1,8}(?=[^\s-])")
_SETENV = re.compile(rb"setenv[ \t]{1,8}([A-Za-z_]\w{1,63})[ \t]{1,8}")

# A sentence begins with a capital letter and another word; and it goes on with a word that is neither an option nor a
# path, or ends with a dot.
_MAX_LINE_BYTES = 1024
_SENTENCE = re.compile(rb"[ \t]{0,16}(?:[\w.-]{1,32}: )?[A-Z][a-z]{1,32}[,:!]?[ \t]")
_SENTENCE_GOES_ON = re.compile(rb"[.,:;!?]{0,4}[ \t]{1,8}[A-Za-z]{1,32}[.,:;!?]?(?:\s|\Z)|[.,:;!?]{1,4}(?:\s|\Z)")

_OPENING = re.compile(rb"""[$bruf]?(\\{0,3}["'])""")
# By the opening quote: what may stand before the closing one. A shell writes 'it'\''s'.
_QUOTED = {
    b'"': re.compile(rb'(?:[^"\\\x00]+|\\.)*', re.DOTALL),
    b"'": re.compile(rb"(?:[^'\x00]+|'\\'')*"),
}
# The end of a value in none: a blank, or one of these signs where something else goes on.
_GOES_ON = rb"""[\s\x00\x1b,;:&|)}\]"'`<>\\]"""
_UNQUOTED = re.compile(
    rb"""(?x)(?:
        [^\s\x00\x1b,;&|)}\]"'`<>\\$]+
      | \$\{ [^{}\s\x00]{0,128} \}
      | \$
      | \\ (?! [nrt"'\\] )
      | [,;&] (?! [\w.-]{1,32}[=:] | %(end)b | \Z )
      | [|)}\]"'`>] (?! %(end)b | \Z )
      | < (?! / | %(end)b | \Z )
    )+"""
    % {b"end": _GOES_ON}
)


class Assignments:
    """Finds values by the names before them."""

    def __init__(self, names: Names) -> None:
        self._names = names
        words: dict[str, str] = {}
        for word in names.last_words():
            # As it stands in hf_token, hfToken and HF_TOKEN; what goes on in the same case is another word.
            words |= {word.lower(): "(?![a-z])", word.title(): "(?![a-z])", word: "(?![A-Z])"}
        self._pattern = re.compile(alternation(words).encode() + b"(?x:" + _BETWEEN + b")") if words else None

    def spans(self, content: bytes, commands: bool = False) -> list[Span]:
        """All of them, in time that grows with the size of the content. `commands`: it is a script or a command line,
        so that a plain word after `--password` is its value."""
        return [*self._assigned(content), *self._given(content, commands)]

    def _assigned(self, content: bytes) -> Iterator[Span]:
        at = 0
        while self._pattern is not None and (match := self._pattern.search(content, at)):
            # After a secret the search goes on behind it, or hostile text would have each value read many times.
            at = match.end()
            before = content[max(0, match.start() - MAX_NAME_BYTES) : match.start()]
            start = match.start() - (len(before) - len(before.rstrip(_NAME_BYTES)))
            name_end = match.start("quote") if match["quote"] else _name_end(content, match.start())
            rule = self._names.rule(content[start:name_end].strip(b"-.").decode("ascii", "replace"))
            if rule is None:
                continue
            span = self._value(content, rule, _Place(content, start, name_end, match))
            if span is not None:
                yield span
                at = max(at, span.end)

    def _value(self, content: bytes, rule: Variable, place: _Place) -> Span | None:
        if place.holds_none(content):
            return None
        value, quoted = _read_value(content, place)
        text = content[value.start : value.end]
        if not text or (place.sign == b"," and not quoted):
            return None
        if place.is_prose and not quoted and (is_prose(text) or not (place.is_variable or is_unusual(text))):
            return None
        if rule.vague and not place.is_capital:
            return None
        return value if self._is_secret(text, rule, quoted, careful=not place.is_variable) else None

    def _given(self, content: bytes, commands: bool) -> Iterator[Span]:
        """The values of `--name value` and `setenv NAME value`."""
        for pattern in (_FLAG, _SETENV):
            for match in pattern.finditer(content):
                rule = self._names.rule(match[1].decode())
                if rule is None or (rule.vague and not match[1].isupper()):
                    continue
                value, quoted = _read_word(content, match.end())
                text = content[value.start : value.end]
                in_words = pattern is _FLAG and not quoted and is_prose(text)
                if in_words and (text.isupper() or not (commands or _is_argument(content, match.start(), value))):
                    continue
                if text and self._is_secret(text, rule, quoted, careful=True):
                    yield value

    def _is_secret(self, text: bytes, rule: Variable, quoted: bool, careful: bool) -> bool:
        if is_placeholder(text) or text.startswith(b"[redacted:"):
            return False
        if not quoted and (is_code(text) or self._is_name_of_secret(text)):
            return False
        if careful and not rule.plain_words and not is_unusual(text):
            return False
        if rule.vague and not is_like_a_secret(text):
            return False
        return rule.paths or not is_path(text)

    def _is_name_of_secret(self, text: bytes) -> bool:
        """Whether it only hands on a variable: token=args.hf_token."""
        return is_identifier(text) and self._names.rule(text.decode()) is not None


class _Place:
    """Where a name stands, what is around it, and where its value begins."""

    def __init__(self, content: bytes, start: int, name_end: int, match: re.Match[bytes]) -> None:
        self.sign: bytes = match["sign"]
        self.closing_quote: bytes = match["quote"] or b""
        self.value_start = match.end()
        before = content[max(0, start - 2) : start]
        name = content[start:name_end]
        self._before = before
        # 'NAME=VALUE', as `set -x` writes an export of a value with blanks.
        self.outer_quote = before[-1:] if before[-1:] in (b'"', b"'") and not self.closing_quote else b""
        self.is_shell = match.end() - name_end == 1 and self.sign == b"="
        # A name in capitals is that of a variable of the environment, where the rules need not be careful.
        self.is_capital = name.isupper()
        self.is_variable = self.is_capital and (self.is_shell or b"_" in name)
        # "Enter password: ERROR 2002", "DB_PASSWORD: unbound variable", "if password == expected".
        self.is_prose = not self.closing_quote and (self.sign == b":" or self.sign == b"==")

    def holds_none(self, content: bytes) -> bool:
        """Whether no value need be read: ${TOKEN:-...}, https://token:..., a > that closes no <token>, a comma behind
        no 'token', the end of "Password: ", and what is redacted already."""
        if self._before.endswith((b"$", b"${", b"//")):
            return True
        if self.sign == b">" and not self._before.endswith(b"<"):
            return True
        if self.sign == b"," and not self.closing_quote:
            return True
        if content.startswith(b"[redacted:", self.value_start):
            return True
        return bool(self.outer_quote) and content.startswith(self.outer_quote, self.value_start)


def _is_argument(content: bytes, flag_start: int, value: Span) -> bool:
    """Whether a plain word after a flag is its value: on a command line, and not in "Using --password via the CLI"."""
    first = max(0, flag_start - _MAX_LINE_BYTES)
    line_start = max(first, content.rfind(b"\n", first, flag_start) + 1)
    return not _SENTENCE.match(content, line_start, flag_start) and not _SENTENCE_GOES_ON.match(content, value.end)


def _name_end(content: bytes, at: int) -> int:
    end = at
    while end < len(content) and content[end] in _NAME_BYTES:
        end += 1
    return end


def _read_value(content: bytes, place: _Place) -> tuple[Span, bool]:
    """The value at the place, without its quotes, and whether it had some."""
    start = place.value_start
    if opening := _OPENING.match(content, start):
        return _quoted(content, opening.end(), opening[1], place.is_shell), True
    if place.outer_quote and place.is_shell:
        return _quoted(content, start, place.outer_quote, True), True
    return _read_word(content, start)


def _read_word(content: bytes, start: int) -> tuple[Span, bool]:
    opening = _OPENING.match(content, start)
    if opening:
        return _quoted(content, opening.end(), opening[1], False), True
    word = _UNQUOTED.match(content, start, start + _MAX_VALUE_BYTES)
    return Span(start, word.end() if word else start), False


def _quoted(content: bytes, start: int, quote: bytes, multi_line: bool) -> Span:
    """From behind the opening quote to the closing one; where that is missing, to the end of the line."""
    line_end = content.find(b"\n", start, start + _MAX_VALUE_BYTES)
    line_end = line_end if line_end >= 0 else min(len(content), start + _MAX_VALUE_BYTES)
    if len(quote) > 1:
        # \"value\" inside of a string.
        closing = content.find(quote, start, line_end)
        return Span(start, closing if closing >= 0 else line_end)
    limit = start + _MAX_MULTI_LINE_BYTES if multi_line else line_end
    match = _QUOTED[quote].match(content, start, max(limit, line_end))
    end = match.end() if match else start
    if content[end : end + 1] == quote and end < max(limit, line_end):
        return Span(start, end)
    zero = content.find(b"\0", start, line_end)
    return Span(start, zero if zero >= 0 else line_end)
