# SPDX-License-Identifier: Apache-2.0
"""What the archiver needs before it can work, and all that is wrong with it: the same for the archiver, which does not
start then, and for `stepguard agent --check`, which says so before."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from stepguard.archive import fingerprint_key
from stepguard.archive.ownership import OWNER_ONLY, Ownership, ownership
from stepguard.archive.redaction import Rules, load_rules
from stepguard.archive.store import Directory, Writer
from stepguard.config import Archive
from stepguard.errors import ConfigError, reason
from stepguard.places import parents_problem

_Loaded = TypeVar("_Loaded")


class Prepared(NamedTuple):
    """`site_key` is None where each node makes a key of its own."""

    site_key: bytes | None
    rules: Rules
    ownership: Ownership


def prepare(settings: Archive) -> tuple[Prepared | None, list[ConfigError]]:
    """What [archive] asks for, or None and all that is wrong with it."""
    faults: list[ConfigError] = []

    def loaded(load: Callable[[], _Loaded]) -> _Loaded | None:
        try:
            return load()
        except ConfigError as error:
            faults.append(error)
            return None

    site_key = loaded(lambda: fingerprint_key.site(settings.fingerprint_key))
    rules = loaded(lambda: _rules(settings))
    owned = loaded(lambda: ownership(settings.admin_groups))
    if faults or rules is None or owned is None:
        return None, faults
    return Prepared(site_key, rules, owned), []


def _rules(settings: Archive) -> Rules:
    site_file = Path(settings.redaction_rules) if settings.redaction_rules else None
    try:
        return load_rules(site_file, settings.redaction_off)
    except ConfigError as error:
        key = "redaction_rules" if error.on else "redaction_off"
        where = ": ".join(part for part in (f"[archive] {key}", error.on) if part)
        raise ConfigError(error.what, where, error.advice) from error


def directory_fault(path: Path) -> tuple[str, bool]:
    """Why the archive's directory takes no records, and whether that can end by itself; "" for nothing.

    It touches the archive's file system, which may hang.
    """
    where = f"[archive] dir: {path}"
    try:
        if problem := parents_problem(path):
            return f"{where}: {problem}", False
        with Directory.top(path, Writer("", OWNER_ONLY)):
            if os.access(path, os.W_OK | os.X_OK):
                return "", False
            why = "mounted read-only, or over NFS without no_root_squash?"
            return f"{where}: root cannot write there, so records stay in the spool: {why}", True
    except FileNotFoundError:
        advice = f"mount its file system, or: install -d -m 0711 {path}"
        return f"{where}: there is no such directory, so records stay in the spool: {advice}", True
    except PermissionError as error:
        advice = f"take one that is root's alone: install -d -m 0711 {path}/stepguard"
        return f"{where}: {error.strerror}, so no records are written: {advice}", False
    except OSError as error:
        return f"{where}: {reason(error)}: it must be a directory of root's", False
