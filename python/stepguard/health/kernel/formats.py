# SPDX-License-Identifier: Apache-2.0
"""The formats that a line of a kernel's log can stand in, as far as one line is enough to tell.

    dmesg, -T, -d, --show-delta, --time-format iso|delta|reltime|ctime, -x, -r; with the caller (CONFIG_PRINTK_CALLER)
    /dev/kmsg
    syslog by RFC 3164 and RFC 5424, with and without PRI; rsyslog's ISO times
    journalctl -o short, short-iso, short-precise, short-full, short-unix, short-monotonic; without host names
    any of these behind `host: ` (pdsh, clush) or `file:` (grep)

What tells that the kernel wrote a line: it is dmesg's, with no other facility; or its tag is `kernel` without a process
id, and its PRI, where it has one, names facility 0. A line of /dev/kmsg with another facility was written by a program:
the kernel gives facility 1 to all that comes from user space.
"""

from __future__ import annotations

import datetime
import re
import time

from stepguard.health.kernel.line import LogLine

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_STAMP = re.compile(
    r"\[(?: *(?P<boot_s>\d{1,10}\.\d{6})"
    rf"|(?P<ctime>{_DAY} {_MONTH} [ \d]?\d \d\d:\d\d:\d\d \d{{4}})"
    rf"|{_MONTH}[ \d]{{1,2}}\d \d\d:\d\d"
    r"| *\+\d{1,10}\.\d{6}"
    r"|(?=<))(?: ?<[ +]{0,12}\d{1,10}\.\d{6} ?>)?\](?:\[ *[TC]\d{1,10}\])? ?"
)
_DECODED = re.compile(
    r"(?P<facility>kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]) *:"
    r"(?:emerg|alert|crit|err|warn|notice|info|debug) *: ?"
)
_PRI = re.compile(r"<(?P<pri>\d{1,3})>")
_KMSG = re.compile(r"(?P<pri>\d{1,10}),\d{1,20},\d{1,20},[^;,]{0,8}(?:,[^;]{0,200})?;(?P<text>.*)", re.DOTALL)
_DMESG_ISO = re.compile(r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d),(?P<us>\d{6})(?P<zone>[+-]\d\d:?\d\d) ?")
_TIMES = (
    re.compile(rf"{_MONTH} [ \d]?\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})? "),
    re.compile(r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) "),
    re.compile(
        rf"{_DAY} (?P<iso>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})?) (?P<zone>[A-Z]{{1,5}}|[+-]\d{{2,4}}) "
    ),
    re.compile(r"(?P<unix>\d{9,10}\.\d{6}) "),
)
_TAG = re.compile(r"(?:(?P<host>\S{0,254}[^\s:]) )?(?P<tag>[^\s:\[\]]{1,64})(?:\[(?P<pid>[^\]\s]{1,20})\])?:(?: |$)")
_MONOTONIC_TAG = re.compile(r"(?P<host>[\w.-]{1,255}) (?P<tag>kernel|[^\s:\[\]]{1,64}\[\d{1,10}\]): ")
_RFC5424 = re.compile(
    r"<(?P<pri>\d{1,3})>1 (?P<at>\S{1,64}) (?P<host>\S{1,255}) (?P<tag>\S{1,48}) (?P<pid>\S{1,128}) \S{1,32} "
    r'(?:-|(?:\[(?:[^\]\\"]|\\.|"(?:[^"\\]|\\.)*")*\])+)(?: \ufeff?|$)'
)
_BEHIND = re.compile(r"(?P<host>[\w./@+-]{1,255}):(?:\d{1,9}:)? ?(?=[\[<A-Z\d])")
_FIRST = re.compile(r"[\[<\dA-Zacdfklmnsu]")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_KERNEL_FACILITY = 0
_FACILITY_BITS = 3


def parse(number: int, text: str) -> LogLine | None:
    """The line, when it stands in one of these formats."""
    line = _parse(number, text)
    if line is None and (behind := _BEHIND.match(text)):
        line = _parse(number, text[behind.end() :])
        if line is not None:
            host = behind["host"] if "/" not in behind["host"] else ""
            line = line._replace(host=line.host or host)
    return line


def without_stamp(text: str) -> str:
    """A kernel's text without the time since boot that syslog daemons may leave in it."""
    if text.startswith("[") and (stamp := _STAMP.match(text)):
        return text[stamp.end() :]
    return text


