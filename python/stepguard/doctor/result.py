# SPDX-License-Identifier: Apache-2.0
"""What a check says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(Enum):
    """How it stands, worst first."""

    # stepguard does not work, or not as an administrator would expect.
    FAIL = "fail"
    # It works; something costs, or will.
    WARN = "warn"
    # It could not be found out here.
    UNKNOWN = "unknown"
    OK = "ok"


@dataclass(frozen=True)
class Result:
    """One check: its name, how it stands, what was found, and what to do about it (empty: nothing)."""

    check: str
    level: Level
    found: str
    advice: str = ""

    def as_record(self) -> dict[str, str]:
        """For --json."""
        return {"check": self.check, "level": self.level.value, "found": self.found, "advice": self.advice}


def ok(check: str, found: str, advice: str = "") -> Result:
    """All is well."""
    return Result(check, Level.OK, found, advice)


def warn(check: str, found: str, advice: str) -> Result:
    """It works, at a price."""
    return Result(check, Level.WARN, found, advice)


def fail(check: str, found: str, advice: str) -> Result:
    """It does not work."""
    return Result(check, Level.FAIL, found, advice)


def unknown(check: str, found: str, advice: str) -> Result:
    """It could not be found out here."""
    return Result(check, Level.UNKNOWN, found, advice)
