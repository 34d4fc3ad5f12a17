# SPDX-License-Identifier: Apache-2.0
"""Where secrets lie in a text, and what is written in their place."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from stepguard.archive.redaction.values import base64_alone

_PREFIX_DIGITS = 12
MARKER = re.compile(rb"\[redacted:[0-9a-f]{12}\]")
_LINE_END = re.compile(rb"\\?\r?\n")  # with a backslash it goes on with the same word of a shell
_PEM_BODY = re.compile(rb"\s*-{4,5} ?BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?[- ]+(.*?)(?:-{4,5} ?END .*)?", re.DOTALL)


class Span(NamedTuple):
    """A secret from byte `start` up to `end`; `secret` is what it means where it is written in another form."""

    start: int
    end: int
    secret: bytes | None = None


def fingerprint(key: bytes, secret: bytes) -> str:
    """The first digits of HMAC-SHA256 of the secret alone: the same wherever and however it is written.

    Of a private key only the base64 counts, so that one in a file, in a variable and in JSON is the same.
    """
    secret = secret.strip()
    if body := _PEM_BODY.fullmatch(secret):
        secret = base64_alone(body[1])
    return hmac.new(key, secret, hashlib.sha256).hexdigest()[:_PREFIX_DIGITS]


def marker(key: bytes, secret: bytes) -> bytes:
    """What is written in place of a secret."""
    return b"[redacted:%s]" % fingerprint(key, secret).encode()


def replace(
    content: bytes, spans: Iterable[Span], mark: Callable[[bytes], bytes], keep_lines: bool = False
) -> tuple[bytes, int]:
    """The content with a marker for each span, and how many; what is marked already stays as it is. `keep_lines`: with
    the ends of the lines that a span takes away behind its marker, so that what follows is on the line it was on."""
    parts, at = [], 0
    merged = _merged(_outside_markers(content, sorted(spans, key=_order)))
    for span in merged:
        secret = content[span.start : span.end] if span.secret is None else span.secret
        parts += [content[at : span.start], mark(secret)]
        if keep_lines:
            parts += _LINE_END.findall(content, span.start, span.end)
        at = span.end
    parts.append(content[at:])
    return b"".join(parts), len(merged)


def _order(span: Span) -> tuple[int, int, bool]:
    return span.start, -span.end, span.secret is None


def _outside_markers(content: bytes, spans: list[Span]) -> list[Span]:
    """The parts of the spans that no marker covers."""
    if not spans or b"[redacted:" not in content:
        return spans
    marked = [(match.start(), match.end()) for match in MARKER.finditer(content)]
    outside: list[Span] = []
    first = 0
    for span in spans:
        while first < len(marked) and marked[first][1] <= span.start:
            first += 1
        at, whole, index = span.start, True, first
        while index < len(marked) and marked[index][0] < span.end:
            whole = False
            if at < marked[index][0]:
                outside.append(Span(at, marked[index][0]))
            at = max(at, marked[index][1])
            index += 1
        if at < span.end:
            outside.append(span if whole else Span(at, span.end))
    return outside


def _merged(spans: list[Span]) -> list[Span]:
    """Spans that overlap put together. Of two that cover the same the one with a meaning of its own counts."""
    merged: list[Span] = []
    for span in sorted(spans, key=_order):
        if span.start == span.end:
            continue
        if merged and span.start < merged[-1].end:
            if span.end > merged[-1].end:
                merged[-1] = Span(merged[-1].start, span.end)
            continue
        merged.append(span)
    return merged
