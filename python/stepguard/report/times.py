# SPDX-License-Identifier: Apache-2.0
"""Times, durations and sizes for people, and the times that people type."""

from __future__ import annotations

import datetime
import re
import time

from stepguard.errors import UsageError
from stepguard.escaping import quoted

UNKNOWN = "?"
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
# As sacct writes them in now-2days.
_WORDS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_AGO = re.compile(r"(?:now-)?([0-9]{1,6})(?:([smhdw])|(second|minute|hour|day|week)s?)", re.ASCII)
_FORMS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?", re.ASCII)


def moment(time_s: float | None) -> str:
    """A time of this host's zone, 2026-11-18 13:26:40."""
    try:
        return "" if time_s is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_s))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def zone(time_s: float | None) -> str:
    """The zone of `moment` at that time: UTC+01:00."""
    try:
        text = time.strftime("%z", time.localtime(time_s))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN
    return f"UTC{text[:3]}:{text[3:]}" if text.strip("+-0") else "UTC"


def duration(seconds: float | None) -> str:
    """As Slurm writes it, 1-02:03:04; below a minute with the unit, 7.3 s."""
    if seconds is None:
        return ""
    if seconds < 0:
        return UNKNOWN
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}-" * bool(days) + f"{hour:02}:{minute:02}:{second:02}"


def between(start_s: float | None, end_s: float | None) -> float | None:
    """The seconds from one to the other; None where one is not known."""
    return None if start_s is None or end_s is None else end_s - start_s


def size(size_bytes: int | None) -> str:
    """1.5 GiB."""
    if size_bytes is None:
        return UNKNOWN
    value, units = float(size_bytes), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while abs(value) >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{size_bytes} {units[0]}" if units[0] == "bytes" else f"{value:.1f} {units[0]}"


def parsed(text: str, option: str, now_s: float) -> float:
    """The time that a person typed: 2d, 3h, now-2days, now, today, 14:30, 2026-11-01, 2026-11-01T14:30[:00]; in seconds
    since 1970. Raises UsageError, which names the option."""
    if text == "now":
        return now_s
    if match := _AGO.fullmatch(text):
        return now_s - int(match[1]) * _UNITS_S[match[2] or _WORDS[match[3]]]
    today = datetime.datetime.fromtimestamp(now_s).replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        if text == "today":
            return today.timestamp()
        if match := _CLOCK.fullmatch(text):
            hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
            return today.replace(hour=hour, minute=minute, second=second).timestamp()
        for form in _FORMS:
            try:
                return datetime.datetime.strptime(text, form).timestamp()
            except ValueError:
                continue
    except (ValueError, OverflowError, OSError):
        pass  # a day or an hour that is none
    raise UsageError(f"bad time {quoted(text)}", option, "write 2d, 3h, today, 14:30, 2026-11-01 or 2026-11-01T14:30")
