# SPDX-License-Identifier: Apache-2.0
"""Reading the index with the rights of whoever asks: the kernel decides whose part of it that is."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from stepguard.archive.index import REBUILT
from stepguard.archive.index_bounds import (
    NODES_FILE,
    READ_MAX_BYTES,
    SUFFIX,
    Tell,
    files_in,
    files_named,
    nodes_in,
    say_nothing,
    shares,
    tell_left_out,
)
from stepguard.archive.index_lines import (
    ATTEMPT,
    END,
    EXIT,
    JOB_ID,
    NAME,
    NODES,
    PARTITION,
    PATH,
    PRINTED_ID,
    START,
    STATE,
    USER,
    Entry,
    Row,
    counts_more,
    entry_from,
    first_known_s,
    is_gone,
    seconds_of,
    text_of,
    told_by,
    written_s,
)
from stepguard.archive.layout import ClusterLayout, RecordName
from stepguard.archive.outcome import (
    BY_SLURM,
    CANCELLED,
    COMPLETED,
    DAMAGED,
    ENDED,
    FAILED,
    LOST,
    OUTCOMES,
    REQUEUED,
    RUNNING,
)
from stepguard.archive.plain_files import read_end
from stepguard.errors import StepguardError
from stepguard.records.job_ids import JobId
from stepguard.slurm.hostlist import expand

STATES: Mapping[str, frozenset[str]] = {
    **{word: frozenset({word}) for word in OUTCOMES},
    FAILED: frozenset({FAILED, *BY_SLURM}),
    ENDED: frozenset(OUTCOMES) - {RUNNING, LOST, DAMAGED},
}
"""The words that people ask for, and the outcomes that each stands for."""


class Found(NamedTuple):
    """A record that the index knows, and the cluster that it is of. `has_later`: there is a later attempt."""

    cluster: ClusterLayout
    entry: Entry
    has_later: bool = False

    @property
    def outcome(self) -> str:
        """One of OUTCOMES."""
        return outcome(self.entry.state, self.entry.exit, self.has_later)


@dataclass(frozen=True)
class Query:
    """What is looked for; None and empty are no condition. Times: the job ran at any time between the two.

    `uid` of the owner, or else `user`, their name. `nodes`: any of these. `states` are of OUTCOMES. `name` may have
    * and ?. `limit` 0 is none.
    """

    uid: int | None = None
    user: str = ""
    nodes: frozenset[str] = frozenset()
    states: frozenset[str] = frozenset()
    since_s: float | None = None
    until_s: float | None = None
    name: str = ""
    partitions: frozenset[str] = frozenset()
    limit: int = 0


def outcome(state: str, exit_text: str, has_later: bool = False) -> str:
    """One of OUTCOMES: how it stands with an attempt that the index has with this state and exit."""
    if state == "ended" and exit_text:
        return COMPLETED if exit_text == "0:0" else FAILED
    return REQUEUED if has_later and state in (ENDED, CANCELLED) else state


def search(clusters: Sequence[ClusterLayout], query: Query, tell: Tell = say_nothing) -> tuple[list[Found], bool]:
    """The records that match, the latest start first, and whether there are more than `limit`; of one that does not
    tell its start, the first time that is known of it counts. What of the index is too much to be read is told."""
    candidates: list[tuple[float, int, int, Row]] = []
    later: set[tuple[int, int, str]] = set()
    for number, cluster in enumerate(clusters):
        for uid in _uids(cluster, query.uid):
            rows = _rows(cluster, uid, tell=tell)
            candidates += [(start_s, number, uid, row) for row in rows if (start_s := _within(row, query)) is not None]
            later.update((number, uid, path) for path in _earlier_paths(rows))
    candidates.sort(key=lambda one: one[0], reverse=True)
    found: list[Found] = []
    for _, number, uid, row in candidates:
        has_later = (number, uid, row[PATH]) in later
        if _matches(row, query, has_later):
            if query.limit and len(found) == query.limit:
                return found, True
            found.append(Found(clusters[number], entry_from(row, uid), has_later))
    return found, False


def _earlier_paths(rows: Sequence[Row]) -> Iterator[str]:
    """The paths of attempts that a later one of the same job followed."""
    last: dict[tuple[str, str], int] = {}
    for row in rows:
        if row[ATTEMPT] != "0" and (name := _name(row)) is not None:
            job = (row[JOB_ID], str(name.life))
            last[job] = max(last.get(job, 0), name.key.attempt)
    ids = {job_id for job_id, _ in last}
    for row in rows:
        name = _name(row) if row[JOB_ID] in ids else None
        if name is not None and name.key.attempt < last.get((row[JOB_ID], str(name.life)), 0):
            yield row[PATH]


def _name(row: Row) -> RecordName | None:
    return RecordName.parse(row[PATH].rpartition("/")[2])


def look_up(cluster: ClusterLayout, job: JobId) -> list[Entry]:
    """The records of a job: all its attempts; of an array or a het job that was named as a whole, of all its parts."""
    return [
        entry_from(row, uid)
        for uid in _uids(cluster, None)
        for row in _rows(cluster, uid, job.number)
        if _is_of(row, job)
    ]


def _uids(cluster: ClusterLayout, uid: int | None) -> list[int]:
    """Whose entries are to be read: all users' for those who may list them."""
    if uid is not None:
        return [uid]
    try:
        names = [path.name for path in cluster.index.iterdir()]
    except OSError:
        return [os.geteuid()]
    return sorted(int(name) for name in names if re.fullmatch("[0-9]{1,10}", name))


