# SPDX-License-Identifier: Apache-2.0
"""Reading a file that the configuration names, or the configuration itself. Anything may stand at such a path: a pipe
that nobody writes to, a device without an end. Whoever reads it may be the agent's loop, or a user's srun."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

ADVICE = "name a regular text file that can be read, and not a large one"


def read(path: Path, max_bytes: int) -> bytes:
    """All of a regular file. Raises OSError, also where it has more than `max_bytes`."""
    with opened(path) as descriptor:
        return content(descriptor, max_bytes)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    """The descriptor of a regular file, opened without waiting for anybody. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        yield descriptor
    finally:
        os.close(descriptor)


def content(descriptor: int, max_bytes: int) -> bytes:
    """What is left to read there. Raises OSError, also for more than `max_bytes`."""
    found = beginning(descriptor, max_bytes + 1)
    if len(found) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes} bytes")
    return found


def beginning(descriptor: int, max_bytes: int) -> bytes:
    """The next bytes there, so many at most. Raises OSError; one that would wait (a file of the kernel's) is one."""
    pieces, left = [], max_bytes
    while left and (piece := os.read(descriptor, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
