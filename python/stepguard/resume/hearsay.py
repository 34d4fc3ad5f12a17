# SPDX-License-Identifier: Apache-2.0
"""Tells the user, and the journal, what nodes tell of themselves while a guarded step runs, each thing once."""

from __future__ import annotations

import time

from stepguard.resume.journal import Journal
from stepguard.resume.messages import Messages
from stepguard.resume.told import Told

EVENT = "health"
# The kernel of a sick node says more than anybody wants to read.
_MAX = 50


class Hearsay:
    """Of what was so before `began_s`, when the guarded step began by the monotonic clock, only broken hardware is
    told, once a node."""

    def __init__(self, journal: Journal, messages: Messages, began_s: float) -> None:
        self._journal = journal
        self._messages = messages
        self._began_s = began_s
        self._told: set[tuple[str, ...]] = set()
        self._known_faulty: set[str] = set()

    def hear(self, node: str, told: Told) -> None:
        """Takes what a node of the step tells now; it decides nothing."""
        key = (node, *told.identity)
        if not told.is_new_since(self._began_s):
            self._hear_of_old(node, told)
            return
        if not told.is_trouble or key in self._told or len(self._told) >= _MAX:
            return
        self._told.add(key)
        kind = ", ".join(word for word in (told.fault_class, told.action) if word)
        self._messages.info(f"{node}: {told.text} ({told.source}: {kind})")
        age_s = None if told.last_s is None else round(time.monotonic() - told.last_s, 3)
        self._journal.write(
            EVENT,
            node=node,
            source=told.source,
            origin=told.origin,
            code=told.code,
            device=told.device,
            action=told.action,
            status=told.status,
            text=told.text,
            age_s=age_s,
            **{"class": told.fault_class},
        )

    def _hear_of_old(self, node: str, told: Told) -> None:
        """The step was begun there all the same, and is left alone; if it fails, or hangs, its user knows why."""
        if told.is_hardware and node not in self._known_faulty:
            self._known_faulty.add(node)
            self._messages.info(f"{node} has a known fault: {told.text} ({told.source}: {told.action})")
