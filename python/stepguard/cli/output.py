# SPDX-License-Identifier: Apache-2.0
"""What verbs say on stderr, and what becomes of an output that cannot be written: one place for all verbs.

Pages go to stdout by report.screen.write_lines, documents by write_json, and words to stderr by `tell`: no verb prints
by itself. All three make visible what they are given, so that no text that somebody else wrote steers a terminal, even
where its page forgot to ask the screen.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from stepguard.escaping import visible

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# What a shell shows for a program that SIGPIPE ended.
PIPE_CLOSED = 141


class _StandardOutput(io.FileIO):
    """Stdout of the process. Where it cannot be written, the process ends: quietly with PIPE_CLOSED where nobody reads
    on, else with status 1 and a line on stderr. Not by an OSError, which verbs expect of other files, and which Python
    would tell of by a traceback or, at its end, by status 120."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            while (count := super().write(data)) is None:  # somebody has made it non-blocking
                import select

                select.select([], [self], [])
        except BrokenPipeError:
            _drop_the_rest(self.fileno())
            raise SystemExit(PIPE_CLOSED) from None
        except OSError as error:
            _drop_the_rest(self.fileno())
            tell(f"cannot write: stdout: {error.strerror}: write where there is room")
            raise SystemExit(1) from None
        return count


def guard_stdout() -> None:
    """From now on, all that is written to stdout, click's own help too, ends as `_StandardOutput` says."""
    old = sys.stdout
    if old is not sys.__stdout__ or not isinstance(old, io.TextIOWrapper):  # closed, or a test's
        return
    old.flush()
    raw = _StandardOutput(old.fileno(), "wb", closefd=False)
    line_buffering = old.line_buffering or old.write_through
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), old.encoding, old.errors, line_buffering=line_buffering)


def finish_stdout() -> None:
    """Writes what is still buffered, where it can still be told that this cannot be done."""
    if sys.stdout is not None:
        sys.stdout.flush()


def tell(text: str, who: str = "stepguard") -> None:
    """One line on stderr, whatever stands in the text."""
    _say(f"{visible(who)}: {visible(text)}")


def tell_lines(text: str) -> None:
    """As `tell`, for a text that has several lines (a traceback)."""
    _say("stepguard: " + "\n".join(map(visible, text.rstrip("\n").split("\n"))))


def _say(text: str) -> None:
    channel: TextIO | None = sys.stderr
    if channel is None:
        return
    try:
        print(text, file=channel, flush=True)
    except OSError:  # there is nobody left to tell
        _drop_the_rest(channel.fileno())


def _drop_the_rest(descriptor: int) -> None:
    """What is still buffered must not make Python complain at its end, nor change the exit status."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
