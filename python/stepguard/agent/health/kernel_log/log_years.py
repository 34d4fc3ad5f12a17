# SPDX-License-Identifier: Apache-2.0
"""Where a log file has the lines of the last year, whose times tell none (RFC 3164).

A line of more than a year ago looks like one of late. Order tells: where times go back by months, a year has gone by.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator

# So much is read line by line; of more, a line every so often is looked at first.
_WHOLE_BYTES = 1 << 18
_STEP_BYTES = 1 << 16
_LINE_BYTES = 1 << 13
# Further than a clock is set back while a machine runs.
_BACK_S = 7 * 86_400.0

Dated = tuple[int, float]
"""Where a line begins, and the time that it seems to have."""


def last_year(descriptor: int, begin: int) -> int:
    """Where the lines begin that are no older than a year, in a file from there on. Raises OSError."""
    end = os.fstat(descriptor).st_size
    if end - begin > _WHOLE_BYTES:
        steps = range(begin, end, _STEP_BYTES)
        seen = (next(_dated(descriptor, at, min(end, at + _LINE_BYTES), begin), None) for at in steps)
        back = _last_back(one for one in seen if one)
        if back is None:
            return begin
        begin, end = back[0][0], min(end, back[1][0] + _LINE_BYTES)
    back = _last_back(_dated(descriptor, begin, end, begin))
    return back[1][0] if back else begin


def _last_back(lines: Iterable[Dated]) -> tuple[Dated, Dated] | None:
    """The last two lines between which time goes back by so much."""
    found, before = None, None
    for line in lines:
        if before is not None and line[1] < before[1] - _BACK_S:
            found = before, line
        before = line
    return found


def _dated(descriptor: int, begin: int, end: int, first: int) -> Iterator[Dated]:
    """The lines there that have a time without a year; a line begins at `first`."""
    from stepguard.agent.health.kernel_log.syslog import yearless_s  # patterns, once there is something to read

    now_s = time.time()
    offset = begin
    for line in os.pread(descriptor, end - begin, begin).split(b"\n"):
        if offset > begin or begin == first:
            at_s = yearless_s(line, now_s)
            if at_s is not None:
                yield offset, at_s
        offset += len(line) + 1
