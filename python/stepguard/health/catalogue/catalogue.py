# SPDX-License-Identifier: Apache-2.0
"""Looks codes up."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path

from stepguard import named_file
from stepguard.errors import ConfigError
from stepguard.health.catalogue import rows
from stepguard.health.catalogue.entry import Entry, unknown

SITE_ORIGIN = "the site's configuration"
_MAX_DIGITS = 9
_SITE_MAX_BYTES = 1 << 20


class Catalogue:
    """stepguard's rows and a site's over them. A source's file is read when it is first asked for."""

    def __init__(self, site: Mapping[tuple[str, int | str], Entry] | None = None) -> None:
        self._site = dict(site or {})

    def lookup(self, source: str, code: int | str) -> Entry:
        """The entry of a code; one that `is_known` says no of where no catalogue has it."""
        return self._site.get((source, code)) or _own_entries(source).get((source, code)) or unknown(source, code)

    def entries(self, source: str) -> list[Entry]:
        """All of a source, the site's among them, by code."""
        both = {**_own_entries(source), **self._site}
        return [both[key] for key in sorted((key for key in both if key[0] == source), key=_by_code)]

    def with_site(self, table: Mapping[str, object], where: str = "[health.catalogue]") -> Catalogue:
        """This catalogue with a site's rows over it: {"xid": {"63": {"class": "hardware-reset", "action": "check"}}}.

        Codes that the catalogue does not know may be named too. Raises ConfigError, with what is allowed, for an
        unknown source, a code that is no number where numbers are needed, an unknown key or a bad value.
        """
        site = dict(self._site)
        named: set[tuple[str, int | str]] = set()
        for source, codes in table.items():
            if source not in sources():
                raise ConfigError(f"unknown source {source!r}", where, "known: " + ", ".join(sources()))
            if not isinstance(codes, Mapping):
                raise ConfigError(f"bad value {codes!r}", f"{where} {source}", "a table of codes is needed")
            for text, row in codes.items():
                code = parsed_code(source, str(text), f"{where} {source}")
                at = f"{where} {source} {text}"
                if (source, code) in named:
                    raise ConfigError(f"code {code} is named twice", at, "leave one of them out")
                named.add((source, code))
                site[source, code] = rows.overridden(self.lookup(source, code), row, at, SITE_ORIGIN)
                others = {(source, entry.code) for entry in _own_entries(source).values() if entry.same_as == code}
                site |= {key: rows.overridden(self.lookup(*key), row, at, SITE_ORIGIN) for key in others - named}
        return Catalogue(site)


def of_site(path: str) -> Catalogue:
    """stepguard's own with the rows of this file over it; "" is none. Raises ConfigError."""
    if not path:
        return shipped()
    where = f"[health] catalogue: {path}"
    try:
        table = tomllib.loads(named_file.read(Path(path), _SITE_MAX_BYTES).decode())
    except OSError as error:
        advice = f'{named_file.ADVICE}, or ""'
        raise ConfigError("cannot read the site's catalogue", f"{where}: {error.strerror}", advice) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError("not TOML", where, f"correct it: {error}") from error
    return shipped().with_site(table, where)


def sources() -> list[str]:
    """Those that the catalogue has codes of."""
    return [*rows.FILES, *sorted({source for source, _ in _own_entries("") if source not in rows.FILES})]


def parsed_code(source: str, text: str, where: str) -> int | str:
    """A code as somebody writes it. Raises ConfigError for what is neither a number, of a source that has numbers, nor
    one of its names."""
    has_numbers = source in rows.FILES
    if has_numbers and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
        return int(text)
    names = [code for of, code in _own_entries(source) if of == source and isinstance(code, str)]
    if text in names:
        return text
    if has_numbers:
        or_name = f", or one of {', '.join(names)}" if names else ""
        raise ConfigError(f"bad code {text!r}", where, f"a number is needed{or_name}")
    raise ConfigError(f"unknown code {text!r}", where, "known: " + ", ".join(names))


@functools.cache
def shipped() -> Catalogue:
    """The catalogue without a site's rows."""
    return Catalogue()


def lookup(source: str, code: int | str) -> Entry:
    """As `Catalogue.lookup`, of what is shipped."""
    return shipped().lookup(source, code)


@functools.cache
def sheet(source: str) -> rows.Sheet:
    """The data file of a source."""
    return rows.read_sheet(rows.FILES.get(source, rows.KERNEL_FILE), source)


@functools.cache
def _own_entries(source: str) -> dict[tuple[str, int | str], Entry]:
    if source not in rows.FILES and source != "":
        return _own_entries("")
    entries = {(entry.source, entry.code): entry for entry in sheet(source).entries}
    if source == "xid":  # its two messages without a number stand among the kernel's
        entries |= {key: entry for key, entry in _own_entries("").items() if key[0] == "xid"}
    return entries


def _by_code(key: tuple[str, int | str]) -> tuple[bool, int, str]:
    code = key[1]
    return (False, code, "") if isinstance(code, int) else (True, 0, code)