def _parse(number: int, text: str) -> LogLine | None:
    if not _FIRST.match(text):
        return None
    first = text[0]
    if first == "[":
        return _dmesg(number, text, True)
    if first == "<":
        return _with_priority(number, text)
    if first.isdigit():
        if found := _KMSG.match(text):
            is_kernel = int(found["pri"]) >> _FACILITY_BITS == _KERNEL_FACILITY
            return LogLine(number, None, "", "kernel" if is_kernel else "", unescaped(found["text"]), is_kernel)
        if found := _DMESG_ISO.match(text):
            at_s = _iso_s(f"{found['at']}.{found['us']}{found['zone']}")
            return LogLine(number, at_s, "", "kernel", text[found.end() :], True)
    elif first.islower():
        if decoded := _DECODED.match(text):
            is_kernel = decoded["facility"] == "kern"
            rest = text[decoded.end() :]
            return _dmesg(number, rest, is_kernel) or _decoded(number, rest, is_kernel)
        return None
    return _timed(number, text, None)


def _dmesg(number: int, text: str, is_kernel: bool) -> LogLine | None:
    stamp = _STAMP.match(text)
    if not stamp:
        return None
    at_s = _ctime_s(stamp["ctime"]) if stamp["ctime"] else None
    rest = text[stamp.end() :]
    # journalctl -o short-monotonic looks like dmesg, and has host and tag.
    if stamp["boot_s"] and (tagged := _MONOTONIC_TAG.match(rest)):
        tag = tagged["tag"].partition("[")[0]
        is_tagged_kernel = is_kernel and tagged["tag"] == "kernel"
        return LogLine(number, None, tagged["host"], tag, rest[tagged.end() :], is_tagged_kernel)
    return LogLine(number, at_s, "", "kernel" if is_kernel else "", rest, is_kernel)


def _decoded(number: int, rest: str, is_kernel: bool) -> LogLine:
    iso = _DMESG_ISO.match(rest)
    at_s = _iso_s(f"{iso['at']}.{iso['us']}{iso['zone']}") if iso else None
    return LogLine(number, at_s, "", "kernel" if is_kernel else "", rest[iso.end() :] if iso else rest, is_kernel)


def _with_priority(number: int, text: str) -> LogLine | None:
    priority = _PRI.match(text)
    if not priority:
        return None
    pri = int(priority["pri"])
    if found := _RFC5424.match(text):
        is_kernel = found["tag"] == "kernel" and found["pid"] == "-" and pri >> _FACILITY_BITS == _KERNEL_FACILITY
        rest = text[found.end() :]
        host = "" if found["host"] == "-" else found["host"]
        return LogLine(number, _iso_s(found["at"]), host, found["tag"], _own(rest, is_kernel), is_kernel)
    rest = text[priority.end() :]
    return _dmesg(number, rest, pri >> _FACILITY_BITS == _KERNEL_FACILITY) or _timed(number, rest, pri)


def _timed(number: int, text: str, pri: int | None) -> LogLine | None:
    for pattern in _TIMES:
        if found := pattern.match(text):
            break
    else:
        return None
    groups = found.groupdict()
    at_s = None
    if groups.get("unix"):
        at_s = float(groups["unix"])
    elif groups.get("iso") and groups.get("zone", "UTC") in ("UTC", "GMT"):
        at_s = _iso_s(groups["iso"] + ("+00:00" if "zone" in groups else ""))
    rest = text[found.end() :]
    tagged = _TAG.match(rest)
    if not tagged:
        return LogLine(number, at_s, "", "", rest, False)
    is_kernel = tagged["tag"] == "kernel" and tagged["pid"] is None
    if pri is not None and pri >> _FACILITY_BITS != _KERNEL_FACILITY:
        is_kernel = False
    return LogLine(number, at_s, tagged["host"] or "", tagged["tag"], _own(rest[tagged.end() :], is_kernel), is_kernel)


def _own(text: str, is_kernel: bool) -> str:
    return without_stamp(text) if is_kernel else text


def unescaped(text: str) -> str:
    """A text of /dev/kmsg, which shows what is not printable as \\xNN."""
    if "\\x" not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def _iso_s(text: str) -> float | None:
    """Seconds since 1970; None without a time zone, or where there is no such time."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None


def _ctime_s(text: str) -> float | None:
    """Of `dmesg -T`, in the time zone of whoever reads it: pasted times are mostly local ones."""
    try:
        return time.mktime(time.strptime(text))
    except (ValueError, OverflowError):
        return None
