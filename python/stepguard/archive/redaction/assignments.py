# SPDX-License-Identifier: Apache-2.0
"""Finds values that are secret by the name before them: in `set -x`, `env`, scripts, JSON, YAML, XML, command lines.

Its forms: NAME=VALUE and "name": "value" with all that is written between the two, `--name value`, `setenv NAME value`
and ${NAME:-value}. A value in quotes ends with them (also on a later line, after NAME="), another one at the first
blank; so of a passphrase of several words without quotes only the first is found by name, but in what `env` prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepguard.archive.redaction.alternation import alternation
from stepguard.archive.redaction.names import MAX_NAME_BYTES, Names, Variable
from stepguard.archive.redaction.places import BETWEEN, Place, line_start, name_end, name_start
from stepguard.archive.redaction.reading import Value, read_value, read_word, value_of_word, widened
from stepguard.archive.redaction.shell import MAX_DEFAULT_BYTES, Syntax, Words
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

_FLAG = re.compile(rb"--([A-Za-z][\w.-]{1,63})[ \t]{1,8}(?=[^\s-])")
_SETENV = re.compile(rb"setenv[ \t]{1,8}([A-Za-z_]\w{1,63})[ \t]{1,8}")
_DEFAULT = re.compile(rb"\$\{([A-Za-z_]\w{1,127}):?([-=+])(?!\})")

# A sentence begins with a capital letter and another word; and it goes on with a word that is neither an option nor a
# path, or ends with a dot.
_SENTENCE = re.compile(rb"[ \t]{0,16}(?:[\w.-]{1,32}: )?[A-Z][a-z]{1,32}[,:!]?[ \t]")
_SENTENCE_GOES_ON = re.compile(rb"[.,:;!?]{0,4}[ \t]{1,8}[A-Za-z]{1,32}[.,:;!?]?(?:\s|\Z)|[.,:;!?]{1,4}(?:\s|\Z)")


class Assignments:
    """Finds values by the names before them."""

    def __init__(self, names: Names) -> None:
        self._names = names
        words: dict[str, str] = {}
        for word in names.last_words():
            # As it stands in hf_token, hfToken and HF_TOKEN; what goes on in the same case is another word.
            words |= {word.lower(): "(?![a-z])", word.title(): "(?![a-z])", word: "(?![A-Z])"}
        self._pattern = re.compile(alternation(words).encode() + b"(?x:" + BETWEEN + b")") if words else None

    def spans(self, content: bytes, syntax: Syntax = Syntax.OUTPUT) -> Iterator[Span]:
        """All of them, in time that grows with the size of the content. Within one there may be others, of the parts
        of it that alone may be met elsewhere."""
        yield from self._assigned(Words(content, syntax))
        yield from self._given(Words(content, syntax))
        yield from self._defaults(Words(content, syntax))

    def may_be_secret(self, name: bytes) -> bool:
        """Whether a variable of this name holds secrets."""
        rule = self._names.rule(name.decode("ascii", "replace"))
        return rule is not None and (name.isupper() or not rule.vague)

    def is_secret(self, name: bytes, value: Value, content: bytes) -> bool:
        """Whether a variable of this name holds a secret that stands there."""
        rule = self._names.rule(name.decode("ascii", "replace"))
        if rule is None or (rule.vague and not name.isupper()) or not value.text(content):
            return False
        return self._judge(value, content, rule, careful=not name.isupper())

    def _assigned(self, words: Words) -> Iterator[Span]:
        content, at = words.content, 0
        while self._pattern is not None and (match := self._pattern.search(content, at)):
            # After a secret the search goes on behind it, or hostile text would have each value read many times.
            at = match.end()
            if content.startswith(b"[redacted:", at):
                continue
            start = name_start(content, match.start(), MAX_NAME_BYTES)
            end = match.start("quote") if match["quote"] else name_end(content, match.start())
            rule = self._names.rule(content[start:end].strip(b"-.").decode("ascii", "replace"))
            if rule is None:
                continue
            place = Place(content, start, end, match)
            if place.holds_none(content) or (rule.vague and not place.is_capital):
                continue
            value = read_value(words, place)
            if self._is_value(value, content, rule, place):
                value = widened(content, value) if words.syntax is Syntax.SCRIPT and place.is_shell else value
                yield from value.spans()
                at = max(at, value.end)

    def _is_value(self, value: Value, content: bytes, rule: Variable, place: Place) -> bool:
        text = value.text(content)
        if not text or (place.sign == b"," and not value.quoted):
            return False
        if place.is_prose and not value.quoted and (is_prose(text) or not (place.is_variable or is_unusual(text))):
            return False
        if place.sign == b"\t" and not _is_cell(content, value):
            return False
        if place.sign == b":" and value.quoted and value.secret is not None and _is_sentence(text):
            return False
        return self._judge(value, content, rule, careful=not place.is_variable)

    def _given(self, words: Words) -> Iterator[Span]:
        """The values of `--name value` and `setenv NAME value`."""
        content, syntax = words.content, words.syntax
        for pattern in (_FLAG, _SETENV):
            end = 0
            for match in pattern.finditer(content):
                rule = self._names.rule(match[1].decode())
                if rule is None or match.start() < end or (rule.vague and not match[1].isupper()):
                    continue
                value = read_word(words, match.end())
                text = value.text(content)
                in_words = pattern is _FLAG and not value.quoted and is_prose(text)
                if in_words and (
                    text.isupper() or (syntax is Syntax.OUTPUT and not _is_argument(content, match.start(), value))
                ):
                    continue
                if text and self._judge(value, content, rule, careful=True):
                    value = widened(content, value) if syntax is Syntax.SCRIPT else value
                    end = value.end
                    yield from value.spans()

    def _defaults(self, words: Words) -> Iterator[Span]:
        """The values of ${NAME:-value}, ${NAME=value} and ${NAME:+value}."""
        content = words.content
        for match in _DEFAULT.finditer(content):
            rule = self._names.rule(match[1].decode())
            if rule is None or content.find(b"}", match.end(), match.end() + MAX_DEFAULT_BYTES) < 0:
                continue
            in_double = content.count(b'"', line_start(content, match.start()), match.start()) % 2 == 1
            word = words.default(match.end(), in_double)
            if word is None:
                continue
            value = value_of_word(content, word)
            text = value.text(content)
            # "${TOKEN:+--token $TOKEN}" and "${TOKEN:-is not set}" are no secrets.
            if not text or _is_sentence(text) or (match[2] == b"+" and not is_like_a_secret(text)):
                continue
            if self._judge(value, content, rule, careful=not match[1].isupper()):
                yield from value.spans()

    def _judge(self, value: Value, content: bytes, rule: Variable, careful: bool) -> bool:
        text, written = value.text(content), content[value.start : value.end]
        if value.is_elsewhere or is_placeholder(text) or is_placeholder(written) or text.startswith(b"[redacted:"):
            return False
        # A shell's word ends before the ( of a call.
        is_call = content.startswith(b"(", value.end) and is_code(text + b"(")
        if not value.quoted and (is_call or is_code(text) or self._is_name_of_secret(text)):
            return False
        if careful and not rule.plain_words and not is_unusual(text):
            return False
        if rule.vague and not is_like_a_secret(text):
            return False
        return rule.paths or not is_path(text)

    def _is_name_of_secret(self, text: bytes) -> bool:
        """Whether it only hands on a variable: token=args.hf_token."""
        return is_identifier(text) and self._names.rule(text.decode()) is not None


def _is_argument(content: bytes, flag_start: int, value: Value) -> bool:
    """Whether a plain word after a flag is its value: on a command line, and not in "Using --password via the CLI"."""
    start = line_start(content, flag_start)
    return not _SENTENCE.match(content, start, flag_start) and not _SENTENCE_GOES_ON.match(content, value.end)


def _is_cell(content: bytes, value: Value) -> bool:
    """Whether it is the second and last of a line, and no heading: passwd TAB 1a2b3c4d."""
    text = value.text(content)
    is_last = not content[value.end : value.end + 2].strip(b"\r\n") or content[value.end : value.end + 1] == b"\n"
    return is_last and is_unusual(text) and any(byte in b"0123456789" for byte in text)


def _is_sentence(text: bytes) -> bool:
    """Whether most of it is words of a language."""
    words = text.split()
    plain = [word for word in words if is_prose(word) and not any(byte in b"0123456789" for byte in word)]
    return len(words) > 1 and 2 * len(plain) > len(words)
