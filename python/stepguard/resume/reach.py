# SPDX-License-Identifier: Apache-2.0
"""Does a host still answer at all?

A second witness beside the watch's heartbeat: a kernel answers a TCP connection (or refuses it) however busy its
programs are, so only a host that does neither is gone.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Mapping

# A host that says this is there; one that says nothing, or about which a router says "no such host", is not.
_ANSWERS = {0, errno.ECONNREFUSED, errno.ECONNRESET}


class Probe:
    """One TCP connection under way to a host's slurmd; `result` says True (answers), False, or None (not yet)."""

    def __init__(self, address: str, port: int) -> None:
        self.started_s = time.monotonic()
        self._result: bool | None = None
        self._socket: socket.socket | None = None
        try:
            family, kind, protocol, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
            self._socket = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
            self._settle(self._socket.connect_ex(target))
        except OSError:
            # The name does not resolve or no route leads there: nothing answers for this host.
            self._finish(answers=False)

    def _settle(self, code: int) -> None:
        if code not in (errno.EINPROGRESS, errno.EAGAIN):
            self._finish(answers=code in _ANSWERS)

    def _finish(self, answers: bool) -> None:
        self._result = answers
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def result(self) -> bool | None:
        """Whether the host answers, None while that is open. Never blocks."""
        if self._socket is not None and select.select([], [self._socket], [], 0)[1]:
            self._settle(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        return self._result

    def close(self) -> None:
        """Gives up on the answer."""
        if self._socket is not None:
            self._finish(answers=False)


def answering(hosts: Mapping[str, tuple[str, int]], within_s: float, enough: int | None = None) -> set[str]:
    """Those of `hosts` (name → address, port of a daemon of Slurm's) that answer within `within_s` seconds.

    All are asked at once; `enough` answers end the wait early.
    """
    probes = {name: Probe(*place) for name, place in hosts.items()}
    deadline_s = time.monotonic() + within_s
    while time.monotonic() < deadline_s:
        results = [probe.result() for probe in probes.values()]
        if None not in results or (enough is not None and results.count(True) >= enough):
            break
        time.sleep(0.002)
    alive = {name for name, probe in probes.items() if probe.result()}
    for probe in probes.values():
        probe.close()
    return alive
