# SPDX-License-Identifier: Apache-2.0
"""The digest that a manifest and a node's part carry of themselves, as the last key of their JSON:

    {…,"sha256":"digest of the document without this key"}

All other files of a record have theirs in the manifest. It tells of disks, and of editors; the owner of the file, who
can compute it too, can write what they like.
"""

from __future__ import annotations

import hashlib
import re

_SEALED = re.compile(rb'(\{.*),"sha256":"([0-9a-f]{64})"\}\n?', re.DOTALL)


def sealed(document: str) -> bytes:
    """A JSON object in ASCII, with its digest, on a line."""
    content = document.encode("ascii")
    return b'%s,"sha256":"%s"}\n' % (content[:-1], hashlib.sha256(content).hexdigest().encode())


def is_intact(content: bytes) -> bool:
    """Whether a document is as it was sealed."""
    match = _SEALED.fullmatch(content)
    return match is not None and hashlib.sha256(match[1] + b"}").hexdigest().encode() == match[2]
