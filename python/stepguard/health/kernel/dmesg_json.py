# SPDX-License-Identifier: Apache-2.0
"""`dmesg --json` (util-linux 2.38 on): one document, {"dmesg": [{"pri": 3, "time": 12.345678, "msg": "…"}, …]}.

Read line by line, as dmesg lays it out, so that a part of it is read too; another layout as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from stepguard.health.kernel.line import LogLine

_BEGIN = re.compile(rb'\s{0,16}\{\s{0,16}"dmesg"\s{0,8}:')
_FIELD = re.compile(r'\s{0,32}"(?P<name>pri|time|msg)"\s{0,8}:\s{0,32}(?P<value>.*?),?$', re.DOTALL)
_FACILITY_BITS = 3
_OF_A_PROGRAM = 1 << _FACILITY_BITS


def begins(content: bytes) -> bool:
    """Whether a text is such a document."""
    return _BEGIN.match(content) is not None


def read(content: bytes, numbered: Iterable[tuple[int, str]]) -> Iterator[LogLine]:
    """Its lines."""
    if content.strip().count(b"\n"):
        yield from _laid_out(numbered)
        return
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return
    records = document.get("dmesg")
    for record in records if isinstance(records, list) else ():
        if isinstance(record, dict):
            yield _line(1, record)


def _laid_out(numbered: Iterable[tuple[int, str]]) -> Iterator[LogLine]:
    record: dict[str, object] = {}
    for number, text in numbered:
        if not (found := _FIELD.match(text)):
            continue
        try:
            record[found["name"]] = json.loads(found["value"])
        except (ValueError, RecursionError):
            continue
        if found["name"] == "msg":  # the last of each
            yield _line(number, record)
            record = {}


def _line(number: int, record: Mapping[str, object]) -> LogLine:
    priority, said, time = record.get("pri", _OF_A_PROGRAM), record.get("msg"), record.get("time")
    is_kernel = isinstance(priority, int) and 0 <= priority < _OF_A_PROGRAM
    clock_s = float(time) if isinstance(time, int | float) else None
    text = said if isinstance(said, str) else ""
    return LogLine(number, None, "", "kernel" if is_kernel else "", text, is_kernel, clock_s)
