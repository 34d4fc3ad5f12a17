# SPDX-License-Identifier: Apache-2.0
"""What the text of an XID tells beyond its number: the sub-codes of XIDs 144 to 150, and what an XID 154 asks for.

A line of NVLink 5, as drivers from R565 on print it:
    NVRM: Xid (PCI:0000:04:00): 145, RLW_REMAP Nonfatal XC0 i0 Link 03 (0x00000004 0x00000002 0x00000000 …)
unit, severity, whether a program was ended, whether the error was injected on purpose (i1), the link, then two numbers:
the interrupt's information, with the reason of a link that went down in its bits 20 to 25, and the error status.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from stepguard.health.catalogue.catalogue import sheet
from stepguard.health.model import Action, FaultClass

XIDS = range(144, 151)
RECOVERY_XID = 154
_LINE = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_/]{2,48}) {1,8}(?P<severity>Link Fatal|Fatal|Non-?[Ff]atal)\b"
    r"(?: {1,8}XC\d)?(?: i(?P<injected>\d))?(?: Link (?P<link>-?\d{1,3}))?"
    r"(?:[^(]{0,32}\((?P<information>0x[0-9a-f]{1,8}) (?P<status>0x[0-9a-f]{1,8}))?"
)
_TO = re.compile(
    r"recovery action changed from .{0,64}? to (?:(?P<value>0x[0-9a-fA-F]{1,4}) ?)?(?:\((?P<words>[^)]{0,64})\))?"
)
_RESET = (FaultClass.HARDWARE_RESET, Action.RESET_GPU)
_NOTHING = (FaultClass.IGNORE, Action.NONE)
_PROGRAM = (FaultClass.APPLICATION, Action.RESTART_APPLICATION)
_UNTOLD = (FaultClass.IGNORE, Action.CHECK)


class SubCode(NamedTuple):
    """What a line of NVLink 5 tells. `link` is -1 where the error belongs to none."""

    unit: str
    is_fatal: bool
    is_injected: bool
    link: int | None
    fault_class: FaultClass
    action: Action


def sub_code(xid: int, text: str) -> SubCode | None:
    """What stands behind the number of an XID from 144 to 150; None where it is not of the form above.

    An error that was injected asks for nothing: somebody tries the node out.
    """
    found = _LINE.search(text)
    if not found:
        return None
    is_fatal = not found["severity"].startswith("Non")
    is_injected = found["injected"] not in (None, "0")
    information, status = (int(number, 16) if number else None for number in (found["information"], found["status"]))
    meaning = _NOTHING if is_injected else _by_table(xid, found["unit"], information, status)
    if meaning is None:
        meaning = _RESET if is_fatal else _NOTHING
    link = int(found["link"]) if found["link"] else None
    return SubCode(found["unit"], is_fatal, is_injected, link, *meaning)


def recovery(text: str) -> tuple[FaultClass, Action] | None:
    """What an XID 154 asks for, by its number or else its words; None where the text names no action at all."""
    found = _TO.search(text)
    if not found or not (found["value"] or found["words"]):
        return None
    by_value, by_words = _recoveries()
    if found["value"]:
        return by_value.get(int(found["value"], 16), _UNTOLD)
    words = found["words"].lower()
    return next((meaning for start, meaning in by_words.items() if start in words), _UNTOLD)


def _by_table(xid: int, unit: str, information: int | None, status: int | None) -> tuple[FaultClass, Action] | None:
    if status is None:
        return None
    for row in sheet("xid").tables["nvlink5"]:
        if row["xid"] != xid or row["unit"] not in unit:
            continue
        if information is not None and information >> 20 & 0x3F in row.get("down_ignored", ()):
            return _NOTHING
        for key, meaning in (("reset", _RESET), ("ignore", _NOTHING), ("program", _PROGRAM)):
            if status in row.get(key, ()):
                return meaning
    return None


@functools.cache
def _recoveries() -> tuple[dict[int, tuple[FaultClass, Action]], dict[str, tuple[FaultClass, Action]]]:
    by_value: dict[int, tuple[FaultClass, Action]] = {}
    by_words: dict[str, tuple[FaultClass, Action]] = {}
    for row in sheet("xid").tables["recovery"]:
        meaning = FaultClass(row["class"]), Action(row["action"])
        by_value[row["value"]] = meaning
        by_words |= {words.lower(): meaning for words in row["words"]}
    return by_value, by_words
