# SPDX-License-Identifier: Apache-2.0
"""Which directory an attempt's record lies in: the one that another node, or an earlier run, has made for it; else a
new one, under the day of its start.

Nodes may see midnight differently, and without `PrologFlags=Alloc` a node's prolog runs only with its first step there,
maybe days after the lead's: so the days around are looked at too. A record of the same number is another job's when it
belongs to another user, or had ended long before this one began: job ids begin anew when slurmctld has lost its state.
That one stays as it is, and the new one gets a name of its own.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from stepguard.archive.layout import MANIFEST, NODES, RecordName, day_of, is_safe_name
from stepguard.archive.plain_files import MANIFEST_MAX_BYTES
from stepguard.archive.store import Directory
from stepguard.records.manifest import Manifest, NodeRecord, manifest_from, node_from
from stepguard.records.shape import MalformedRecord
from stepguard.records.spool import AttemptKey

# Clocks of nodes differ, and a clock may be set by an hour.
_APART_S = 2 * 3600.0
_SAME_S = 1.0
_LOOK_BACK_DAYS = 31
_DAY = datetime.timedelta(days=1)


class Attempt(NamedTuple):
    """What tells an attempt from another of its number. `uid` is None where it is not known.

    `begins`: `since_s` is when it began here; else it is only when something was heard of it.
    """

    key: AttemptKey
    uid: int | None
    since_s: float
    begins: bool
    leads: bool


def record_directory(cluster: Directory, attempt: Attempt) -> tuple[Directory, str]:
    """The record's directory, and its path below the cluster's. Raises OSError."""
    return _anywhere(cluster, attempt) or _made(cluster, day_of(attempt.since_s), attempt)


def existing_record(cluster: Directory, attempt: Attempt) -> Directory | None:
    """The record's directory, if there is one. Raises OSError."""
    found = _anywhere(cluster, attempt)
    return found[0] if found else None


def manifest_in(record: Directory) -> Manifest | None:
    """The manifest that lies there; None where there is none that can be read. Raises OSError."""
    content = record.read(MANIFEST, MANIFEST_MAX_BYTES)
    try:
        return None if content is None else manifest_from(content.decode("ascii"))
    except (MalformedRecord, UnicodeDecodeError):
        return None


def node_in(nodes: Directory, node: str) -> NodeRecord | None:
    """A node's part; None where there is none that can be read. Raises OSError."""
    content = nodes.read(f"{node}.json", MANIFEST_MAX_BYTES)
    try:
        return None if content is None else node_from(content.decode("ascii"))
    except (MalformedRecord, UnicodeDecodeError):
        return None


def _anywhere(cluster: Directory, attempt: Attempt) -> tuple[Directory, str] | None:
    for day in _days(day_of(attempt.since_s), attempt):
        if (found := _found(cluster, _parts(day), attempt)) is not None:
            return found
    return None


def _days(today: datetime.date, attempt: Attempt) -> Iterator[datetime.date]:
    yield from (today, today - _DAY, today + _DAY)
    if not attempt.begins or not attempt.leads:
        yield from (today - back * _DAY for back in range(2, _LOOK_BACK_DAYS + 1))


def _parts(day: datetime.date) -> tuple[str, str, str]:
    return f"{day.year:04}", f"{day.month:02}", f"{day.day:02}"


def _found(cluster: Directory, parts: tuple[str, ...], attempt: Attempt) -> tuple[Directory, str] | None:
    day = cluster.below(*parts)
    if day is None:
        return None
    with day:
        for life in count(1):
            name = str(RecordName(attempt.key, life))
            record = day.existing(name)
            if record is None:
                return None
            with contextlib.ExitStack() as opened:
                opened.enter_context(record)
                if _is_of(record, attempt):
                    opened.pop_all()
                    return record, "/".join((*parts, name))
    return None


def _made(cluster: Directory, today: datetime.date, attempt: Attempt) -> tuple[Directory, str]:
    parts = _parts(today)
    day = cluster.below(*parts, make=True)
    assert day is not None
    with day:
        record, name = _made_or_found(day, attempt)
        # Another node may have seen midnight otherwise at this very moment: the earlier day counts.
        earlier = _found(cluster, _parts(today - _DAY), attempt)
        if earlier is None:
            return record, "/".join((*parts, name))
        if day.remove(name):
            record.close()
            return earlier
        earlier[0].close()
        return record, "/".join((*parts, name))


def _made_or_found(day: Directory, attempt: Attempt) -> tuple[Directory, str]:
    """Looks at each name once more: another node may have made the record since it was looked for."""
    lives = count(1)
    while True:
        name = str(RecordName(attempt.key, next(lives)))
        record = day.existing(name) if day.has(name) else day.made(name)
        if record is None:
            continue
        if _is_of(record, attempt):
            return record, name
        record.close()


def _is_of(record: Directory, attempt: Attempt) -> bool:
    """Whether the record that lies there is of this attempt. An empty one may be: another node is making it."""
    owner, start_s, end_s = told_by(record)
    if owner is None:
        return True
    if attempt.uid is not None and owner not in (attempt.uid, 0):  # root's where the owner's quota was used up
        return False
    if not attempt.begins:
        return start_s is None or start_s <= attempt.since_s + _APART_S
    if (ended_here_s := _end_here_s(record)) is not None and ended_here_s + _SAME_S < attempt.since_s:
        return False
    if end_s is not None and end_s + _APART_S < attempt.since_s:
        return False
    # A lead that was lost says no end. One that begins later than this attempt is of a later life.
    return start_s is None or not attempt.leads or start_s <= attempt.since_s + _APART_S


def _end_here_s(record: Directory) -> float | None:
    """When the record's attempt had ended on this very node, by its own clock."""
    nodes = record.existing(NODES)
    if nodes is None:
        return None
    with nodes:
        part = node_in(nodes, record.writer.node)
    return part.end_s if part else None


def told_by(record: Directory) -> tuple[int | None, float | None, float | None]:
    """Owner, start and end of a record, from its manifest or else from a node's part; no owner where it is empty."""
    if (manifest := manifest_in(record)) is not None:
        return record.owner_of(MANIFEST), manifest.start_s, manifest.end_s
    nodes = record.existing(NODES)
    if nodes is None:
        return None, None, None
    with nodes:
        for name in nodes.names():
            node = name.removesuffix(".json")
            if is_safe_name(node) and (part := node_in(nodes, node)) is not None:
                return nodes.owner_of(name), part.start_s, part.end_s
    return None, None, None
