# SPDX-License-Identifier: Apache-2.0
"""Directories that root writes to: which of the configured ones exclude one another, and who else could put something
of their own in a path's place."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from pathlib import Path

from stepguard.config import Config
from stepguard.errors import ConfigError
from stepguard.records.spool import SpoolLayout


def conflicts(config: Config, resolved: Callable[[str], str] = os.path.normpath) -> list[ConfigError]:
    """What is wrong with where socket, spool and archive lie to one another.

    `resolved` makes paths comparable. os.path.realpath follows links too, but touches the archive's file system, which
    may hang: not for the agent.
    """
    given = {
        "[agent] socket": config.agent.socket,
        "[agent] spool": config.agent.spool,
        "[archive] dir": config.archive.dir,
    }
    places = {key: Path("/" + resolved(path).lstrip("/")) for key, path in given.items()}
    return [*_roots(places), *_within(places)]


def _roots(places: Mapping[str, Path]) -> Iterator[ConfigError]:
    for key, path in places.items():
        if path == Path("/"):
            yield ConfigError("not a place of stepguard's own", f"{key}: {path}", "name a path below it")


def _within(places: Mapping[str, Path]) -> Iterator[ConfigError]:
    for (one, its_path), (other, other_path) in combinations(places.items(), 2):
        where = f"{one}: {its_path}, {other}: {other_path}"
        if its_path == other_path:
            yield ConfigError("two things at one place", where, "name two paths")
        elif Path("/") not in (its_path, other_path) and (
            its_path.is_relative_to(other_path) or other_path.is_relative_to(its_path)
        ):
            yield ConfigError("one lies inside of the other", where, "name one outside of it")


def parents_problem(path: Path) -> str:
    """Who besides root could put something else in a path's place, by a directory that it lies below; "" for nobody.

    In a sticky directory (/tmp) nobody can rename what is root's. Directories that are not there will be made by root.
    Raises OSError when one cannot be looked at.
    """
    parents = dict.fromkeys([*path.parents, *Path(os.path.realpath(path)).parents])
    for parent in sorted(parents):
        try:
            status = parent.stat()
        except FileNotFoundError:
            continue
        mode = stat.S_IMODE(status.st_mode)
        others = stat.S_IWOTH | (stat.S_IWGRP if status.st_gid != 0 else 0)
        if status.st_uid != 0:
            return f"it is below {parent}, which belongs to uid {status.st_uid}: take one below directories of root's"
        if mode & others and not mode & stat.S_ISVTX:
            return f"it is below {parent}, where others may exchange it (mode {mode:04o}): chmod {mode & ~0o022:04o}"
    return ""


def lock_holder(spool: Path) -> int | None:
    """The pid of the agent that holds a spool; None where none does, or that is not ours to know."""
    with contextlib.suppress(OSError):
        descriptor = os.open(SpoolLayout(spool).lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.pread(descriptor, 20, 0).strip()
            return int(said) if said.isdigit() else 0
        finally:
            os.close(descriptor)
    return None
