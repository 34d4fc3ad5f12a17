# SPDX-License-Identifier: Apache-2.0
"""The formats that a line of a kernel's log can stand in, as far as one line is enough to tell.

    dmesg, -T, -d, --show-delta, --time-format iso|delta|reltime|ctime, -x, -r; with the caller (CONFIG_PRINTK_CALLER)
    /dev/kmsg
    syslog by RFC 3164 and RFC 5424, with and without PRI; rsyslog's ISO times; BusyBox's `host facility.level tag:`
    (sysklogd/syslogd.c)
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

# Of any language: what stands around them is enough to know a time by.
_MONTH = r"[^\W\d_]{3,5}\.?"
_DAY = r"[^\W\d_]{2,4}\.?"
# CONFIG_PRINTK_CALLER; newer releases of util-linux put a space before it, and pad it.
_CALLER = r"(?: ?\[ {0,16}[TC]\d{1,10}\])"
_STAMP = re.compile(
    r"\[(?: *(?P<boot_s>\d{1,10}\.\d{6})(?P<blank> {0,32})"
    rf"|(?P<ctime>{_DAY} {_MONTH} (?P<day>[ \d]?\d) (?P<clock>\d\d:\d\d:\d\d) \d{{4}})"
    rf"|{_MONTH}[ \d]{{1,2}}\d \d\d:\d\d"
    r"| *\+\d{1,10}\.\d{6}"
    rf"|(?=<))(?: ?<[ +]{{0,12}}\d{{1,10}}\.\d{{6}} ?>)?\]{_CALLER}? ?"
)
_CALLER_ALONE = re.compile(rf"{_CALLER} ")
_FACILITY = r"(?P<facility>kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7])"
_DECODED = re.compile(
    rf"{_FACILITY} *:"
    r"(?:emerg|alert|crit|err|warn|notice|info|debug) *: ?"
)
_PRI = re.compile(r"<(?P<pri>\d{1,3})>")
_KMSG = re.compile(r"(?P<pri>\d{1,10}),\d{1,20},(?P<us>\d{1,20}),[^;,]{0,8}(?:,[^;]{0,200})?;(?P<text>.*)", re.DOTALL)
_DMESG_ISO = re.compile(
    r"(?P<at>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d),(?P<us>\d{6})(?P<zone>[+-]\d\d:?\d\d)" + _CALLER + "? ?"
)
_TIMES = (
    re.compile(rf"{_MONTH} (?P<day>[ \d]?\d)(?: \d{{4}})? (?P<clock>\d\d:\d\d:\d\d)(?:\.\d{{1,6}})? "),
    re.compile(r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) "),
    re.compile(
        rf"{_DAY} (?P<iso>\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})?) (?P<zone>[A-Z]{{1,5}}|[+-]\d{{2,4}}) "
    ),
    re.compile(r"(?P<unix>\d{9,10}\.\d{6}) "),
)
# Where a site's template leaves out the blank, a kernel's stamp comes at once.
_TAG = re.compile(
    rf"(?:(?P<host>\S{{0,254}}[^\s:]) (?:{_FACILITY}\.[a-z]{{3,7}} )?)?"
    r"(?P<tag>[^\s:\[\]]{1,64})(?:\[(?P<pid>[^\]\s]{1,20})\])?:"
    r"(?: |$|(?<=kernel:)(?=\[))"
)
_MONOTONIC_TAG = re.compile(r"(?P<host>[\w.-]{1,255}) (?P<tag>kernel|[^\s:\[\]]{1,64}\[\d{1,10}\]): ")
_RFC5424 = re.compile(
    r"<(?P<pri>\d{1,3})>1 (?P<at>\S{1,64}) (?P<host>\S{1,255}) (?P<tag>\S{1,48}) (?P<pid>\S{1,128}) \S{1,32} "
    r'(?:-|(?:\[(?:[^\]\\"]|\\.|"(?:[^"\\]|\\.)*")*\])+)(?: \ufeff?|$)'
)
# What may stand before a whole line of a log: a host's name or a file's (pdsh, grep, grep -n -A 1), containers' (CRI,
# kubectl --timestamps and --prefix, docker compose); a line's number (cat -n, less -N).
_BEHIND = re.compile(
    r"(?:\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?(?=[\[<A-Z\d])"
    r"|(?:[\w./@+-]{1,255}-)?\d{1,9}-(?=[\[<A-Z\d])"
    r"|\d{1,9}[ \t](?=[\[<A-Z\d])"
    r"|\[pod/[^\]\s]{1,253}\] ?|[\w.-]{1,128} {1,32}\| "
    r"|(?P<host>[\w./@+-]{1,255}):(?:\d{1,9}:)? ?(?=[\[<A-Z\d]))"
)
_INDENT = re.compile(r"[ \t]{1,64}")
_FIRST = re.compile(r"[\[<\d]|[^\W\d_]")
_KERNEL = "kernel"
# Of a line that has lost its time, or that a syslog daemon (" kernel:…") or systemd ("kernel[0]: …") has told all.
_TAG_ALONE = re.compile(r"kernel(?:\[0\])?: ?")
# rsyslog, of lines that came one after the other; no name of a task has room for its beginning.
_REPEATED = re.compile(r"message repeated \d{1,9} times: \[ ?(?P<text>.*)\]$", re.DOTALL)
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_KERNEL_FACILITY = 0
_FACILITY_BITS = 3


def parse(number: int, text: str) -> LogLine | None:
    """The line, when it stands in one of these formats."""
    text = unindented(text)
    line = _parse(number, text)
    if (line is None or not line.tag) and (behind := _BEHIND.match(text)):
        inner = _parse(number, text[behind.end() :])
        if inner is not None:
            host = behind["host"] or ""
            return inner._replace(host=inner.host or (host if "/" not in host and host != _KERNEL else ""))
    return line


def of_syslog(text: str) -> LogLine | None:
    """The line, when it stands as syslog daemons write it into their files: with a time of the world's, and a tag."""
    if text.startswith("<"):
        return _syslog_with_priority(0, text)
    return _timed(0, text, None) if _FIRST.match(text) else None


