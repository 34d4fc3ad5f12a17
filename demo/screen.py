# SPDX-License-Identifier: Apache-2.0
"""The lines of the demonstration: seconds since its start, who speaks, and what."""

from __future__ import annotations

import io
import os
import sys
import time

_COLOURS = {"demo": "1", "slurm": "36", "fault": "1;31", "stepguard": "1;32"}
_OF_STEPGUARD = "[Auto Resume]"


class Screen:
    """Writes to stdout, line by line; in colour on a terminal only (and not with NO_COLOR)."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        assert isinstance(sys.stdout, io.TextIOWrapper)
        sys.stdout.reconfigure(errors="backslashreplace")  # a job may print anything, a log's encoding may be small
        self._colourful = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def say(self, source: str, text: str) -> None:
        """One or more lines from demo, slurm, fault, job or script."""
        colour = _COLOURS.get("stepguard" if text.startswith(_OF_STEPGUARD) else source)
        at_s = time.monotonic() - self._started_s
        for line in text.splitlines():
            said = f"{at_s:7.2f} s  {source:<7} {line}".rstrip()
            print(f"\033[{colour}m{said}\033[0m" if colour and self._colourful else said, flush=True)

    def show(self, text: str = "") -> None:
        """Lines that belong to no moment."""
        print(text, flush=True)
