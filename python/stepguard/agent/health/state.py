# SPDX-License-Identifier: Apache-2.0
"""What is kept of a node's health over restarts of the agent: one file, so that all of it is of one moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from stepguard import named_file
from stepguard.agent.log import Log
from stepguard.agent.storing import Job, Storing
from stepguard.errors import reason

SCHEMA = 1
_MAX_BYTES = 4 << 20
_STRANGE = (TypeError, ValueError, LookupError, AttributeError, OverflowError)
_Part = TypeVar("_Part")


class StateFile:
    """Written by the thread that writes into the spool, one version after the other."""

    def __init__(self, path: Path, storing: Storing, log: Log) -> None:
        self._path = path
        self._storing = storing
        self._log = log
        self._is_pending = False
        self._is_dirty = False
        # Nothing where there was no such file, or none that can be read, which is said.
        self.loaded = self._load()

    def restored(self, name: str, make: Callable[[Any], _Part], nothing: Any) -> _Part:
        """A part of what was kept, as `make` makes it of what its own state was, or of `nothing`, where there is none
        that it understands, which is said."""
        try:
            return make(self.loaded.get(name, nothing))
        except _STRANGE as error:
            self._lost(f"{name}: {error}")
            return make(nothing)

    def stand_or_fall(self, makes: Mapping[str, Callable[[Any], object]]) -> None:
        """Forgets all of these parts where `make` refuses what was kept of one, or one is missing, which is said: what
        is counted twice or never otherwise."""
        kept = {name: self.loaded[name] for name in makes if name in self.loaded}
        if not kept:
            return
        why = ", ".join(f"{name}: it is missing" for name in makes if name not in kept)
        for name, state in kept.items():
            try:
                makes[name](state)
            except _STRANGE as error:
                why = f"{name}: {error}"
        if why:
            self._lost(f"{why}; so all of {', '.join(makes)} begin anew")
            self.loaded = {name: state for name, state in self.loaded.items() if name not in makes}

    def _load(self) -> dict[str, Any]:
        try:
            state = json.loads(named_file.read(self._path, _MAX_BYTES))
            if isinstance(state, dict) and state.get("schema") == SCHEMA:
                return state
            why = "it is of another form"
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            why = reason(error) if isinstance(error, OSError) else str(error)
        self._lost(why)
        return {}

    def _lost(self, why: str) -> None:
        self._log.error(f"what was known of this node's health is lost: {self._path}: {why}")

    def change(self) -> None:
        """There is something to write."""
        self._is_dirty = True

    def write(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Has what `state` gives written, where there is something to write and nothing is being written."""
        if not self._is_dirty or self._is_pending:
            return
        content = json.dumps({"schema": SCHEMA, **state()}, separators=(",", ":")).encode()
        self._is_dirty, self._is_pending = False, True
        job = Job(self._path.parent, self._path.name, content, self._written, makes_directory=False)
        self._storing.put(job, is_urgent=True)

    def _written(self, error: OSError | None) -> None:
        self._is_pending = False
        if error is not None:
            self._is_dirty = True
            self._log.error(f"this node's health cannot be kept over a restart: {error.strerror}", "health-state")
