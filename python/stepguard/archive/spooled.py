# SPDX-License-Identifier: Apache-2.0
"""What lies in the spool of one attempt, read into memory."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stepguard.archive.timeline import Message
from stepguard.records import wire
from stepguard.records.manifest import Missing
from stepguard.records.spool import COMPLETE, messages

# Head and tail of an output are a site's choice; this is a bound on what we hold.
RAW_MAX_BYTES = 256 << 20
_META_MAX_BYTES = 1 << 16
# A temporary file that nobody has renamed for so long is left over from an agent that was killed.
_ABANDONED_S = 60.0


class Raw(NamedTuple):
    """What was read of a file of the job's: NAME.raw (None where nothing was kept) and NAME.meta."""

    content: bytes | None
    meta: Mapping[str, Any]


class Spooled(NamedTuple):
    """An attempt's spool. `names` are the files that it had when it was read: these alone may be deleted then."""

    names: list[str]
    messages: list[Message]
    raw: dict[str, Raw]
    damaged: list[Missing]
    is_complete: bool


def read(directory: Path) -> Spooled:
    """All that is there now. Raises OSError."""
    names = _names(directory)
    found: list[Message] = []
    damaged: list[Missing] = []
    for sequence, kind, path in messages(directory):
        if path.name not in names:
            continue
        try:
            content = _bounded(path, wire.HEADER_SIZE_BYTES + wire.BODY_MAX_BYTES)
            found.append(Message(sequence, kind, wire.decode(content)))
        except wire.MalformedMessage as error:
            damaged.append(Missing(f"message {path.name}", f"damaged in the spool: {error}"))
    raw = {name.removesuffix(".meta"): _raw(directory, name, names) for name in names if name.endswith(".meta")}
    return Spooled(sorted(names), found, raw, damaged, COMPLETE in names)


def _names(directory: Path) -> set[str]:
    """Its files, less those that the agent is just writing."""
    before_s = time.time() - _ABANDONED_S
    with os.scandir(directory) as entries:
        return {entry.name for entry in entries if not entry.name.startswith(".") or _changed_s(entry) < before_s}


def _changed_s(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:
        return time.time()


def _raw(directory: Path, name: str, names: set[str]) -> Raw:
    try:
        meta = json.loads(_bounded(directory / name, _META_MAX_BYTES))
    except ValueError:
        meta = {"why": "what the spool says of it is damaged"}
    raw = directory / name.replace(".meta", ".raw")
    return Raw(_bounded(raw, RAW_MAX_BYTES) if raw.name in names else None, meta if isinstance(meta, dict) else {})


def _bounded(path: Path, max_bytes: int) -> bytes:
    with path.open("rb") as file:
        return file.read(max_bytes)
