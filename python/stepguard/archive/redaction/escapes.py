# SPDX-License-Identifier: Apache-2.0
"""What a shell makes of backslashes: in no quotes, in "...", in "${X:-...}", in a here-document, and in $'...'
(bash(1), QUOTING)."""

from __future__ import annotations

import re

IN_NO_QUOTES = re.compile(rb"\\(?:\r?\n|(.))", re.DOTALL)
IN_DOUBLE = re.compile(rb'\\(?:\n|([$`"\\]))')
IN_BRACES_IN_DOUBLE = re.compile(rb'\\(?:\n|([$`"\\}]))')
IN_HERE = re.compile(rb"\\(?:\n|([$`\\]))")
IN_ANSI = re.compile(
    rb"\\(?:(?P<sign>[abeEfnrtv\\'\"?])|(?P<octal>[0-7]{1,3})|x(?P<byte>[0-9A-Fa-f]{1,2})|u(?P<short>[0-9A-Fa-f]{1,4})"
    rb"|U(?P<long>[0-9A-Fa-f]{1,8})|c(?P<control>[\x20-\x7e]))"
)
_SIGNS = dict(zip(b"abeEfnrtv\\'\"?", (bytes([byte]) for byte in b"\a\b\x1b\x1b\f\n\r\t\v\\'\"?"), strict=True))


def unescape(escape: re.Pattern[bytes], text: bytes) -> bytes:
    """The text without its backslashes, by the patterns above. In $'...' a NUL ends it."""
    if b"\\" not in text:
        return text
    return IN_ANSI.sub(_ansi, text).partition(b"\0")[0] if escape is IN_ANSI else escape.sub(rb"\1", text)


def _ansi(escape: re.Match[bytes]) -> bytes:
    kind, digits = escape.lastgroup, escape[escape.lastindex or 0]
    if kind == "sign":
        return _SIGNS[digits[0]]
    if kind == "control":
        return b"\x7f" if digits == b"?" else bytes([digits[0] & 0x1F])
    if kind == "octal":
        return bytes([int(digits, 8) & 0xFF])
    if kind == "byte":
        return bytes([int(digits, 16)])
    code = int(digits, 16)
    return chr(code).encode(errors="surrogatepass") if code <= 0x10FFFF else escape[0]
