# SPDX-License-Identifier: Apache-2.0
"""Reads the rules of redaction: stepguard's own (rules.toml) and a site's, which has the same form."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepguard import named_file
from stepguard.archive.redaction.names import Harmless, Variable
from stepguard.archive.redaction.values import CHECKS, DECODERS
from stepguard.errors import ConfigError

_OWN_FILE = Path(__file__).with_name("rules.toml")
_MAX_SIZE_BYTES = 1 << 20
_RULE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


@dataclass(frozen=True)
class Shape:
    """A rule about what a secret looks like or what stands before it; see rules.toml."""

    name: str
    starts: tuple[str, ...]
    pattern: str
    source: str
    check: str = ""
    decode: str = ""
    before: str = ""
    word: bool = False


@dataclass(frozen=True)
class Rules:
    """All rules in force, by kind."""

    variable: tuple[Variable, ...] = ()
    harmless: tuple[Harmless, ...] = ()
    token: tuple[Shape, ...] = ()
    context: tuple[Shape, ...] = ()

    def names(self) -> list[str]:
        """The names of all of them, in the order of the file."""
        return [rule.name for kind in _KINDS for rule in getattr(self, kind)]


_KINDS: dict[str, type] = {"variable": Variable, "harmless": Harmless, "token": Shape, "context": Shape}
_ALLOWED = {"check": tuple(CHECKS), "decode": tuple(DECODERS), "before": ("base64",)}


def load_rules(site_file: Path | None, off: Sequence[str]) -> Rules:
    """stepguard's rules and those of `site_file`, without those whose names are in `off`.

    Raises ConfigError with the file, the rule and what is allowed: for a file that cannot be read or is no TOML, an
    unknown or missing key, a bad value, a name that is taken, and a name in `off` that no rule has.
    """
    files = [_read(_OWN_FILE)] + ([_read(site_file)] if site_file is not None else [])
    known = {name for rules in files for name in rules.names()}
    for name in off:
        if name not in known:
            raise ConfigError(f"no redaction rule {name!r} to switch off", "", "known: " + ", ".join(sorted(known)))
    taken: set[str] = set()
    for rules in files:
        for name in rules.names():
            if name in taken and name not in off:
                raise ConfigError(
                    f"redaction rule {name!r} stands twice", str(site_file or _OWN_FILE), "give it another name"
                )
            taken.add(name)
    return Rules(
        **{kind: tuple(r for rules in files for r in getattr(rules, kind) if r.name not in off) for kind in _KINDS}
    )


def _read(path: Path) -> Rules:
    try:
        document = tomllib.loads(named_file.read(path, _MAX_SIZE_BYTES).decode())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError("cannot read the redaction rules", f"{path}: {why}", named_file.ADVICE) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError("not TOML", f"{path}: {error}", "correct it there") from error
    kinds: dict[str, Any] = {}
    for kind, entries in document.items():
        if kind not in _KINDS:
            raise ConfigError(f"unknown kind of rule {kind!r}", str(path), "known: " + ", ".join(_KINDS))
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ConfigError(f"{kind!r} is no list of rules", str(path), f"write [[{kind}]] above each")
        kinds[kind] = tuple(_rule(entry, _KINDS[kind], f"{path}: [[{kind}]]") for entry in entries)
    return Rules(**kinds)


def _rule(entry: dict[str, Any], kind: type, where: str) -> Any:
    name = entry.get("name")
    if not isinstance(name, str) or not _RULE_NAME.fullmatch(name):
        raise ConfigError(f"bad name {name!r}", where, "small letters, digits and dashes are allowed, at most 64")
    where = f"{where} {name}"
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key in entry:
        if key not in fields:
            raise ConfigError(f"unknown key {key!r}", where, "known: " + ", ".join(fields))
    for key, field in fields.items():
        if field.default is dataclasses.MISSING and key not in entry:
            raise ConfigError(f"key {key!r} is missing", where, "it is needed")
    rule = kind(**{key: _value(value, str(fields[key].type), f"{where} {key}") for key, value in entry.items()})
    if isinstance(rule, Shape):
        _check_shape(rule, where)
    return rule


def _value(value: Any, kind: str, where: str) -> Any:
    """The value in the type that the field's annotation says."""
    if kind.startswith("tuple"):
        if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
            raise ConfigError(f"bad value {value!r}", where, "a list of strings is needed, none of them empty")
        return tuple(value)
    if type(value).__name__ != kind or value == "":
        raise ConfigError(f"bad value {value!r}", where, f"a {kind} is needed")
    return value


def _check_shape(rule: Shape, where: str) -> None:
    for key, allowed in _ALLOWED.items():
        value = getattr(rule, key)
        if value and value not in allowed:
            raise ConfigError(f"bad value {value!r}", f"{where} {key}", "allowed: " + ", ".join(allowed))
    if short := [start for start in rule.starts if len(start.encode()) < 2]:
        raise ConfigError(f"bad value {short[0]!r}", f"{where} starts", "at least 2 bytes are needed")
    try:
        pattern = re.compile(b"(?:%s)" % rule.pattern.encode())
    except re.error as error:
        raise ConfigError("bad pattern", f"{where} pattern", f"a regular expression is needed: {error}") from error
    if pattern.match(b""):
        raise ConfigError("bad pattern", f"{where} pattern", "one that does not match nothing is needed")
