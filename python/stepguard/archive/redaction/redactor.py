# SPDX-License-Identifier: Apache-2.0
"""Redacts what a job leaves: its environment, its script, its output."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from stepguard.archive.redaction.assignments import Assignments
from stepguard.archive.redaction.inputs import Inputs
from stepguard.archive.redaction.known import cut_end as known_at_end
from stepguard.archive.redaction.known import cut_start as known_at_start
from stepguard.archive.redaction.known import known_spans
from stepguard.archive.redaction.names import Names
from stepguard.archive.redaction.rules import Rules
from stepguard.archive.redaction.shapes import Shapes
from stepguard.archive.redaction.shell import Syntax
from stepguard.archive.redaction.spans import MARKER, Span, marker, replace
from stepguard.archive.redaction.values import is_like_a_secret, is_path, is_random, is_switch, is_unusual

# A user may have as many as they like. The longest count.
_MAX_KNOWN = 500
# Where one secret ended a word that told of the next, only a second look finds that one.
_MAX_PASSES = 8
_FIRST_WORD = re.compile(rb"""[^\s\x00"'`<>]{8,4096}""")
_LAST_WORD = re.compile(rb"""[^\s\x00"'`<>]{8,4096}\Z""")
_BLANKS, _STAND_INS = b" \t\n\r", b"\x1c\x1d\x1e\x1f"
_HIDE_BLANKS, _SHOW_BLANKS = bytes.maketrans(_BLANKS, _STAND_INS), bytes.maketrans(_STAND_INS, _BLANKS)


