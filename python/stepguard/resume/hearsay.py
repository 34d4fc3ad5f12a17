# SPDX-License-Identifier: Apache-2.0
"""Tells the user, and the journal, what nodes tell of themselves while a guarded step runs, each thing once."""

from __future__ import annotations

import time

from stepguard.resume.journal import Journal
from stepguard.resume.messages import Messages
from stepguard.resume.told import Told

EVENT = "health"
_TELLING = ("warn", "fail")
# The kernel of a sick node says more than anybody wants to read.
_MAX = 50


class Hearsay:
    """Made when the guarded step begins: what was so before is no news."""

    def __init__(self, journal: Journal, messages: Messages) -> None:
        self._journal = journal
        self._messages = messages
        self._began_s = time.monotonic()
        self._told: set[tuple[str, ...]] = set()

    def hear(self, node: str, told: Told) -> None:
        """Takes what a node of the step tells now; it decides nothing."""
        key = (node, *told.identity)
        is_news = told.status in _TELLING and told.is_new_since(self._began_s) and key not in self._told
        if not is_news or len(self._told) >= _MAX:
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
