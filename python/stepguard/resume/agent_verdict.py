# SPDX-License-Identifier: Apache-2.0
"""Asks this node's agent what may be wrong with the hardware under a job, without ever waiting for it.

An agent that is not there, refuses (it does not know the job, where there are no hooks) or talks nonsense tells
nothing; then the fault file alone counts. Only root's agent is believed.
"""

from __future__ import annotations

import json
import socket
import struct

from stepguard.records import wire
from stepguard.resume.told import Told, from_agent

# A living agent answers within a few milliseconds. A ping is not kept waiting for longer.
WORTH_WAITING_S = 0.25
# From then on it is asked anew. The agent itself gives its clients 5 s.
_GIVEN_UP_S = 4.0
# What it said last stands for so long while nothing else is heard: it is restarted, or slow.
_STANDS_S = 6.0
_ANSWER_MAX_BYTES = 1 << 18
_PIECE_BYTES = 1 << 16
_FINDINGS_MAX = 64
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid of ucred(7)


class AgentVerdict:
    """`ask`, then `turn` whenever `fileno` is readable, and once in a while. `owner` is the uid that must listen."""

    def __init__(self, path: str, job_id: str, owner: int = 0) -> None:
        self._path = path
        self._question = wire.encode({"kind": b"verdict", "job_id": job_id.encode()})
        self._owner = owner
        self._channel: socket.socket | None = None
        self._answer = b""
        self._asked_s = 0.0
        self._answered_s = 0.0
        self._is_slow = False
        self.told: list[Told] = []
        # How many jobs a GPU of this node has failed, where those are too many.
        self.offences = 0

    @property
    def is_there(self) -> bool:
        """Whether the agent has told something lately."""
        return self._answered_s > 0

    def fileno(self) -> int | None:
        """The descriptor that is readable once it answers; None while it is not asked."""
        return None if self._channel is None else self._channel.fileno()

    def is_awaited(self, now_s: float) -> bool:
        """Whether its answer is about to come. One that was late is waited for no more, until it has answered."""
        self._is_slow = self._is_slow or (self._channel is not None and now_s - self._asked_s > WORTH_WAITING_S)
        return self._channel is not None and not self._is_slow

    def ask(self, now_s: float) -> None:
        """Asks, unless it is being asked. Never blocks."""
        if self._channel is not None or not self._path:
            return
        self._answer, self._asked_s = b"", now_s
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            # Of a Unix socket both are done at once or not at all: where its backlog is full, it is EAGAIN.
            channel.connect(self._path)
            peer = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            if _CREDENTIALS.unpack(peer)[1] != self._owner:
                raise PermissionError("somebody else listens there")
            channel.send(self._question)
        except OSError:
            channel.close()
            self._forget_what_is_old(now_s)
        else:
            self._channel = channel

    def turn(self, now_s: float) -> None:
        """Takes what it says. Never blocks."""
        if self._channel is None:
            return
        try:
            piece = self._channel.recv(_PIECE_BYTES)
        except BlockingIOError:
            if now_s - self._asked_s > _GIVEN_UP_S:
                self.hang_up()
                self._forget_what_is_old(now_s)
            return
        except OSError:
            self.hang_up()  # it was ended in the middle
            self._forget_what_is_old(now_s)
            return
        self._answer += piece
        if piece and len(self._answer) <= _ANSWER_MAX_BYTES:
            return
        self.hang_up()
        self._is_slow = False
        self._take(now_s)

    def hang_up(self) -> None:
        """Waits for no answer any more."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _take(self, now_s: float) -> None:
        self.told, self.offences, self._answered_s = [], 0, 0.0
        try:
            document = json.loads(self._answer)
            findings = document["findings"][:_FINDINGS_MAX]
            offences = document.get("offences", 0)
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            return  # a refusal, or nonsense
        self._answered_s = now_s
        told = (from_agent(finding, now_s) for finding in findings)
        self.told = [one for one in told if one is not None]
        self.offences = offences if isinstance(offences, int) else 0

    def _forget_what_is_old(self, now_s: float) -> None:
        if now_s - self._answered_s > _STANDS_S:
            self.told, self.offences, self._answered_s = [], 0, 0.0