class Redactor:
    """Replaces each secret by [redacted:PREFIX]. PREFIX is of HMAC-SHA256(key, secret), so that "is it the same value?"
    can be answered of any two markers that one key made, and nothing else. What is redacted already stays as it is."""

    def __init__(self, key: bytes, rules: Rules) -> None:
        self._key = key
        self._names = Names(rules.variable, rules.harmless)
        self._assignments = Assignments(self._names)
        self._inputs = Inputs(self._assignments)
        self._shapes = Shapes(rules)

    def environment(self, pairs: Mapping[str, str]) -> tuple[dict[str, str], int]:
        """The environment without secrets, and how many there were. Undecodable bytes are surrogates, in and out.

        A value is redacted as a whole when its name says so, unless it is empty or only says yes or no, or the name is
        a vague one and the value does not look like a secret; all others are looked through as text.
        """
        known = self.secrets(pairs)
        redacted, count = {}, 0
        for name, value in pairs.items():
            content = _encode(value)
            if self._is_secret(name, content):
                if not MARKER.fullmatch(content):
                    content = marker(self._key, content)
                    count += 1
            else:
                content, found = self.text(content, known)
                count += found
            redacted[name] = content.decode(errors="surrogateescape")
        return redacted, count

    def secrets(self, pairs: Mapping[str, str], script: bytes = b"") -> tuple[bytes, ...]:
        """The secrets of an environment and a script that text() can look for literally: long and unusual enough not
        to be met by chance. Of one with several lines each line counts. At most 500, the longest."""
        found: set[bytes] = set()
        for name, value in pairs.items():
            content = _encode(value)
            found.update([content] if self._is_secret(name, content) else self._found_in(content))
        found.update(self._found_in(script, Syntax.SCRIPT))
        lines = {line.strip() for secret in found for line in (secret, *secret.splitlines())}
        known = {line for line in lines if is_unusual(line) and b"[redacted:" not in line}
        return tuple(sorted(known, key=lambda secret: (-len(secret), secret))[:_MAX_KNOWN])

    def _found_in(self, content: bytes, syntax: Syntax = Syntax.OUTPUT) -> Iterator[bytes]:
        for _ in range(_MAX_PASSES):
            shaped, named = self._shaped_and_named(content, syntax)
            for span in shaped:
                yield content[span.start : span.end]
            for span in named:
                if span.secret is None:
                    yield content[span.start : span.end]
            for span in (*shaped, *named):
                if span.secret is not None:
                    yield span.secret
            content, count = replace(content, (*shaped, *named), self._mark)
            if not count:
                break

    def text(
        self,
        content: bytes,
        known: Sequence[bytes] = (),
        cut_start: bool = False,
        cut_end: bool = False,
        commands: bool = False,
    ) -> tuple[bytes, int]:
        """A script or an output without secrets, and how many there were. Any bytes are allowed, and those outside of
        secrets stay as they are.

        `known`: what secrets() found in the job's environment and script; it is looked for as it is and as programs
        write it. `commands`: the content is a script, whose words a shell unquotes, and where `--password via`
        tells a password, as it does not in a sentence. `cut_start`, `cut_end`: the content was cut out of a
        longer one there (a tail, a head), so that a secret may have lost its beginning or its end, and with it its
        name or shape. Then the first or last word is redacted when it is at least 8 characters that look random, or
        are the end or the beginning of a known secret. Of a private key whose BEGIN line or END line is missing, cut
        or not, the lines of base64 that are left are redacted. In a script, the lines behind a secret keep their
        numbers.
        """
        return self._text(content, known, cut_start, cut_end, Syntax.SCRIPT if commands else Syntax.OUTPUT)

    def _text(
        self, content: bytes, known: Sequence[bytes], cut_start: bool, cut_end: bool, syntax: Syntax
    ) -> tuple[bytes, int]:
        count = 0
        for _ in range(_MAX_PASSES):
            content, found = self._pass(content, known, cut_start, cut_end, syntax)
            count += found
            if not found:
                break
        return content, count

    def _pass(
        self, content: bytes, known: Sequence[bytes], cut_start: bool, cut_end: bool, syntax: Syntax
    ) -> tuple[bytes, int]:
        shaped, named = self._shaped_and_named(content, syntax)
        spans = [*shaped, *named, *known_spans(content, known)]
        if cut_start:
            spans += known_at_start(content, known)
        if cut_end:
            spans += known_at_end(content, known)
        spans += _pieces(content, cut_start, cut_end)
        return replace(content, spans, self._mark, keep_lines=syntax is Syntax.SCRIPT)

    def _mark(self, secret: bytes) -> bytes:
        return marker(self._key, secret)

    def words(self, words: Sequence[str], known: Sequence[bytes] = ()) -> list[str]:
        """A command line without secrets: in each word, and in what stands in a word after `--password` or `-p`."""
        redacted = [self.text(_encode(word), known)[0] for word in words]
        if not any(byte in word for word in redacted for byte in _STAND_INS):
            # A blank inside of a word must not end it.
            hidden = b" ".join(word.translate(_HIDE_BLANKS) for word in redacted)
            line, _ = self._text(hidden, (), False, False, Syntax.ARGUMENTS)
            again = [word.translate(_SHOW_BLANKS) for word in line.split(b" ")]
            redacted = again if len(again) == len(words) else redacted
        return [word.decode(errors="surrogateescape") for word in redacted]

    def _is_secret(self, name: str, value: bytes) -> bool:
        rule = self._names.rule(name)
        if rule is None or is_switch(value):
            return False
        return (rule.paths or not is_path(value)) and (not rule.vague or is_like_a_secret(value))

    def _shaped_and_named(self, content: bytes, syntax: Syntax) -> tuple[list[Span], list[Span]]:
        """What is found by its shape, which may be met again as it is written there, and what is found by a name."""
        named = list(self._assignments.spans(content, syntax))
        if syntax is Syntax.SCRIPT:
            named += self._inputs.spans(content)
        return list(self._shapes.spans(content, syntax)), named


def _encode(value: str) -> bytes:
    return value.encode(errors="surrogateescape")


def _may_be_piece(word: bytes) -> bool:
    return is_random(word) and not MARKER.search(word)


def _pieces(content: bytes, cut_start: bool, cut_end: bool) -> Iterator[Span]:
    """The first and the last word where they look like the rest of a secret that a cut went through."""
    if cut_start and (word := _FIRST_WORD.match(content)) and _may_be_piece(word[0]):
        yield Span(*word.span())
    tail_start = max(0, len(content) - 4096)
    if cut_end and (word := _LAST_WORD.search(content, tail_start)) and _may_be_piece(word[0]):
        yield Span(*word.span())
