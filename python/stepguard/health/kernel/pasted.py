# SPDX-License-Identifier: Apache-2.0
"""What a text loses and gains on its way into a ticket: its coding, colours, no-break spaces, lines wrapped in two."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator

_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEAD_BYTES = 200
# Colours (ECMA-48, SGR), and no more of what steers a terminal; the record separator of RFC 7464.
_UNSEEN = re.compile(r"\x1b\[[0-9;:]{0,32}m|\x1e")
# An XID that ends within its head, and what a paste of a narrow window goes on with.
_CUT = re.compile(
    r"(?:NVRM:(?: Xid(?: \((?:P|PC|PCI|(?:PCI:)?[0-9A-Fa-f:.]{0,16}(?: [^)\s]{1,48})?\)?:?))?)?"
    r"|\bXid \([0-9A-Za-z:. -]{4,72}\): ?\d{0,5}) ?$"
)
_XID = re.compile(r"(?:NVRM: |^)Xid \((?:PCI:)?[0-9A-Fa-f:.]{5,20}(?: [^)\s]{1,48})?\): \d{1,6}(?=,|\s|$)")
_MAX_HEAD = 200
_MAX_PIECES = 4


def utf8(content: bytes) -> bytes:
    """In UTF-8, without a byte order mark; as it is where it is of no coding that is known by one."""
    for mark, coding in _BOMS:
        if content.startswith(mark):
            return content[len(mark) :].decode(coding, errors="replace").encode()
    head = content[:_HEAD_BYTES]
    for first, coding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) >= 8 and not any(head[first::2]) and all(head[1 - first :: 2]):
            return content.decode(coding, errors="replace").encode()
    return content.removeprefix(codecs.BOM_UTF8)


def plain(text: str) -> str:
    """A line without what is not seen on a screen, and with common spaces."""
    if "\x1b" in text or "\x1e" in text:
        text = _UNSEEN.sub("", text)
    return text.replace("\xa0", " ") if "\xa0" in text else text


def unwrapped(lines: Iterable[tuple[int, str]], begins: Callable[[str], bool]) -> Iterator[tuple[int, str]]:
    """The lines with an XID that a narrow window broke in two put together. `begins`: whether a line begins one."""
    number, held, pieces = 0, "", 0
    for at, text in lines:
        if held and (joined := _joined(held, text, begins)) and pieces < _MAX_PIECES:
            held, pieces = joined, pieces + 1
            continue
        if held:
            yield number, held
        if ("NVRM" in text or "Xid" in text) and _CUT.search(text[-_MAX_HEAD:]):
            number, held, pieces = at, text, 0
        else:
            held = ""
            yield at, text
    if held:
        yield number, held


def _joined(start: str, text: str, begins: Callable[[str], bool]) -> str:
    """Both in one where they make an XID together, "" where they do not."""
    rest = text.strip()
    if not rest or begins(text) or not _CUT.search(start[-_MAX_HEAD:]):
        return ""
    if start[-1:].isdigit() and _XID.search(start[-_MAX_HEAD:]) and not re.match(r"\d{1,5}(?:,|$)|,", rest):
        return ""
    for joined in (start.rstrip() + rest, start.rstrip() + " " + rest):
        end = joined[max(0, len(start) - _MAX_HEAD) :]
        if _XID.search(end) or _CUT.search(end):
            return joined
    return ""
