# SPDX-License-Identifier: Apache-2.0
"""JSON that somebody else may have written → dataclasses, every field of the type that it is declared with.

Fields that a later release added are left out; of those that are missing the defaults stand, and one without a default
is a fault. No bound on texts: whoever reads a file bounds it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from typing import Any, TypeVar

_MAX_NUMBER = 1e18  # neither NaN nor infinity is below it, and no time or size above
_Record = TypeVar("_Record")


class MalformedRecord(ValueError):
    """Not a record of ours, or one of a later schema; the text says why."""


def document(text: str | bytes, schema: int) -> dict[str, Any]:
    """The JSON object of a file, which says its own schema. Raises MalformedRecord."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"not JSON: {error}") from error
    if not isinstance(values, dict):
        raise MalformedRecord("not a JSON object")
    told = values.get("schema")
    if type(told) is not int or told > schema:
        raise MalformedRecord(f"schema {told!r}, this stepguard knows up to {schema}")
    return values


def built(kind: type[_Record], values: Any, where: str = "") -> _Record:
    """A dataclass of this kind. Raises MalformedRecord, which names the field below `where`."""
    if not isinstance(values, dict):
        raise MalformedRecord(f"{where or kind.__name__}: not a JSON object")
    known = {}
    for name, (wanted, is_needed) in _fields(typing.cast("type", kind)).items():
        path = f"{where}.{name}" if where else name
        if name in values:
            known[name] = _value(values[name], wanted, path)
        elif is_needed:
            raise MalformedRecord(f"{path}: missing, or of another type")
    return kind(**known)


@functools.cache
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    """Type of each field, and whether there must be a value."""
    hints = typing.get_type_hints(kind)
    return {
        one.name: (
            hints[one.name],
            one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING,
        )
        for one in dataclasses.fields(kind)
    }


def _value(value: Any, wanted: Any, path: str) -> Any:
    origin, parts = typing.get_origin(wanted), typing.get_args(wanted)
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        return built(wanted, value, path)
    if origin in (list, tuple) and isinstance(value, list):
        return origin(_value(one, parts[0], path) for one in value)
    if origin is dict and isinstance(value, dict):
        return {name: _value(one, parts[1], path) for name, one in value.items()}
    if origin is types.UnionType:  # X | None
        return None if value is None else _value(value, parts[0], path)
    if origin is None and _is_plain(value, wanted):
        return value
    raise MalformedRecord(f"{path}: missing, or of another type")


def _is_plain(value: Any, wanted: type) -> bool:
    if wanted is float:
        return type(value) in (int, float) and -_MAX_NUMBER < value < _MAX_NUMBER
    if wanted is int:
        return type(value) is int and -_MAX_NUMBER < value < _MAX_NUMBER
    return type(value) is wanted
