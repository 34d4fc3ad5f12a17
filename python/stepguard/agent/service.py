# SPDX-License-Identifier: Apache-2.0
"""What systemd is told (sd_notify(3)), where it started the agent. The protocol is a datagram; no library is needed."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from stepguard.agent.log import Log


class Service:
    """`watchdog_s`: at least this often a living service says so; 0 where nobody asks."""

    def __init__(self, environment: Mapping[str, str], log: Log) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._log = log
        usec = environment.get("WATCHDOG_USEC", "")
        for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_s = int(usec) / 2e6 if usec.isdigit() and for_us else 0.0

    def notify(self, state: str) -> None:
        """READY=1, WATCHDOG=1, STOPPING=1."""
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            try:
                channel.sendto(state.encode(), self._address)
            except OSError as error:
                self._log.warning(f"cannot tell systemd {state}: {error.strerror}", "notify")
