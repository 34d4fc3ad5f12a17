# SPDX-License-Identifier: Apache-2.0
"""Text that users control, made visible: control characters, ANSI sequences, marks that turn the direction of writing,
and bytes that are no text cannot steer the terminal of whoever reads it."""

from __future__ import annotations

_QUOTED_CHARS = 60
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str, utf8: bool = True) -> str:
    """The text on one line. A byte that was no UTF-8 is shown as \\xNN, all else that is not printable as \\n, \\x1b or
    \\u202e. Without `utf8`, whatever is not ASCII too."""
    if text.isprintable() and (utf8 or text.isascii()):
        return text
    return "".join(char if char.isprintable() and (utf8 or char.isascii()) else _escape(char) for char in text)


def quoted(text: str) -> str:
    """A word of the command line as an error shows it, in quotes; of a long one the beginning."""
    return repr(text if len(text) <= _QUOTED_CHARS else f"{text[:_QUOTED_CHARS]}...")


def visible_lines(content: bytes, utf8: bool = True) -> str:
    """Whole text, its lines and tabs as they are."""
    text = content.decode(errors="surrogateescape")
    return "\n".join("\t".join(visible(part, utf8) for part in line.split("\t")) for line in text.split("\n"))


def as_bytes(text: str) -> bytes:
    """The bytes that a text was decoded from by surrogateescape; what never was bytes is escaped."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")


def _escape(char: str) -> str:
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was no UTF-8, kept by surrogateescape
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
