# SPDX-License-Identifier: Apache-2.0
"""Finds secrets that are known: as they are, and as programs write them.

bash writes it's as 'it'\\''s' under `set -x`, dash as 'it'"'"'s', `export -p` puts \\ before quotes and $, printf %q
before every sign of ASCII. Python and JSON escape quotes, backslashes and what is no ASCII, URLs all that is no letter.
base64 looks like nothing of it, and like another thing for each of the three places of a byte in a group of three: of
user:secret it holds the secret in one of them. Not found: one layer more (JSON in JSON), parts, and base64 over several
lines.
"""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote_from_bytes

from stepguard.archive.redaction.spans import Span

MIN_BYTES = 8
# Each costs one search of the text, and a user may have as many secrets as they like.
_MAX_LITERALS = 2000
_FOR_SHELL = re.compile(rb'(["$`\\])')
_NOT_PLAIN = re.compile(rb"([^\w@%+=:,./\x80-\xff-])", re.ASCII)
# Control characters as bash writes them in $'...' (lib/sh/strtrans.c, ansic_quote).
_CONTROL = re.compile(rb"[\x00-\x1f\x7f]")
_ANSI_SIGNS = {7: rb"\a", 8: rb"\b", 9: rb"\t", 10: rb"\n", 11: rb"\v", 12: rb"\f", 13: rb"\r", 27: rb"\E"}
_RUNS = bytes(0x61 if chr(c).isascii() and (chr(c).isalnum() or chr(c) in "+/_-") else 0x20 for c in range(256))
_BASE64_TAIL = re.compile(rb"[A-Za-z0-9+/_-]{0,4}(?:={1,2}|%3D){0,2}")


class Literal(NamedTuple):
    """What to look for, and the secret that it stands for."""

    text: bytes
    secret: bytes
    is_base64: bool = False
    # How many characters before it hold a part of the secret.
    lead: int = 0


def known_spans(content: bytes, known: Sequence[bytes]) -> Iterator[Span]:
    """Where known secrets stand."""
    all_of_them = literals(tuple(known))
    for literal in all_of_them:
        if not literal.is_base64:
            for at in _places(content, literal.text):
                yield Span(at, at + len(literal.text), literal.secret)
    if encoded := [literal for literal in all_of_them if literal.is_base64]:
        yield from _base64_spans(content, encoded)


def _base64_spans(content: bytes, encoded: Sequence[Literal]) -> Iterator[Span]:
    """Where they stand in base64. It is looked for only in runs of its characters, which most of a log is not."""
    starts, places, pieces, size = [], [], [], 0
    # Four characters for three bytes, without what fills the last group.
    shortest = min((len(literal.secret) * 4 + 2) // 3 for literal in encoded)
    for start, end in _runs(content, shortest):
        starts.append(start)
        places.append(size)
        pieces.append(content[start:end])
        size += end - start + 1
    runs = b" ".join(pieces)
    for literal in encoded:
        for place in _places(runs, literal.text):
            number = bisect_right(places, place) - 1
            at = starts[number] + place - places[number]
            end = at + len(literal.text)
            tail = _BASE64_TAIL.match(content, end)
            yield Span(max(starts[number], at - literal.lead), tail.end() if tail else end, literal.secret)


def _runs(content: bytes, shortest: int) -> Iterator[tuple[int, int]]:
    mapped, run = content.translate(_RUNS), b"a" * shortest
    at = mapped.find(run)
    while at >= 0:
        end = mapped.find(b" ", at)
        end = end if end >= 0 else len(mapped)
        yield at, end
        at = mapped.find(run, end)


def _places(content: bytes, text: bytes) -> Iterator[int]:
    at = content.find(text)
    while at >= 0:
        yield at
        at = content.find(text, at + len(text))


@lru_cache(maxsize=8)
def literals(known: tuple[bytes, ...]) -> tuple[Literal, ...]:
    """All that is looked for: first the secrets as they are, then, as long as there is room, what they become."""
    found = {secret: Literal(secret, secret) for secret in known}
    for secret in known:
        for form in written_forms(secret):
            # Also over a secret that is written so: of "a\\$b" in a script both it and a$b are known.
            found[form] = Literal(form, secret)
        for literal in _base64_literals(secret):
            found.setdefault(literal.text, literal)
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
        _CONTROL.sub(_ansi_control, secret.replace(b"\\", b"\\\\").replace(b"'", b"\\'")),  # $'...'
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


def _ansi_control(control: re.Match[bytes]) -> bytes:
    byte = control[0][0]
    return _ANSI_SIGNS.get(byte) or b"\\%03o" % byte


def _base64_literals(secret: bytes) -> Iterator[Literal]:
    """What base64 makes of the secret alone, whatever is before it and behind it: for each number of bytes before it,
    from the first character that is its own to the last."""
    for before in range(3):
        filled = b"\0" * before + secret
        whole = filled[: len(filled) - len(filled) % 3]
        first = before + 1 if before else 0
        for text in {base64.b64encode(whole)[first:], base64.urlsafe_b64encode(whole)[first:]}:
            if len(text) >= MIN_BYTES:
                yield Literal(text, secret, is_base64=True, lead=1 if before else 0)


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