def unindented(text: str) -> str:
    """A line without what it is indented by."""
    return text[indent.end() :] if text[:1] in " \t" and (indent := _INDENT.match(text)) else text


def untagged(text: str) -> str:
    """What a line that stands in no format says, without the kernel's tag, where it has that alone."""
    text = unindented(text)
    return text[tag.end() :] if text.startswith(_KERNEL) and (tag := _TAG_ALONE.match(text)) else text


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
            said, clock_s = unescaped(found["text"]), int(found["us"]) / 1e6
            return LogLine(number, None, "", "kernel" if is_kernel else "", said, is_kernel, clock_s)
        if found := _DMESG_ISO.match(text):
            at_s = _iso_s(f"{found['at']}.{found['us']}{found['zone']}")
            return LogLine(number, at_s, "", "kernel", text[found.end() :], True)
    elif first.islower() and (decoded := _DECODED.match(text)):
        is_kernel = decoded["facility"] == "kern"
        rest = text[decoded.end() :]
        return _dmesg(number, rest, is_kernel) or _decoded(number, rest, is_kernel)
    return _timed(number, text, None)


def _dmesg(number: int, text: str, is_kernel: bool) -> LogLine | None:
    stamp = _STAMP.match(text)
    if not stamp:
        return None
    at_s = _ctime_s(stamp["ctime"]) if stamp["ctime"] else None
    clock_s = float(stamp["boot_s"]) if stamp["boot_s"] else _clock_s(stamp["day"], stamp["clock"])
    rest = text[stamp.end() :]
    # journalctl -o short-monotonic looks like dmesg, and has host and tag.
    if stamp["boot_s"] and (tagged := _MONOTONIC_TAG.match(rest)):
        tag = tagged["tag"].partition("[")[0]
        is_tagged_kernel = is_kernel and tagged["tag"] == "kernel"
        return LogLine(number, None, tagged["host"], tag, rest[tagged.end() :], is_tagged_kernel, clock_s)
    return LogLine(number, at_s, "", "kernel" if is_kernel else "", rest, is_kernel, clock_s)


def _decoded(number: int, rest: str, is_kernel: bool) -> LogLine:
    iso = _DMESG_ISO.match(rest)
    at_s = _iso_s(f"{iso['at']}.{iso['us']}{iso['zone']}") if iso else None
    before = iso or _CALLER_ALONE.match(rest)
    rest = rest[before.end() :] if before else rest
    return LogLine(number, at_s, "", "kernel" if is_kernel else "", rest, is_kernel)


def _with_priority(number: int, text: str) -> LogLine | None:
    if not (priority := _PRI.match(text)):
        return None
    is_kernel = int(priority["pri"]) >> _FACILITY_BITS == _KERNEL_FACILITY
    return _dmesg(number, text[priority.end() :], is_kernel) or _syslog_with_priority(number, text)


def _syslog_with_priority(number: int, text: str) -> LogLine | None:
    if not (priority := _PRI.match(text)):
        return None
    pri = int(priority["pri"])
    if found := _RFC5424.match(text):
        is_kernel = found["tag"] == "kernel" and found["pid"] == "-" and pri >> _FACILITY_BITS == _KERNEL_FACILITY
        rest = text[found.end() :]
        host = "" if found["host"] == "-" else found["host"]
        return LogLine(number, _iso_s(found["at"]), host, found["tag"], _own(rest, is_kernel), is_kernel)
    return _timed(number, text[priority.end() :], pri)


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
    clock_s = _clock_s(groups.get("day"), groups.get("clock"))
    if not tagged:
        return LogLine(number, at_s, "", "", rest, False, clock_s)
    is_kernel = tagged["tag"] == "kernel" and tagged["pid"] is None
    if (pri is not None and pri >> _FACILITY_BITS != _KERNEL_FACILITY) or tagged["facility"] not in (None, "kern"):
        is_kernel = False
    said = _own(rest[tagged.end() :], is_kernel)
    return LogLine(number, at_s, tagged["host"] or "", tagged["tag"], said, is_kernel, clock_s)


def _own(text: str, is_kernel: bool) -> str:
    if not is_kernel:
        return text
    text = without_stamp(text)
    if text.startswith("message repeated ") and (repeated := _REPEATED.match(text)):
        return without_stamp(repeated["text"])
    return text


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


def _clock_s(day: str | None, clock: str | None) -> float | None:
    """Seconds of the month. The month is left out: its name may be of any language."""
    if not day or not clock:
        return None
    hours, minutes, seconds = clock.split(":")
    return ((int(day) * 24 + int(hours)) * 60 + int(minutes)) * 60.0 + int(seconds)


def _ctime_s(text: str) -> float | None:
    """Of `dmesg -T`, in the time zone of whoever reads it: pasted times are mostly local ones."""
    try:
        return time.mktime(time.strptime(text))
    except (ValueError, OverflowError):
        return None
