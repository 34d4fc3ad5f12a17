# SPDX-License-Identifier: Apache-2.0
"""What the forkserver and whoever has probes run say to one another.

A request is one packet of a socket: JSON, with three descriptors: the files for the child's output and errors, and the
writing end of a pipe, on which the forkserver says once what became of it. Who closes the reading end gives it up.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import NamedTuple

_REQUEST_MAX_BYTES = 64 << 10
# What is no larger is written to a pipe, and read, whole (pipe(7), PIPE_BUF).
_WORD_MAX_BYTES = 4096
_DESCRIPTORS = 3


class BadRequest(ValueError):
    """What came is no request."""


class Request(NamedTuple):
    """A probe to run. `settings` is the text of Settings; `output`, `errors` and `word` are descriptors."""

    name: str
    settings: str
    output: int
    errors: int
    word: int


class Word(NamedTuple):
    """What became of a request: one of these.

    `status`  the child has ended: its exit status, negative: the signal that ended it
    `lives`   none was started, for the last child of that name still runs: its pid
    `error`   what keeps it from being started, or its end from being told
    """

    status: int | None = None
    lives: int | None = None
    error: str | None = None


def channel() -> tuple[socket.socket, socket.socket]:
    """The end that asks, which never waits, and the one that is asked."""
    asking, asked = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asking.setblocking(False)
    return asking, asked


def send(asking: socket.socket, request: Request) -> None:
    """Raises OSError when it is not taken: BlockingIOError where others lie there unread. Closes no descriptor."""
    packet = json.dumps({"name": request.name, "settings": request.settings}).encode()
    socket.send_fds(asking, [packet], [request.output, request.errors, request.word])


def receive(asked: socket.socket) -> Request | None:
    """The next one, its descriptors the caller's to close; None when nobody can ask any more. Raises BadRequest."""
    packet, descriptors, flags, _ = socket.recv_fds(asked, _REQUEST_MAX_BYTES, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    if not packet and not descriptors:
        return None
    try:
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(descriptors) != _DESCRIPTORS:
            raise BadRequest(f"{len(packet)} bytes or more, {len(descriptors)} descriptors")
        values = json.loads(packet)
        return Request(str(values["name"]), str(values["settings"]), *descriptors)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        for descriptor in descriptors:
            os.close(descriptor)
        raise BadRequest(str(error)) from error


def tell(word: int, said: Word) -> None:
    """Says what became of a request, if somebody still wants to know."""
    with contextlib.suppress(BrokenPipeError):
        os.write(word, json.dumps(said._asdict()).encode())


def hear(descriptor: int) -> Word:
    """What is said on a pipe that is readable."""
    content = os.read(descriptor, _WORD_MAX_BYTES)
    return Word(**json.loads(content)) if content else Word(error="its forkserver has ended")
