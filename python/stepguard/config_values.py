# SPDX-License-Identifier: Apache-2.0
"""Whether a value of the configuration is one that its key may have: what stepguard.config's fields say of themselves.

Imported where there is a file to check, and nowhere else: without one, a guarded step pays for no check.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from stepguard.errors import ConfigError

_NEEDED = {bool: "true or false", int: "a whole number", float: "a number", str: 'a text in quotes, "…",'}


def checked(value: Any, key: dataclasses.Field[Any], where: str) -> Any:
    """The value in the key's own type. Raises ConfigError that names what is allowed."""
    default: Any = key.default
    if isinstance(default, tuple):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _bad(value, where, "a list of strings is needed")
        if key.metadata.get("needed") and not value:
            raise _bad(value, where, "at least one is needed")
        for item in value:
            _check_text(item, key, where)
        return tuple(value)
    kind = int if isinstance(default, float) and type(value) is int else type(default)
    if type(value) is not kind:
        raise _bad(value, where, f"{_NEEDED[kind]} is needed")
    bounds: tuple[float, float] | None = key.metadata.get("bounds")
    if bounds is not None and not bounds[0] <= value <= bounds[1]:
        raise _bad(value, where, f"at least {bounds[0]:g} and at most {bounds[1]:.10g} is needed")
    if isinstance(default, str):
        _check_text(str(value), key, where)
    return type(default)(value)


def _check_text(text: str, key: dataclasses.Field[Any], where: str) -> None:
    """A text, or one of a list."""
    allowed = key.metadata.get("allowed", ())
    if allowed and text not in allowed:
        raise _bad(text, where, "allowed: " + ", ".join(allowed))
    if key.metadata.get("absolute") and not _is_path(text, key):
        words = "".join(f'"{word}" or ' for word in key.metadata.get("words", ()))
        raise _bad(text, where, f"{words}an absolute path is needed, of printable characters")
    if (form := key.metadata.get("form")) is not None and not re.fullmatch(form[0], text):
        raise _bad(text, where, f"{form[1]} is needed")
    if key.metadata.get("patterns"):
        try:
            re.compile(text)
        except re.error as error:
            raise _bad(text, where, f"a regular expression is needed: {error}") from error


def _is_path(text: str, key: dataclasses.Field[Any]) -> bool:
    is_word = (key.metadata.get("optional") and not text) or text in key.metadata.get("words", ())
    return is_word or (text.startswith("/") and text.isprintable())


def _bad(value: Any, where: str, advice: str) -> ConfigError:
    return ConfigError(f"bad value {value!r}", where, advice)
