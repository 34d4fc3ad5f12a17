# SPDX-License-Identifier: Apache-2.0
"""Reads rows of the catalogue: stepguard's own files, and a site's table in the configuration."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from stepguard.errors import ConfigError
from stepguard.health.catalogue.entry import XID_154, Entry, Repeats
from stepguard.health.model import Action, FaultClass
from stepguard.health.repetition import MAX_COUNT

# The file that has a source's rows; every other source is the kernel's.
FILES = {"xid": "xid.toml", "sxid": "sxid.toml", "dcgm": "dcgm.toml"}
KERNEL_FILE = "kernel.toml"
# What a site may say of a code.
SITE_KEYS = ("class", "action", "meaning", "repeats")
_REPEATS_KEYS = ("count", "within_s", "class", "action")
_MAX_MEANING = 1000
_Named = TypeVar("_Named", FaultClass, Action)


@dataclass(frozen=True)
class Sheet:
    """A data file: its version, its entries, and its other tables as they stand there."""

    version: str
    entries: tuple[Entry, ...]
    tables: Mapping[str, Any]


def read_sheet(name: str, source: str) -> Sheet:
    """One of stepguard's own files. A fault in it is a fault of this program: KeyError, ValueError or ConfigError."""
    path = Path(__file__).with_name(name)
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    origins = document["sources"]
    entries = tuple(
        Entry(
            source=row.get("of", source),
            code=row["code"],
            name=row["name"],
            meaning=row["meaning"],
            fault_class=FaultClass(row["class"]),
            action=Action(row["action"]),
            vendor=row.get("vendor", ""),
            repeats=_repeats(row["repeats"], f"{name}: {row['code']}: repeats") if "repeats" in row else None,
            overridden_by=tuple(row.get("overridden_by", ())),
            origin=origins[row["source"]],
            disagreements=tuple(row.get("disagreements", ())),
            same_as=row.get("same_as"),
        )
        for row in document["entry"]
    )
    return Sheet(document["version"], entries, document)


def overridden(entry: Entry, row: object, where: str, origin: str) -> Entry:
    """The entry with what a site says of it. A class without an action, or an action without a class, keeps the other.

    Raises ConfigError, with what is allowed, for an unknown key or a bad value.
    """
    if not isinstance(row, dict) or not row:
        raise ConfigError(f"bad value {row!r}", where, "a table is needed, with one or more of " + ", ".join(SITE_KEYS))
    _check_keys(row, SITE_KEYS, where)
    meaning = row.get("meaning", entry.meaning)
    if not isinstance(meaning, str) or not 0 < len(meaning) <= _MAX_MEANING:
        raise ConfigError("bad value", f"{where} meaning", f"a text is needed, of {_MAX_MEANING} characters at most")
    return Entry(
        source=entry.source,
        code=entry.code,
        name=entry.name if entry.is_known else "named by the site",
        meaning=meaning,
        fault_class=_named(FaultClass, row["class"], f"{where} class") if "class" in row else entry.fault_class,
        action=_named(Action, row["action"], f"{where} action") if "action" in row else entry.action,
        vendor=entry.vendor,
        repeats=_repeats(row["repeats"], f"{where} repeats") if "repeats" in row else entry.repeats,
        overridden_by=tuple(one for one in entry.overridden_by if one == XID_154 or not _judges(row)),
        origin=origin,
        disagreements=(*entry.disagreements, *_shipped_says(entry)),
        same_as=entry.same_as,
    )


def _judges(row: Mapping[str, object]) -> bool:
    """Whether it says what is to be done: then it counts for more than what the event's own line tells."""
    return "class" in row or "action" in row


def _shipped_says(entry: Entry) -> tuple[str, ...]:
    if not entry.is_known:
        return ()
    return (f"stepguard's own row says {entry.fault_class}, {entry.action} ({entry.origin})",)


def _repeats(row: object, where: str) -> Repeats:
    if not isinstance(row, dict):
        raise ConfigError(f"bad value {row!r}", where, "a table is needed: " + ", ".join(_REPEATS_KEYS))
    _check_keys(row, _REPEATS_KEYS, where)
    if missing := [key for key in _REPEATS_KEYS if key not in row]:
        raise ConfigError(f"key {missing[0]!r} is missing", where, "it is needed")
    count, within_s = row["count"], row["within_s"]
    if type(count) is not int or not 2 <= count <= MAX_COUNT:
        raise ConfigError(f"bad value {count!r}", f"{where} count", f"a number from 2 to {MAX_COUNT} is needed")
    if type(within_s) not in (int, float) or not 0 < within_s < float("inf"):
        raise ConfigError(f"bad value {within_s!r}", f"{where} within_s", "seconds are needed, more than 0")
    fault_class = _named(FaultClass, row["class"], f"{where} class")
    return Repeats(count, float(within_s), fault_class, _named(Action, row["action"], f"{where} action"))


def _check_keys(row: Mapping[str, object], known: tuple[str, ...], where: str) -> None:
    for key in row:
        if key not in known:
            raise ConfigError(f"unknown key {key!r}", where, "known: " + ", ".join(known))


def _named(kind: type[_Named], value: object, where: str) -> _Named:
    for member in kind:
        if member == value:
            return member
    raise ConfigError(f"bad value {value!r}", where, "allowed: " + ", ".join(kind))