def _rows(cluster: ClusterLayout, uid: int, containing: str = "", tell: Tell = say_nothing) -> list[Row]:
    """One user's rows; with `containing`, at least those that have this text. None where they are another user's."""
    contents = dict(_contents(cluster.index / str(uid), uid, tell))
    rebuilt = told_by(contents.pop(REBUILT, b""))
    rows: dict[str, Row] = {}
    bad = rebuilt.bad
    for content in contents.values():
        if containing.encode() in content:
            told = told_by(content)
            bad += told.bad
            for path in rows.keys() & told.rows.keys():  # the lead has changed
                if written_s(rows[path]) > written_s(told.rows[path]):
                    told.rows[path] = rows[path]
            rows.update(told.rows)
    if rebuilt.gone:
        rows = {path: row for path, row in rows.items() if not is_gone(row, rebuilt.gone)}
    for path, row in rebuilt.rows.items():
        if path not in rows or counts_more(row, rows[path]):
            rows[path] = row
    if bad:
        tell(
            f"{bad} lines of index/{uid} are not as stepguard writes them, and left out; `stepguard archive "
            "rebuild-index` finds what they told"
        )
    return list(rows.values())


def _contents(directory: Path, uid: int, tell: Tell) -> Iterator[tuple[str, bytes]]:
    sizes: dict[str, int] = {}
    try:
        sizes = files_in(directory)
    except PermissionError:
        with contextlib.suppress(OSError):  # they are another user's
            nodes = nodes_in(read_end(directory / NODES_FILE, READ_MAX_BYTES))
            sizes = files_named(directory, [REBUILT, *sorted(f"{node}{SUFFIX}" for node in nodes)])
    except OSError:
        return
    tell_left_out(uid, sizes, tell)
    for name, at_most_bytes in shares(sizes).items():
        with contextlib.suppress(OSError):  # just gone
            yield name, read_end(directory / name, at_most_bytes)


def _within(row: Row, query: Query) -> float | None:
    """When it began, as far as is known, for what ran in the time that is asked for; what tells no times always did."""
    start_s, end_s = seconds_of(row[START]), seconds_of(row[END])
    if query.until_s is not None and start_s is not None and start_s > query.until_s:
        return None
    if query.since_s is not None:
        last_s = end_s if row[STATE] != RUNNING else None
        if last_s is None and row[STATE] != RUNNING:
            last_s = start_s
        if last_s is not None and last_s < query.since_s:
            return None
    return first_known_s(row)


def _matches(row: Row, query: Query, has_later: bool) -> bool:
    if query.user and text_of(row[USER]) != query.user:
        return False
    if query.name and not _pattern(query.name).fullmatch(text_of(row[NAME])):
        return False
    if query.partitions and not query.partitions.intersection(text_of(row[PARTITION]).split(",")):
        return False
    if query.states and outcome(row[STATE], row[EXIT], has_later) not in query.states:
        return False
    return not query.nodes or not query.nodes.isdisjoint(_expanded(text_of(row[NODES])))


@cache
def _pattern(name: str) -> re.Pattern[str]:
    """A name in which * and ? stand for other characters, and nothing else does."""
    some = {"*": ".*", "?": "."}
    return re.compile("".join(some.get(char) or re.escape(char) for char in re.sub(r"\*+", "*", name)), re.DOTALL)


@cache
def _expanded(nodes: str) -> frozenset[str]:
    try:
        return frozenset(expand(nodes))
    except StepguardError:
        return frozenset()


def _is_of(row: Row, job: JobId) -> bool:
    printed = row[PRINTED_ID]
    if job.array_task:
        return printed == f"{job.number}_{job.array_task}"
    if job.het_offset:
        return printed == f"{job.number}+{job.het_offset}"
    return row[JOB_ID] == job.number or re.split("[_+]", printed)[0] == job.number
