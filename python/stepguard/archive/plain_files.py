# SPDX-License-Identifier: Apache-2.0
"""Reading what lies in the archive as root: the files belong to the jobs' owners, who may write anything into them.

Nobody but root can put a name into the archive's directories. So a file may hold anything, of any size, but is the one
that was put there; it is opened without following links and without waiting for a writer all the same.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

from stepguard.records.manifest import Manifest, manifest_from
from stepguard.records.shape import MalformedRecord

MANIFEST_MAX_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 20


def open_plain(path: Path) -> BinaryIO:
    """A regular file, open for reading. Raises OSError, also for what is no regular file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # before fdopen(), which leaves a directory open
        os.close(descriptor)
        raise OSError("not a regular file")
    return os.fdopen(descriptor, "rb")


def read_plain(path: Path, at_most_bytes: int) -> bytes:
    """The beginning of a regular file. Raises OSError."""
    with open_plain(path) as file:
        return file.read(at_most_bytes)


def read_end(path: Path, at_most_bytes: int) -> bytes:
    """The end of a regular file. Raises OSError."""
    with open_plain(path) as file:
        file.seek(max(os.fstat(file.fileno()).st_size - at_most_bytes, 0))
        return file.read(at_most_bytes)


def digest(path: Path, at_most_bytes: int) -> tuple[str, int]:
    """SHA-256 of a regular file and its size; "" for one that is larger, which is not read. Raises OSError."""
    with open_plain(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes > at_most_bytes:
            return "", size_bytes
        sha256, left = hashlib.sha256(), at_most_bytes
        while left and (chunk := file.read(min(_CHUNK_BYTES, left))):
            sha256.update(chunk)
            left -= len(chunk)
    return sha256.hexdigest(), size_bytes


def read_manifest(path: Path) -> Manifest:
    """Raises OSError when it cannot be read, FileNotFoundError among them, and MalformedRecord when it is none."""
    return manifest_of(read_plain(path, MANIFEST_MAX_BYTES + 1))


def manifest_of(content: bytes) -> Manifest:
    """The manifest that a file's content is. Raises MalformedRecord."""
    if len(content) > MANIFEST_MAX_BYTES:
        raise MalformedRecord(f"larger than {MANIFEST_MAX_BYTES} bytes")
    try:
        return manifest_from(content.decode())
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise MalformedRecord(str(error)) from error
