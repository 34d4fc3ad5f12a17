# SPDX-License-Identifier: Apache-2.0
"""The agent's socket: many clients at once, none of whom is trusted to be quick, honest or alone.

A message a connection, then one answer, then its end. Whoever hangs up without an answer has to take it that nothing
was kept: hooks leave a note then.
"""

from __future__ import annotations

import errno
import os
import resource
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from stepguard.agent.log import Log
from stepguard.escaping import visible
from stepguard.records import wire
from stepguard.records.wire import MalformedMessage

_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid of ucred(7)
_ACCEPTED_TOGETHER = 64
_PIECE_BYTES = 1 << 16
_DESCRIPTORS = 4096


class Limits(NamedTuple):
    """Of connections and bytes. Root's connections have room that users cannot take."""

    users: int = 384
    per_user: int = 64
    root: int = 512
    user_body_bytes: int = 32 << 10
    # Messages larger than a piece, on their way from the socket to the disk, all together.
    buffered_bytes: int = 32 << 20
    user_s: float = 5.0
    root_s: float = 30.0


class Connection:
    """A client: `uid` and `pid` as the kernel had them when it connected."""

    def __init__(self, channel: socket.socket, pid: int, uid: int, deadline_s: float) -> None:
        self.channel = channel
        self.pid = pid
        self.uid = uid
        self.deadline_s = deadline_s
        self.received = bytearray()
        self.reserved_bytes = 0
        self.is_waiting = False  # its message is whole; the answer is not there yet
        self.answer = b""
        self.registered = 0

    @property
    def is_open(self) -> bool:
        return self.channel.fileno() >= 0


