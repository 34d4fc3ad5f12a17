# SPDX-License-Identifier: Apache-2.0
"""What a killed srun leaves changed on our standard input, and how it was before."""

from __future__ import annotations

import os
import stat
import termios
from dataclasses import dataclass
from typing import Any


@dataclass
class Stdio:
    """Remembers what a killed srun leaves changed: the offset of a file on stdin, the modes of the terminal."""

    offset: int | None = None
    modes: Any = None

    @staticmethod
    def remember() -> Stdio:
        """As it is now, before the first attempt."""
        remembered = Stdio()
        try:
            if stat.S_ISREG(os.fstat(0).st_mode):
                remembered.offset = os.lseek(0, 0, os.SEEK_CUR)
            elif os.isatty(0):
                remembered.modes = termios.tcgetattr(0)
        except OSError:
            return Stdio()  # stdin is closed
        return remembered

    def restore(self) -> None:
        """As it was: the next attempt reads the same input, and a terminal that --pty made raw is usable again."""
        if self.offset is not None:
            os.lseek(0, self.offset, os.SEEK_SET)
        if self.modes is not None:
            termios.tcsetattr(0, termios.TCSANOW, self.modes)
