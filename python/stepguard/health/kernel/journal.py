# SPDX-License-Identifier: Apache-2.0
"""journalctl's formats with all fields: -o json, json-sse, json-pretty, verbose and export.

journald itself notes where a message came from: _TRANSPORT=kernel is what makes it the kernel's, whatever its
identifier says (journald's own field; a program cannot set one that begins with an underscore). What root's programs
wrote to /dev/kmsg has come that way too, with another facility than the kernel's 0 (which older releases leave out).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Protocol

from stepguard.health.kernel.formats import parse, without_stamp
from stepguard.health.kernel.line import LogLine

MAX_RECORD_CHARS = 1 << 16
_FIELD = re.compile(r"\s{0,8}(?P<name>[A-Z_][A-Z0-9_]{0,63})=(?P<value>.*)", re.DOTALL)
_VERBOSE_HEAD = re.compile(r"(?:\w{3} )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6} \S{1,6} \[s=")
_TIMES = ("_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")
_KEPT = ("MESSAGE", "_TRANSPORT", "_HOSTNAME", "SYSLOG_IDENTIFIER", "SYSLOG_FACILITY", *_TIMES)
_KERNELS = "0"
_MAX_DIGITS = 19
_LENGTH_BYTES = 8


def json_line(number: int, text: str) -> LogLine | None:
    """A record that stands on one line. None for what is no JSON object with a message, however it is malformed."""
    try:
        record = json.loads(text.removeprefix("data: "))
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    if "stream" in record and isinstance(record.get("log"), str):
        return parse(number, record["log"].rstrip("\r\n"))
    return of_record(number, record) if "MESSAGE" in record else None


def begins_docker(text: str) -> bool:
    """Whether it is a line of Docker's json-file, which has what a container printed."""
    return text.startswith('{"log":') and '"stream":' in text


class Record(Protocol):
    """A record that takes several lines."""

    def takes(self, text: str) -> bool:
        """Takes the next line in; False when it is not of this record."""

    def line(self) -> LogLine | None:
        """What it says, when it is over."""


def begin(number: int, text: str) -> Record | None:
    """The record that a line begins, if it begins one."""
    if text == "{":
        return _Pretty(number)
    if text.startswith("__CURSOR=") or is_verbose_start(text):
        return _Fields(number, text)
    return None


def is_verbose_start(text: str) -> bool:
    return _VERBOSE_HEAD.match(text) is not None


class _Pretty:
    """-o json-pretty: an object over several lines, from `{` to `}`."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._lines = ["{"]
        self._chars = 1
        self._is_over = False

    def takes(self, text: str) -> bool:
        if self._is_over or self._chars > MAX_RECORD_CHARS:
            return False
        self._lines.append(text)
        self._chars += len(text)
        self._is_over = text == "}"
        return True

    def line(self) -> LogLine | None:
        return json_line(self._number, "".join(self._lines))


class _Fields:
    """-o export and -o verbose: NAME=value, a line each. export writes a value that holds line ends as its name alone,
    then eight bytes of length and the value."""

    def __init__(self, number: int, first: str) -> None:
        self._number = number
        self._values: dict[str, str] = {}
        self._binary = ""
        self.takes(first)

    def takes(self, text: str) -> bool:
        if self._binary:
            self._values.setdefault(self._binary, text[_LENGTH_BYTES:])
            self._binary = ""
        elif text in _KEPT:
            self._binary = text
        elif found := _FIELD.match(text):
            if found["name"] in _KEPT:
                self._values.setdefault(found["name"], found["value"])
        else:
            return not self._values and is_verbose_start(text)
        return True

    def line(self) -> LogLine | None:
        return of_record(self._number, self._values) if "MESSAGE" in self._values else None


def of_record(number: int, record: Mapping[str, object]) -> LogLine:
    """The line of an entry's fields, as JSON has them."""
    is_kernel = record.get("_TRANSPORT") == "kernel" and record.get("SYSLOG_FACILITY", _KERNELS) == _KERNELS
    message = _text(record.get("MESSAGE"))
    at_s = next((seconds for name in _TIMES if (seconds := _seconds(record.get(name)))), None)
    tag = _text(record.get("SYSLOG_IDENTIFIER"))
    text = without_stamp(message) if is_kernel else message
    return LogLine(number, at_s, _text(record.get("_HOSTNAME")), tag, text, is_kernel)


def _text(value: object) -> str:
    """A field's text. journald gives bytes that are no UTF-8 as a list of numbers, a field that stands several times as
    a list of texts, and one that is too large as null."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        if value and all(isinstance(item, int) and 0 <= item <= 255 for item in value):
            return bytes(value).decode(errors="replace")
        return next((item for item in value if isinstance(item, str)), "")
    return ""


def _seconds(value: object) -> float | None:
    """Of microseconds since 1970 as a string of digits."""
    text = value if isinstance(value, str) else ""
    return int(text) / 1e6 if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None
