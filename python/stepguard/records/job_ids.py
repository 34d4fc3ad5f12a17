# SPDX-License-Identifier: Apache-2.0
"""Job ids as Slurm writes them: 12, 12_3 (task 3 of array 12), 12+1 (part 1 of het job 12); and attempts, 12.1, 12_3.1,
as `stepguard jobs` writes them."""

from __future__ import annotations

import re
from typing import NamedTuple

from stepguard.errors import UsageError

_SHOWN_CHARS = 60
_ATTEMPT = re.compile(r"(.+)\.([0-9]{1,5})", re.ASCII | re.DOTALL)
_FORM = re.compile(r"([0-9]{1,10})(?:([_+])([0-9]{1,10}))?", re.ASCII)


class JobId(NamedTuple):
    """What was asked for: the number, and the task of an array or the part of a het job ("" where none was named)."""

    number: str
    array_task: str = ""
    het_offset: str = ""


def split_attempt(text: str) -> tuple[str, int | None]:
    """The id, and the attempt behind it, None where there is none."""
    match = _ATTEMPT.fullmatch(text)
    return (match[1], int(match[2])) if match else (text, None)


def parse(text: str) -> JobId:
    """Raises UsageError when that is no job id."""
    if not (match := _FORM.fullmatch(text)):
        shown = text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
        raise UsageError("not a job id", repr(shown), "write it as Slurm does: 12, 12_3 or 12+1")
    number, sign, part = match.groups()
    number = str(int(number))
    part = str(int(part)) if part else ""
    return JobId(number, part if sign == "_" else "", part if sign == "+" else "")