class Server:
    """Gives whole messages to `take`, which answers by `answer`, at once or later."""

    def __init__(
        self,
        listener: socket.socket,
        selector: selectors.BaseSelector,
        take: Callable[[Connection, bytes], None],
        log: Log,
        limits: Limits = Limits(),  # noqa: B008 - it is a constant
    ) -> None:
        self.limits = limits
        self.refused_count = 0
        self._selector = selector
        self._take = take
        self._log = log
        self._users: dict[int, dict[Connection, None]] = {}  # by uid, root too; oldest first
        self._reserved_bytes = 0
        self._parked: deque[Connection] = deque()
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._listen(listener)

    @property
    def connection_count(self) -> int:
        return sum(map(len, self._users.values()))

    def answer(self, connection: Connection, answer: bytes) -> None:
        """Says it, and ends the connection once it is said."""
        self._release(connection)
        connection.answer = answer
        if connection.is_open:
            self._send(connection)

    def refuse(self, connection: Connection, why: str) -> None:
        self.refused_count += 1
        text = f"refused {visible(why)}".encode(errors="backslashreplace")[: wire.REPLY_MAX_BYTES - 1]
        self.answer(connection, text + b"\n")

    def expire(self) -> None:
        """Ends what has taken too long."""
        now_s = time.monotonic()
        for connection in [c for group in self._users.values() for c in group if c.deadline_s < now_s]:
            self._log.warning(f"a client of uid {connection.uid} was too slow", "slow")
            self._end(connection)

    def listen_at(self, listener: socket.socket) -> None:
        """From now on there. Whoever waits at the old one is let in before it is closed."""
        self._accept(0)
        self._selector.unregister(self._listener)
        self._listener.close()
        self._listen(listener)

    def stop(self) -> None:
        """Takes nothing more; what is being kept will still be answered."""
        self._selector.unregister(self._listener)
        self._listener.close()
        for connection in [c for group in self._users.values() for c in group if not c.is_waiting]:
            self._end(connection)

    # -- new connections --

    def _listen(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._selector.register(listener, selectors.EVENT_READ, self._accept)

    def _accept(self, _events: int) -> None:
        for _ in range(_ACCEPTED_TOGETHER):
            try:
                channel, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                self._accept_failed(error)
                return
            self._greet(channel)

    def _accept_failed(self, error: OSError) -> None:
        """Without a free descriptor the client would wait, and the listener be ready again and again."""
        self._log.error(f"cannot accept: {error.strerror}", "accept")
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            return
        os.close(self._reserve)
        try:
            self._listener.accept()[0].close()
        except OSError:
            time.sleep(0.01)  # the host as a whole has none left
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _greet(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        pid, uid, _ = _CREDENTIALS.unpack(channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if not self._make_room(uid):
            self._log.error(f"too many connections of uid {uid}", f"room {min(uid, 1)}")
            channel.close()
            return
        wait_s = self.limits.root_s if uid == 0 else self.limits.user_s
        connection = Connection(channel, pid, uid, time.monotonic() + wait_s)
        self._users.setdefault(uid, {})[connection] = None
        self._ready(connection)  # hooks send at once

    def _make_room(self, uid: int) -> bool:
        """A user's oldest idle connection makes way for a new one: of the same user, else of the one with the most."""
        own = self._users.get(uid, {})
        if uid == 0:
            return len(own) < self.limits.root
        if len(own) >= self.limits.per_user:
            return self._end_oldest(own)
        if self.connection_count - len(self._users.get(0, {})) < self.limits.users:
            return True
        return self._end_oldest(max((group for user, group in self._users.items() if user != 0), key=len))

    def _end_oldest(self, group: dict[Connection, None]) -> bool:
        oldest = next((connection for connection in group if not connection.is_waiting), None)
        if oldest is None:
            return False
        self._log.warning(f"too many connections of uid {oldest.uid}: its oldest is ended", "crowded")
        self._end(oldest)
        return True

    # -- one connection --

    def _ready(self, connection: Connection) -> None:
        if connection.answer:
            self._send(connection)
            return
        try:
            piece = connection.channel.recv(_PIECE_BYTES)
        except BlockingIOError:
            self._watch(connection, selectors.EVENT_READ)
            return
        except OSError:
            piece = b""
        if not piece:
            self._end(connection)
            return
        connection.received += piece
        try:
            self._look(connection)
        except MalformedMessage as error:
            self.refuse(connection, str(error))

    def _look(self, connection: Connection) -> None:
        """Takes the message once it is whole. Raises MalformedMessage."""
        received = connection.received
        self._watch(connection, selectors.EVENT_READ)
        if len(received) < wire.HEADER_SIZE_BYTES:
            if not wire.MAGIC.startswith(received[: len(wire.MAGIC)]):
                raise MalformedMessage("it does not begin as a message does")
            return
        body_bytes = wire.body_size_bytes(bytes(received[: wire.HEADER_SIZE_BYTES]))
        if connection.uid != 0 and body_bytes > self.limits.user_body_bytes:
            raise MalformedMessage(f"a body of {body_bytes} bytes, users may send {self.limits.user_body_bytes}")
        size_bytes = wire.HEADER_SIZE_BYTES + body_bytes
        if len(received) > size_bytes:
            raise MalformedMessage("more than one message")
        if len(received) < size_bytes:
            is_large = body_bytes > _PIECE_BYTES and not connection.reserved_bytes
            if is_large and not self._reserve_bytes(connection, body_bytes):
                self._watch(connection, 0)
                self._parked.append(connection)
            return
        connection.is_waiting = True
        self._watch(connection, 0)
        message, connection.received = bytes(received), bytearray()
        self._take(connection, message)

    def _reserve_bytes(self, connection: Connection, size_bytes: int) -> bool:
        if self._reserved_bytes + size_bytes > self.limits.buffered_bytes:
            return False
        self._reserved_bytes += size_bytes
        connection.reserved_bytes = size_bytes
        return True

    def _release(self, connection: Connection) -> None:
        self._reserved_bytes -= connection.reserved_bytes
        connection.reserved_bytes = 0
        while self._parked:
            first = self._parked[0]
            if first.is_open:
                body_bytes = wire.body_size_bytes(bytes(first.received[: wire.HEADER_SIZE_BYTES]))
                if not self._reserve_bytes(first, body_bytes):
                    return
                self._watch(first, selectors.EVENT_READ)
            self._parked.popleft()

    def _send(self, connection: Connection) -> None:
        try:
            sent = connection.channel.send(connection.answer)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._end(connection)
            return
        connection.answer = connection.answer[sent:]
        if connection.answer:
            self._watch(connection, selectors.EVENT_WRITE)
        else:
            self._end(connection)

    def _watch(self, connection: Connection, events: int) -> None:
        if events == connection.registered:
            return
        if not events:
            self._selector.unregister(connection.channel)
        elif connection.registered:
            self._selector.modify(connection.channel, events, lambda _: self._ready(connection))
        else:
            self._selector.register(connection.channel, events, lambda _: self._ready(connection))
        connection.registered = events

    def _end(self, connection: Connection) -> None:
        if not connection.is_open:
            return
        self._watch(connection, 0)
        connection.channel.close()
        group = self._users[connection.uid]
        del group[connection]
        if not group:
            del self._users[connection.uid]
        if not connection.is_waiting:
            self._release(connection)


def raise_descriptor_limit() -> None:
    """Lets this process hold as many connections as it serves, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
