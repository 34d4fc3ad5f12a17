# SPDX-License-Identifier: Apache-2.0
"""Reads what is to be checked, whatever its name leads to: never without end, nor waiting for what may not come."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys

# slurmctld takes no longer script by default (slurm.conf(5), max_script_size).
MAX_SCRIPT_BYTES = 4 * 1024 * 1024
_WRITER_WAIT_S = 1.0  # for a pipe that nothing has been written into
_CHUNK_BYTES = 256 * 1024


def read(name: str) -> bytes:
    """The bytes of a file, of a pipe (as of the shell's process substitution), or of stdin for "-".

    Raises OSError, whose `strerror` says what is wrong; the caller names the file.
    """
    if name == "-":
        return _bounded(sys.stdin.buffer.read(MAX_SCRIPT_BYTES + 1) or b"") if sys.stdin else b""
    # Without O_NONBLOCK, open(2) of a pipe waits for a writer.
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if stat.S_ISFIFO(mode):
            _wait_for_writer(descriptor)
        elif not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "a device, not a file; - is the standard input")
        return _all(descriptor)
    finally:
        os.close(descriptor)


def _wait_for_writer(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(_WRITER_WAIT_S * 1000):
        raise OSError(errno.ENODATA, f"a pipe that nothing was written into for {_WRITER_WAIT_S:g} s")


def _all(descriptor: int) -> bytes:
    chunks: list[bytes] = []
    size_bytes = 0
    os.set_blocking(descriptor, True)  # a writer that has begun is waited for
    while size_bytes <= MAX_SCRIPT_BYTES and (chunk := os.read(descriptor, _CHUNK_BYTES)):
        chunks.append(chunk)
        size_bytes += len(chunk)
    return _bounded(b"".join(chunks))


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_SCRIPT_BYTES:
        raise OSError(errno.EFBIG, f"larger than {MAX_SCRIPT_BYTES >> 20} MiB, the most that slurmctld takes")
    return data
