# SPDX-License-Identifier: Apache-2.0
"""Agents of all sorts, at a socket: what a hook or a slurmstepd may meet."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

Behaviour = Callable[[socket.socket, threading.Event], None]
"""What is done with a connection; the event is the end of the test."""


def read_message(connection: socket.socket) -> bytes:
    """A whole message, or what came of it."""
    message = bytearray()  # the sender gives up after 300 ms, also of 6 MB
    while len(message) < 8 or len(message) < 8 + int.from_bytes(message[4:8], "little"):
        if not (more := connection.recv(1 << 20)):
            break
        message += more
    return bytes(message)


@contextlib.contextmanager
def short_directory() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name, as pytest's does not; others may pass through it."""
    directory = Path(tempfile.mkdtemp(prefix="stepguard-"))
    directory.chmod(0o711)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@contextlib.contextmanager
def listening(path: Path, behaviour: Behaviour, uid: int = 0) -> Iterator[None]:
    """An agent that does this with each connection, one after the other. `uid`: whose it is."""
    done = threading.Event()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    if uid:
        os.seteuid(uid)  # the kernel notes who calls listen
    try:
        listener.listen(64)
    finally:
        if uid:
            os.seteuid(0)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
                behaviour(connection, done)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        done.set()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


@contextlib.contextmanager
def answering(path: Path, reply: bytes = b"ok\n") -> Iterator[list[bytes]]:
    """An agent as it should be, but that it keeps the messages here."""
    messages: list[bytes] = []

    def answer(connection: socket.socket, done: threading.Event) -> None:
        messages.append(read_message(connection))
        connection.sendall(reply)

    with listening(path, answer):
        yield messages


@contextlib.contextmanager
def never_accepting(path: Path) -> Iterator[None]:
    """A stopped agent: as many connections wait as may."""
    waiting: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        with contextlib.suppress(BlockingIOError):
            while True:
                waiting.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
                waiting[-1].connect(str(path))
        yield
        for connection in waiting:
            connection.close()


def never_reads(connection: socket.socket, done: threading.Event) -> None:
    done.wait(30)


def never_answers(connection: socket.socket, done: threading.Event) -> None:
    read_message(connection)
    done.wait(30)


def closes_at_once(connection: socket.socket, done: threading.Event) -> None:
    pass


def closes_after_reading(connection: socket.socket, done: threading.Event) -> None:
    read_message(connection)


def answers_half(connection: socket.socket, done: threading.Event) -> None:
    read_message(connection)
    connection.sendall(b"ok")


def answers_nonsense(connection: socket.socket, done: threading.Event) -> None:
    read_message(connection)
    connection.sendall(b"ok? \x1b[31m\xff%n%s\n")


def answers_without_end(connection: socket.socket, done: threading.Event) -> None:
    read_message(connection)
    connection.sendall(b"ok" * (1 << 19))


def dribbles(connection: socket.socket, done: threading.Event) -> None:
    while not done.wait(0.02):
        connection.sendall(b"o")
