# SPDX-License-Identifier: Apache-2.0
"""What is left of a web page's markup around a text that was copied out of its source."""

from __future__ import annotations

import re

_BEGIN = re.compile(rb"\s*<(?:pre|code|blockquote)(?: [^>\n]{0,200})?>(?:<code(?: [^>\n]{0,200})?>)?", re.IGNORECASE)
_END = re.compile(rb"(?:</(?:pre|code|blockquote)>\s*)+$", re.IGNORECASE)
_END_BYTES = 200
# No line ends among them, so that no line becomes two.
_ENTITY = re.compile(rb"&(?:(lt|gt|amp|quot|nbsp|apos)|#(?:0{0,4}(?=3)|x(?=2))(3[49]|2[27]));")
_NAMED = {b"lt": b"<", b"gt": b">", b"amp": b"&", b"quot": b'"', b"nbsp": b" ", b"apos": b"'"}
# Decimal and, behind an x, hexadecimal.
_NUMBERED = {b"34": b'"', b"22": b'"', b"39": b"'", b"27": b"'"}
# A text that has one of these has been through a page.
_SEEN = (b"&lt;", b"&gt;", b"&#39;", b"&#039;", b"&#x27;", b"&quot;")
_XML = re.compile(rb"\s*<(?:\?xml|!DOCTYPE|nvidia_smi_log)")


def without_markup(content: bytes) -> bytes:
    """The text without the element that it stands in, and with the characters that entities stand for: line by line,
    the number of lines stays. XML is left as it is."""
    if begin := _BEGIN.match(content):
        content = content[begin.end() :]
        cut = max(0, len(content) - _END_BYTES)
        content = content[:cut] + _END.sub(b"", content[cut:])
    if any(seen in content for seen in _SEEN) and not _XML.match(content):
        return _ENTITY.sub(lambda found: _NAMED[found[1]] if found[1] else _NUMBERED[found[2]], content)
    return content
