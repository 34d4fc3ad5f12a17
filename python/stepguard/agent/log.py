# SPDX-License-Identifier: Apache-2.0
"""What the agent says on stderr: a line each, with the level that journald takes from its beginning (sd-daemon(3))."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from stepguard.escaping import visible

_ERROR, _WARNING, _INFO = 3, 4, 6
# A full disk or a flood of garbage must not fill the journal too: one line of a kind within this time.
_QUIET_S = 60.0
_MAX_CHARS = 4000


class Log:
    """Lines with a `kind` are said once a minute, with the number of those that were not said."""

    def __init__(self, descriptor: int = 2, clock: Callable[[], float] = time.monotonic) -> None:
        self._descriptor = descriptor
        self._clock = clock
        self._kinds: dict[str, tuple[float, int]] = {}

    def info(self, text: str, kind: str = "") -> None:
        self._say(_INFO, text, kind)

    def warning(self, text: str, kind: str = "") -> None:
        self._say(_WARNING, text, kind)

    def error(self, text: str, kind: str = "") -> None:
        self._say(_ERROR, text, kind)

    def _say(self, level: int, text: str, kind: str) -> None:
        if kind:
            now_s = self._clock()
            said_s, unsaid = self._kinds.get(kind, (now_s - _QUIET_S, 0))
            if now_s - said_s < _QUIET_S:
                self._kinds[kind] = (said_s, unsaid + 1)
                return
            self._kinds[kind] = (now_s, 0)
            if unsaid:
                text += f" (and {unsaid} more like this)"
        line = f"<{level}>stepguard agent: {visible(text)[:_MAX_CHARS]}\n"
        try:
            os.write(self._descriptor, line.encode(errors="backslashreplace"))
        except OSError:
            return  # there is nobody left to tell
