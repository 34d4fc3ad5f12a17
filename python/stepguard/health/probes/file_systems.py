# SPDX-License-Identifier: Apache-2.0
"""How full a file system is. One on a server that is away makes whoever asks wait, beyond any signal: a thread asks."""

from __future__ import annotations

import errno
import os
import queue
import threading
from typing import NamedTuple

_ANSWER_S = 3.0


class Usage(NamedTuple):
    """What is free is what users may have. `error` says why nothing is told, `is_missing` that there is no such
    directory, `hangs` that no answer came."""

    bytes: int | None = None
    bytes_free: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None
    error: str = ""
    is_missing: bool = False
    hangs: bool = False


def usage(path: str) -> Usage:
    """That of the file system which the path is on."""
    answers: queue.SimpleQueue[Usage] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(_ask(path)), daemon=True).start()
    try:
        return answers.get(timeout=_ANSWER_S)
    except queue.Empty:
        return Usage(error=f"no answer within {_ANSWER_S:g} s: its server is away, or its disk hangs", hangs=True)


def _ask(path: str) -> Usage:
    try:
        told = os.statvfs(path)
    except OSError as error:
        is_missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
        return Usage(error=error.strerror or str(error), is_missing=is_missing)
    return Usage(told.f_blocks * told.f_frsize, told.f_bavail * told.f_frsize, told.f_files, told.f_favail)
