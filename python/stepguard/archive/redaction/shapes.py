# SPDX-License-Identifier: Apache-2.0
"""Finds secrets by what they look like (tokens) and by what stands before them (contexts).

Most of a log is passed over in three cheap ways: tokens are looked for only around long runs of their characters,
with one expression for all their beginnings; a rule for a context costs one search of a fixed text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepguard.archive.redaction.alternation import alternation
from stepguard.archive.redaction.reading import rest_of_word
from stepguard.archive.redaction.rules import Rules, Shape
from stepguard.archive.redaction.shell import Syntax, Words
from stepguard.archive.redaction.spans import Span
from stepguard.archive.redaction.values import CHECKS, DECODERS, is_placeholder

_RUN_BYTES = 16
# Not in the middle of a word; but behind %3D, \n in a string, and the end of a colour (ESC [ 3 2 m) a word begins.
_BOUNDARY = rb"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt])|(?<=[\[;]\dm)|(?<=[\[;]\d\dm)|(?<=\[m))"
# All characters of a run become one, all others another: the fastest way to find a run.
_RUNS = bytes(0x61 if chr(c).isascii() and (chr(c).isalnum() or chr(c) in "_-") else 0x20 for c in range(256))
_MAX_KEY_BYTES = 16384
_LINE_START = re.compile(rb"(?<=\n)|(?<=\\n)")
_BASE64_LINE = re.compile(rb"(?:[^\n]{0,40}?[ \t>|+:'\"])?[A-Za-z0-9+/=]+[ \t]{0,4}\r?(?:\n|\\n)")
_CUT_BASE64_LINE = re.compile(rb"[A-Za-z0-9+/=]+[ \t]{0,4}\r?(?:\n|\\n)")
_FULL_BASE64_LINE = re.compile(rb"(?:[^\n]{0,40}?[ \t>|+:'\"])?[A-Za-z0-9+/=]{40,}[ \t]{0,4}\r?(?:\n|\\n)")


class _Compiled:
    def __init__(self, rule: Shape, boundary: bytes) -> None:
        self.starts = tuple(start.encode() for start in rule.starts)
        self.pattern = re.compile(boundary + b"(?:%s)" % rule.pattern.encode())
        self.check = CHECKS.get(rule.check)
        self.decode = DECODERS.get(rule.decode)
        self.base64_before = rule.before == "base64"
        self.is_word = rule.word


class Shapes:
    """All rules about shapes, compiled."""

    def __init__(self, rules: Rules) -> None:
        tokens = [_Compiled(rule, _BOUNDARY) for rule in rules.token]
        starts = sorted({start for token in tokens for start in token.starts})
        self._longest_start = max(map(len, starts), default=0)
        pattern = alternation({start.decode(): "" for start in starts})
        self._token_start = re.compile(pattern.encode()) if starts else None
        # The longest beginning is found first; a rule with a shorter one may be the one that matches.
        self._tokens = {s: [t for t in tokens if any(s.startswith(own) for own in t.starts)] for s in starts}
        self._contexts = [_Compiled(rule, b"") for rule in rules.context]

    def spans(self, content: bytes, syntax: Syntax = Syntax.OUTPUT) -> Iterator[Span]:
        """All of them, in time that grows with the size of the content. Within one there may be others, of the parts
        of it that alone may be met elsewhere."""
        yield from self._token_spans(content)
        for rule in self._contexts:
            for start in rule.starts:
                yield from _context_spans(Words(content, syntax), rule, start)

    def _token_spans(self, content: bytes) -> Iterator[Span]:
        if self._token_start is None:
            return
        searched = 0
        words = Words(content, Syntax.ARGUMENTS)
        done: dict[_Compiled, int] = {}
        for start, end in _runs(content):
            at = max(searched, start - self._longest_start)
            for match in self._token_start.finditer(content, at, end):
                for rule in self._tokens[match[0]]:
                    if match.start() >= done.get(rule, 0):
                        spans, done[rule] = _match(words, rule, match.start(), 0)
                        yield from spans
            searched = end


def _runs(content: bytes) -> Iterator[tuple[int, int]]:
    """Where at least 16 characters of a token stand in a row."""
    mapped = content.translate(_RUNS)
    at = mapped.find(b"a" * _RUN_BYTES)
    while at >= 0:
        end = mapped.find(b" ", at)
        if end < 0:
            end = len(mapped)
        yield at, end
        at = mapped.find(b"a" * _RUN_BYTES, end)


def _context_spans(words: Words, rule: _Compiled, start: bytes) -> Iterator[Span]:
    content, searched = words.content, 0
    while (at := content.find(start, searched)) >= 0:
        spans, end = _match(words, rule, at, searched)
        yield from spans
        searched = max(at + len(start), end)


def _match(words: Words, rule: _Compiled, at: int, searched: int) -> tuple[list[Span], int]:
    """The secret that the rule finds at a place, and where to go on. What fits the pattern and fails the check is not
    looked at again by this rule, or hostile text would have it checked from each of its bytes."""
    content = words.content
    match = rule.pattern.match(content, at)
    if match is None:
        return [], at
    group = match.lastindex or 0
    start, end = match.span(group)
    if rule.is_word and (value := rest_of_word(words, at, start, end)):
        is_none = value.is_elsewhere or is_placeholder(value.text(content))
        return [] if is_none else value.spans(), max(end, value.end)
    if rule.base64_before:
        start, end = _base64_before(content, searched, start), start
    secret = _trimmed(content[start:end])
    if not secret or (rule.check and not rule.check(secret)) or (group and is_placeholder(secret)):
        return [], end
    return [Span(start, start + len(secret), rule.decode(secret) if rule.decode else None)], end


def _trimmed(secret: bytes) -> bytes:
    """It without the blanks at its end, also those that are written as \\n or \\r."""
    while True:
        shorter = secret.rstrip().removesuffix(b"\\n").removesuffix(b"\\r")
        if shorter == secret:
            return secret
        secret = shorter


def _base64_before(content: bytes, searched: int, end: int) -> int:
    """Where the lines of base64 begin that lie above the line with `end`; `end` where there are none. They are what is
    left of a private key without its beginning: all full but the last, and but one that a cut left at the beginning."""
    first = max(searched, end - _MAX_KEY_BYTES)
    *lines, beside = _LINE_START.split(content[first:end])
    start = end - len(beside)
    for number, line in enumerate(reversed(lines)):
        pattern = _BASE64_LINE if number == 0 else _CUT_BASE64_LINE if start == len(line) else _FULL_BASE64_LINE
        if not pattern.fullmatch(line):
            break
        start -= len(line)
    return start if end - len(beside) - start >= _RUN_BYTES else end
