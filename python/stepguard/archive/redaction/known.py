# SPDX-License-Identifier: Apache-2.0
"""Finds secrets that are known: as they are, and as programs write them.

bash writes it's as 'it'\\''s' under `set -x`, dash as 'it'"'"'s', `export -p` puts \\ before quotes and $, printf %q
before every sign of ASCII. Python and JSON escape quotes, backslashes and what is no ASCII, URLs all that is no letter.
base64 looks like nothing of it. Not found: one layer more (JSON in JSON), parts, and base64 over several lines.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from urllib.parse import quote_from_bytes

from stepguard.archive.redaction.spans import Span

MIN_BYTES = 8
# Each costs one search of the text, and a user may have as many secrets as they like.
_MAX_LITERALS = 2000
_FOR_SHELL = re.compile(rb'(["$`\\])')
_NOT_PLAIN = re.compile(rb"([^\w@%+=:,./\x80-\xff-])", re.ASCII)
_BASE64_TAIL = re.compile(rb"[A-Za-z0-9+/_-]{0,4}(?:={1,2}|%3D){0,2}")


class Literal:
    """What to look for, and the secret that it stands for."""

    def __init__(self, text: bytes, secret: bytes, is_base64: bool = False) -> None:
        self.text = text
        self.secret = secret
        self.is_base64 = is_base64


def known_spans(content: bytes, known: Sequence[bytes]) -> Iterator[Span]:
    """Where known secrets stand."""
    for literal in literals(tuple(known)):
        at = content.find(literal.text)
        while at >= 0:
            end = at + len(literal.text)
            if literal.is_base64 and (tail := _BASE64_TAIL.match(content, end)):
                end = tail.end()
            yield Span(at, end, literal.secret)
            at = content.find(literal.text, end)


@lru_cache(maxsize=8)
def literals(known: tuple[bytes, ...]) -> tuple[Literal, ...]:
    """All that is looked for: first the secrets as they are, then, as long as there is room, what they become."""
    found = {secret: Literal(secret, secret) for secret in known}
    for secret in known:
        for form in written_forms(secret):
            # Also over a secret that is written so: of "a\\$b" in a script both it and a$b are known.
            found[form] = Literal(form, secret)
        for start in _base64_starts(secret):
            found.setdefault(start, Literal(start, secret, is_base64=True))
        if len(found) >= _MAX_LITERALS:
            break
    return tuple(found.values())


def written_forms(secret: bytes) -> set[bytes]:
    """How programs write it between quotes or without, where that is not the secret itself."""
    text = secret.decode(errors="surrogateescape")
    shell = {
        secret.replace(b"'", b"'\\''"),
        secret.replace(b"'", b"'\"'\"'"),
        _FOR_SHELL.sub(rb"\\\1", secret),
        _NOT_PLAIN.sub(rb"\\\1", secret),
        secret.replace(b"\\", b"\\\\").replace(b"'", b"\\'"),  # $'...'
    }
    language = {
        repr(text)[1:-1].encode(errors="surrogateescape"),
        repr(secret)[2:-1].encode(),
        json.dumps(text)[1:-1].encode(),
        json.dumps(text).replace("/", "\\/")[1:-1].encode(),
        json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="surrogateescape"),
    }
    url = {quote_from_bytes(secret, safe).encode() for safe in ("", "/")}
    url.add(quote_from_bytes(secret, " ").replace(" ", "+").encode())
    return (shell | language | url) - {secret}


def unwritten_forms(written: bytes) -> set[bytes]:
    """What a shell may make of a value as it stands in a script: it's of it'\\''s and $x of \\$x."""
    joined = written.replace(b"'\\''", b"'").replace(b"'\"'\"'", b"'")
    return {joined, re.sub(rb'\\(["$`\\])', rb"\1", joined)}


def _base64_starts(secret: bytes) -> set[bytes]:
    """The base64 of the secret up to the last three bytes that are its own: the same whether a line end follows."""
    whole = secret[: len(secret) - len(secret) % 3]
    starts = {base64.b64encode(whole), base64.urlsafe_b64encode(whole)}
    return {start for start in starts if len(start) >= MIN_BYTES}


def cut_start(content: bytes, known: Sequence[bytes]) -> Iterator[Span]:
    """The end of a known secret that a text begins with."""
    piece = content[:MIN_BYTES]
    if len(piece) < MIN_BYTES:
        return
    for literal in literals(tuple(known)):
        at = literal.text.find(piece)
        if at > 0 and content.startswith(literal.text[at:]):
            yield Span(0, len(literal.text) - at)


def cut_end(content: bytes, known: Sequence[bytes]) -> Iterator[Span]:
    """The beginning of a known secret that a text ends with."""
    piece = content[-MIN_BYTES:]
    if len(piece) < MIN_BYTES:
        return
    for literal in literals(tuple(known)):
        at = literal.text.rfind(piece)
        if at >= 0 and content.endswith(literal.text[: at + MIN_BYTES]):
            yield Span(len(content) - at - MIN_BYTES, len(content))
