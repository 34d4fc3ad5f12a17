# SPDX-License-Identifier: Apache-2.0
"""The index, put right from the records: what its lines lack, and what they name that is gone.

Both may run beside the archivers, and no line that these append meanwhile is lost: the files of nodes are only read.
What is found goes into a file of each user's own, +rebuilt.tsv, which is replaced by a rename. For a record that stands
in both, a reader takes the node's line, unless that still says "running"; so a line that is younger than the rebuild
counts. Lines are read before the records are walked: a record is there before its line, so one that the walk does not
find is gone, and not yet to come. What is gone is so for the lines that were read: a record that comes again has a
younger one. Two rebuilds at once: the last one counts.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from stepguard.archive.index import REBUILT, UserIndex
from stepguard.archive.index_bounds import Tell, say_nothing
from stepguard.archive.index_lines import (
    Entry,
    Row,
    entry_of,
    entry_of_node,
    gone_line,
    line_of,
    line_of_row,
    rows_of,
    says_the_same,
    written_s,
)
from stepguard.archive.layout import FINDINGS, INDEX, MANIFEST, NODES, ClusterLayout, RecordName
from stepguard.archive.ownership import OWNER_ONLY, Ownership
from stepguard.archive.plain_files import MANIFEST_MAX_BYTES, read_manifest, read_plain
from stepguard.records.manifest import MalformedRecord, node_from

_FINDINGS_MAX_BYTES = 16 << 20


def rebuild(cluster_dir: Path, ownership: Ownership = OWNER_ONLY, tell: Tell = say_nothing) -> int:
    """Makes the index of a cluster say what its records say; how many these are. What of it is too much to be read is
    told. Raises OSError."""
    told = {uid: _told_by_nodes(cluster_dir, uid, ownership, tell) for uid in _users(cluster_dir)}
    found: dict[int, dict[str, bytes]] = {}
    for uid, path, line in _walk(ClusterLayout(cluster_dir)):
        found.setdefault(uid, {})[path] = line
    for uid in told.keys() | found.keys():
        rows, lines = told.get(uid, {}), found.get(uid, {})
        wanted = [line for path, line in lines.items() if path not in rows or not says_the_same(rows[path], line)]
        wanted += [gone_line(path, written_s(row)) for path, row in rows.items() if path not in lines]
        _put(cluster_dir, uid, ownership, wanted)
    return sum(map(len, found.values()))


def forget(cluster_dir: Path, gone: Mapping[int, Iterable[str]], ownership: Ownership = OWNER_ONLY) -> None:
    """Takes records that were deleted out of the index: their paths below the cluster's directory, by the uid of their
    owners. Raises OSError; a rebuild does the same from what is there."""
    for uid, paths in gone.items():
        told = _told_by_nodes(cluster_dir, uid, ownership)
        with UserIndex(cluster_dir, uid, ownership) as index:
            rows, before = rows_of(index.content(REBUILT) or b"")
        now = set(paths)
        lines = [line_of_row(row) for path, row in rows.items() if path not in now]
        until_s = {**before, **{path: written_s(told[path]) for path in now & told.keys()}}
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
            for path, row in rows_of(content)[0].items() if name != REBUILT else ():
                if path not in rows or written_s(rows[path]) <= written_s(row):
                    rows[path] = row
    return rows


def _put(cluster_dir: Path, uid: int, ownership: Ownership, lines: list[bytes]) -> None:
    with UserIndex(cluster_dir, uid, ownership) as index:
        if lines:
            index.replace(REBUILT, b"".join(lines))
        else:
            index.remove(REBUILT)


def _walk(layout: ClusterLayout) -> Iterator[tuple[int, str, bytes]]:
    """Owner, path and line of all records. The owner is that of the files: what stands in them the user may change."""
    for _, day in layout.days():
        for name, directory in layout.records(day):
            path = str(directory.relative_to(layout.root))
            if (entry := _entry(directory, path, name)) is not None:
                yield entry.uid, path, line_of(entry)


def _entry(directory: Path, path: str, name: RecordName) -> Entry | None:
    """None where nobody has written anything into the record yet, or it has just gone."""
    try:
        uid = (directory / MANIFEST).lstat().st_uid
    except FileNotFoundError:
        return _node_only(directory, path)
    try:
        return entry_of(path, read_manifest(directory / MANIFEST), uid, _count_findings(directory))
    except (MalformedRecord, OSError):
        ids = (str(name.key.job_id), str(name.key.job_id), name.key.attempt)
        return Entry(path, None, None, "damaged", "", *ids, "", "", "", "", 0, 0, uid)


def _node_only(directory: Path, path: str) -> Entry | None:
    """The entry of a record whose lead node died before it wrote the manifest."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for part in sorted((directory / NODES).iterdir()):
            with contextlib.suppress(MalformedRecord, ValueError, OSError):
                record = node_from(read_plain(part, MANIFEST_MAX_BYTES).decode())
                return entry_of_node(path, record, part.lstat().st_uid)
    return None


def _count_findings(directory: Path) -> int:
    try:
        return read_plain(directory / FINDINGS, _FINDINGS_MAX_BYTES).count(b"\n")
    except FileNotFoundError:
        return 0
