# SPDX-License-Identifier: Apache-2.0
"""The index, put right from the records: what its lines lack or say wrongly, and what they name that is gone.

Both may run beside the archivers, and no line that these append meanwhile is lost: the files of nodes are only read.
What is found goes into a file of each user's own, +rebuilt.tsv, which is replaced by a rename. Its lines bear the time
at which the rebuild began, and of a record the youngest line counts (index_lines.counts_more): so they count for more
than all that stood there, and for less than what is appended from then on. A line of a user's that claims to be from
the future makes that which corrects it as young. Lines are read before the records are walked: a record is there before
its line, so one that the walk does not find is gone, and not yet to come. What is gone is so for the lines that were
read: a record that comes again has a younger one. Two rebuilds at once: the last one counts.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from stepguard.archive.index import REBUILT, UserIndex
from stepguard.archive.index_bounds import Tell, say_nothing
from stepguard.archive.index_lines import (
    Entry,
    Row,
    entry_of,
    entry_of_node,
    gone_line,
    is_line,
    line_of,
    line_of_row,
    says_the_same,
    told_by,
    written_s,
)
from stepguard.archive.layout import FINDINGS, INDEX, MANIFEST, NODES, ClusterLayout, RecordName
from stepguard.archive.ownership import OWNER_ONLY, Ownership
from stepguard.archive.plain_files import MANIFEST_MAX_BYTES, read_manifest, read_plain
from stepguard.errors import reason
from stepguard.records.manifest import node_from
from stepguard.records.shape import MalformedRecord

_FINDINGS_MAX_BYTES = 16 << 20
_T = TypeVar("_T")


def rebuild(
    cluster_dir: Path, ownership: Ownership = OWNER_ONLY, tell: Tell = say_nothing, trouble: Tell = say_nothing
) -> int:
    """Makes the index of a cluster say what its records say; how many these are. What of it is too much to be read is
    told, and what cannot be read or written is a trouble, and passed over."""
    begun_s = time.time()
    users = _users(cluster_dir)
    told = {uid: rows for uid in users if (rows := _tried(uid, trouble, _told_by_nodes, cluster_dir, ownership, tell))}
    found: dict[int, dict[str, Entry]] = {}
    for entry in _walk(ClusterLayout(cluster_dir), trouble):
        found.setdefault(entry.uid, {})[entry.path] = entry
    for uid in told.keys() | found.keys() | set(users):
        rows, entries = told.get(uid, {}), found.get(uid, {})
        wanted = []
        for path, entry in entries.items():
            row = rows.get(path)
            line = line_of(entry, max(begun_s, written_s(row)) if row else begun_s)
            if row is None or not says_the_same(row, line):
                wanted.append(line)
        wanted += [gone_line(path, written_s(row)) for path, row in rows.items() if path not in entries]
        _tried(uid, trouble, _put, cluster_dir, ownership, wanted)
    return sum(map(len, found.values()))


def _tried(uid: int, trouble: Tell, act: Callable[..., _T], cluster_dir: Path, *words: Any) -> _T | None:
    """What `act` gives for a user; None, and a trouble, where it cannot."""
    try:
        return act(cluster_dir, uid, *words)
    except OSError as error:
        trouble(f"index/{uid}: {reason(error)}")
        return None


def forget(cluster_dir: Path, gone: Mapping[int, Iterable[str]], ownership: Ownership = OWNER_ONLY) -> None:
    """Takes records that were deleted out of the index: their paths below the cluster's directory, by the uid of their
    owners. Raises OSError; a rebuild does the same from what is there."""
    for uid, paths in gone.items():
        told = _told_by_nodes(cluster_dir, uid, ownership)
        with UserIndex(cluster_dir, uid, ownership) as index:
            rebuilt = told_by(index.content(REBUILT) or b"")
        now = set(paths)
        lines = [line_of_row(row) for path, row in rebuilt.rows.items() if path not in now]
        until_s = {**rebuilt.gone, **{path: written_s(told[path]) for path in now & told.keys()}}
        lines += [gone_line(path, time_s) for path, time_s in sorted(until_s.items()) if path in told]
        _put(cluster_dir, uid, ownership, lines)


def _users(cluster_dir: Path) -> list[int]:
    try:
        return [int(path.name) for path in (cluster_dir / INDEX).iterdir() if re.fullmatch("[0-9]{1,10}", path.name)]
    except FileNotFoundError:
        return []


def _told_by_nodes(cluster_dir: Path, uid: int, ownership: Ownership, tell: Tell = say_nothing) -> dict[str, Row]:
    """The last line of each record."""
    rows: dict[str, Row] = {}
    with UserIndex(cluster_dir, uid, ownership) as index:
        for name, content in index.contents(tell):
            for path, row in told_by(content).rows.items() if name != REBUILT else ():
                if path not in rows or written_s(rows[path]) <= written_s(row):
                    rows[path] = row
    return rows


def _put(cluster_dir: Path, uid: int, ownership: Ownership, lines: list[bytes]) -> None:
    with UserIndex(cluster_dir, uid, ownership) as index:
        if lines:
            index.replace(REBUILT, b"".join(lines))
        else:
            index.remove(REBUILT)
        index.list_nodes()


def _walk(layout: ClusterLayout, trouble: Tell) -> Iterator[Entry]:
    """The entries of all records. The owner is that of the files: what stands in them the user may change."""
    for day in _days(layout, trouble):
        try:
            records = layout.records(day)
        except OSError as error:
            trouble(reason(error))
            continue
        for name, directory in records:
            path = str(directory.relative_to(layout.root))
            try:
                entry = _entry(directory, path, name)
            except OSError as error:
                trouble(reason(error))
                continue
            if entry is not None:
                yield entry


def _days(layout: ClusterLayout, trouble: Tell) -> Iterator[Path]:
    try:
        for _, day in layout.days():
            yield day
    except OSError as error:
        trouble(reason(error))


def _entry(directory: Path, path: str, name: RecordName) -> Entry | None:
    """None where nobody has written anything into the record yet, or it has just gone. Raises OSError."""
    try:
        uid = (directory / MANIFEST).lstat().st_uid
    except FileNotFoundError:
        return _node_only(directory, path)
    with contextlib.suppress(MalformedRecord, OSError):
        entry = entry_of(path, read_manifest(directory / MANIFEST), uid, _count_findings(directory))
        if is_line(line_of(entry)):
            return entry
    ids = (str(name.key.job_id), str(name.key.job_id), name.key.attempt)
    return Entry(path, None, None, "damaged", "", *ids, "", "", "", "", 0, 0, uid)


def _node_only(directory: Path, path: str) -> Entry | None:
    """The entry of a record whose lead node died before it wrote the manifest."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for part in sorted((directory / NODES).iterdir()):
            with contextlib.suppress(MalformedRecord, ValueError, OSError):
                record = node_from(read_plain(part, MANIFEST_MAX_BYTES).decode())
                entry = entry_of_node(path, record, part.lstat().st_uid)
                if is_line(line_of(entry)):
                    return entry
    return None


def _count_findings(directory: Path) -> int:
    try:
        return read_plain(directory / FINDINGS, _FINDINGS_MAX_BYTES).count(b"\n")
    except FileNotFoundError:
        return 0
