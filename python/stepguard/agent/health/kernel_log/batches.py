# SPDX-License-Identifier: Apache-2.0
"""The lines of a descriptor, in batches.

Where a thousand lines come in a second, waking for each would cost more than reading it: after all is read it waits
for PAUSE_S. A batch is bounded, so that others get their turn.
"""

from __future__ import annotations

import os
import selectors
import stat
import time
from collections.abc import Callable

from stepguard.errors import reason

PAUSE_S = 0.05
# What no selector can wait for, a regular file, is looked at this often.
_POLL_S = 0.2
_BATCH_READS, _BATCH_BYTES = 256, 1 << 16
# A record of /dev/kmsg is at most 8 KiB (PRINTKRB_RECORD_MAX, CONSOLE_EXT_LOG_MAX); a smaller buffer is EINVAL.
_READ_BYTES = 1 << 14
_LINE_MAX_BYTES = 1 << 16
ENDED = "it has ended"


class Batches:
    """Owns the descriptor, which does not block. `take` gets whole lines, and whether that is all there is for now;
    `fail` why there will be no more, ENDED for a pipe that nobody writes to any more. `cut`: so many lines were longer
    than any, and left out."""

    def __init__(
        self,
        descriptor: int,
        selector: selectors.BaseSelector,
        take: Callable[[bytes, bool], None],
        fail: Callable[[str], None],
    ) -> None:
        self._descriptor = descriptor
        self._selector = selector
        self._take = take
        self._fail = fail
        self._can_wait = not stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._is_armed = False
        self._rest = b""
        self._is_cutting = False
        self.cut = 0
        # All that there was has been read once.
        self.is_live = False
        self.due_s = 0.0

    def turn(self) -> None:
        """Goes on, where it is time."""
        if time.monotonic() < self.due_s:
            return
        if self._can_wait and not self._is_armed and self.is_live:
            self._arm(True)
            self.due_s = float("inf")
        else:
            self.read()

    def stop(self) -> None:
        """Closes the descriptor."""
        if self._descriptor >= 0:
            self._arm(False)
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self) -> None:
        """Reads a batch now."""
        if self._descriptor < 0:
            return  # it was stopped by what came before it in the same round of the loop
        self._arm(False)
        try:
            content, is_drained, is_over = self._batch()
        except OSError as error:
            self._fail(reason(error))
            return
        self.due_s = time.monotonic() + (0 if not is_drained else PAUSE_S if self._can_wait else _POLL_S)
        self._take(content, is_drained)
        self.is_live = self.is_live or is_drained
        if is_over and self._descriptor >= 0:
            self._fail(ENDED)

    def _arm(self, is_armed: bool) -> None:
        if is_armed and not self._is_armed:
            self._selector.register(self._descriptor, selectors.EVENT_READ, lambda _: self.read())
        elif self._is_armed and not is_armed:
            self._selector.unregister(self._descriptor)
        self._is_armed = is_armed

    def _batch(self) -> tuple[bytes, bool, bool]:
        """What there is, whether that is all, and for ever. Raises OSError."""
        pieces, size = [self._rest], 0
        is_drained = is_over = False
        for _ in range(_BATCH_READS):
            try:
                piece = os.read(self._descriptor, _READ_BYTES)
                is_over = not piece and self._can_wait
            except BlockingIOError:
                piece = b""
            except BrokenPipeError:
                continue  # of /dev/kmsg: what comes next was overwritten; the sequence numbers tell how much
            if not piece:
                is_drained = True
                break
            pieces.append(piece)
            size += len(piece)
            if size >= _BATCH_BYTES:
                break
        return self._whole(b"".join(pieces)), is_drained, is_over

    def _whole(self, content: bytes) -> bytes:
        """Its whole lines; the rest stays for the next batch."""
        whole, newline, self._rest = content.rpartition(b"\n")
        if self._is_cutting and newline:
            _, newline, whole = whole.partition(b"\n")
            self._is_cutting = False
        if len(self._rest) > _LINE_MAX_BYTES:
            self.cut += not self._is_cutting
            self._rest, self._is_cutting = b"", True
        return whole + newline
