# SPDX-License-Identifier: Apache-2.0
"""Signals to the agent, as something that its loop waits for."""

from __future__ import annotations

import selectors
import signal
import socket

from stepguard.agent.log import Log


class Signals:
    """`say_stop` once a SIGTERM or a SIGINT has come."""

    def __init__(self, selector: selectors.BaseSelector, log: Log) -> None:
        self._selector = selector
        self._log = log
        self.say_stop = False

    def catch(self) -> None:
        """From now on."""
        readable, writable = socket.socketpair()
        for end in (readable, writable):
            end.setblocking(False)
        signal.set_wakeup_fd(writable.fileno(), warn_on_full_buffer=False)
        self._ends = (readable, writable)
        self._selector.register(readable, selectors.EVENT_READ, self._came)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def _came(self, _events: int) -> None:
        for number in self._ends[0].recv(64):
            if number == signal.SIGHUP:
                self._log.info("the configuration is read at start only: restart the agent, nothing is lost by that")
            else:
                self.say_stop = True
