# SPDX-License-Identifier: Apache-2.0
"""What a probe remembers from one run to the next, in a directory of its own, for this boot."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_MAX_BYTES = 1 << 20


def now_s() -> float:
    """Seconds since the boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def load(directory: str | None, name: str) -> dict[str, Any]:
    """What was saved under that name in this boot; nothing where it was not, or is damaged."""
    if directory is None:
        return {}
    try:
        descriptor = os.open(
            Path(directory, f"{name}.json"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        )
    except OSError:
        return {}
    with os.fdopen(descriptor, "rb") as file:
        try:
            kept = json.loads(file.read(_MAX_BYTES))
        except (ValueError, RecursionError, OSError):
            return {}
    if not isinstance(kept, dict) or kept.get("boot_id") != _boot_id() or not isinstance(kept.get("kept"), dict):
        return {}
    return dict(kept["kept"])


def save(directory: str | None, name: str, kept: dict[str, Any]) -> None:
    """Keeps it; the file is whole or the one before. Raises OSError when it cannot be written."""
    if directory is None:
        return
    place = Path(directory)
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = place / f".{name}.{os.getpid()}"
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"boot_id": _boot_id(), "kept": kept}, file)
        fresh.replace(place / f"{name}.json")
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip()
