# SPDX-License-Identifier: Apache-2.0
"""One line of a file that a syslog daemon writes (RFC 3164 and 5424, and rsyslog's with a whole time) → what the kernel
said in it, and when."""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from stepguard.agent.health.kernel_log.source import ERROR
from stepguard.health.kernel.formats import of_syslog

# What the kernel says at once has 1 KiB (LOG_LINE_MAX), and daemons cut lines at 8 KiB.
_LINE_MAX_BYTES = 1 << 13
_TAG = b"kernel"
_PRI = re.compile(r"<(\d{1,3})>")
# RFC 3164 has the months in English, and neither a year, which some write all the same, nor a zone.
_RFC3164 = re.compile(r"(?:<\d{1,3}>)?([A-Z][a-z]{2}) ([ \d]\d)(?: (\d{4}))? (\d\d):(\d\d):(\d\d)")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# A clock may be ahead of ours; what is further ahead is of last year.
_AHEAD_S = 86_400.0
_TIME_BYTES = 32
_LEVELS = 8


class Said(NamedTuple):
    """`at_s`: seconds since 1970, of whole seconds their end, None where the line tells none; `level`: where it tells
    none, ERROR; `line`: all of it."""

    at_s: float | None
    text: str
    level: int
    line: str


def said(line: bytes, now_s: float) -> Said | None:
    """What the kernel said in a line; None for anybody else's. `now_s`: seconds since 1970."""
    if _TAG not in line:
        return None
    # A crash, or a file that was cut off under its daemon, leaves zeros.
    text = line.replace(b"\0", b"")[:_LINE_MAX_BYTES].rstrip(b"\r").decode(errors="replace")
    found = of_syslog(text)
    if found is None or not found.is_kernel:
        return None
    at_s = found.at_s if found.at_s is not None else _rfc3164_s(text, now_s)
    if at_s is not None and at_s == int(at_s):
        at_s += 1
    priority = _PRI.match(text)
    return Said(at_s, found.text, int(priority[1]) % _LEVELS if priority else ERROR, text)


def yearless_s(line: bytes, now_s: float) -> float | None:
    """The time of a line that tells no year: that of the last year, or not far ahead of now. None for another line."""
    text = line[:_TIME_BYTES].decode("ascii", errors="replace")
    found = _RFC3164.match(text)
    return _rfc3164_s(text, now_s) if found and not found[3] else None


def is_log(content: bytes) -> bool:
    """Whether a line of this, or more, is a syslog daemon's."""
    texts = content.replace(b"\0", b"").decode(errors="replace").split("\n")
    return any((found := of_syslog(text[:_LINE_MAX_BYTES])) and found.tag for text in texts)


def _rfc3164_s(text: str, now_s: float) -> float | None:
    found = _RFC3164.match(text)
    if not found or found[1] not in _MONTHS:
        return None
    told, this_year = found[3], time.localtime(now_s).tm_year
    month, day, hour, minute, second = _MONTHS.index(found[1]) + 1, *map(int, found.group(2, 4, 5, 6))
    for guess in (int(told),) if told else (this_year + 1, this_year, this_year - 1):
        try:
            at_s = time.mktime((guess, month, day, hour, minute, second, 0, 0, -1))
        except (ValueError, OverflowError):
            return None
        if at_s <= now_s + _AHEAD_S:
            return at_s
    return None
