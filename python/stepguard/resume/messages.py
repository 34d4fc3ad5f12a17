# SPDX-License-Identifier: Apache-2.0
"""What the user of a guarded step reads on stderr, in the shape that HyperPod's users already grep for."""

from __future__ import annotations

import contextlib
import os


class Messages:
    """Writes `[Auto Resume] Info: JobID: 71 StepID: 0 …` lines. `step_id` is filled in once it is known."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        self.step_id = ""

    def info(self, text: str) -> None:
        """Something that the user may want to know."""
        self._write("Info", text)

    def error(self, text: str) -> None:
        """Something that went wrong, or that ends the step."""
        self._write("Error", text)

    def _write(self, level: str, text: str) -> None:
        step = f" StepID: {self.step_id}" if self.step_id else ""
        # Reasons and file contents come from other people: no control characters reach the terminal.
        clean = "".join(c if c.isprintable() else " " for c in text)
        line = f"[Auto Resume] {level}: JobID: {self.job_id}{step} {clean}\n"
        with contextlib.suppress(OSError):  # stderr is gone: there is nobody left to tell
            os.write(2, line.encode(errors="backslashreplace"))
