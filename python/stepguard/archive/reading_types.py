# SPDX-License-Identifier: Apache-2.0
"""Whether the values of a record that was read are what they should be. The owner of a record may have changed it, and
root reads it too."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, TypeVar

from stepguard.records.manifest import MalformedRecord

_Record = TypeVar("_Record")
_MAX_NUMBER = 1 << 63


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_NUMBER


def _number(value: Any) -> bool:
    return _whole(value) or (isinstance(value, float) and math.isfinite(value) and abs(value) < _MAX_NUMBER)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


# By what the dataclasses of stepguard.records.manifest are annotated with; lists and mappings of records are theirs.
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "str": _text,
    "int": _whole,
    "float": _number,
    "list[str]": _texts,
    "int | None": lambda value: value is None or _whole(value),
    "float | None": lambda value: value is None or _number(value),
}


def checked(record: _Record) -> _Record:
    """The same record, the records in it included. Raises MalformedRecord that names a field with a wrong value."""
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        check = _CHECKS.get(str(field.type))
        if check is None:
            for inner in value.values() if isinstance(value, dict) else value:
                checked(inner)
        elif not check(value):
            raise MalformedRecord(f"{field.name} of {type(record).__name__} is {repr(value)[:80]}")
    return record
