# SPDX-License-Identifier: Apache-2.0
"""The lines of the index: one says what `stepguard jobs` shows of one record, and where that lies.

    1 <tab> field <tab> … <tab> . <newline>

Fields are JSON strings without their quotes: ASCII, no tab or newline inside, lossless for undecodable bytes. The last
one is when the line was written, and the dot tells a whole line from a torn one that was healed. A line "path gone
time" takes back those of a record that were written until then: one that comes again after it was pruned is there.
Tabs, for 10^5 lines of JSON take 0.4 to 0.6 s to parse, these 0.1 s, and only what is shown is parsed further.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from stepguard.archive.outcome import BY_SLURM, ENDED
from stepguard.records.manifest import Manifest, NodeRecord

_SCHEMA = "1"
_END = "."
# The file is the user's own: what looks like nothing of ours is passed over at once, 10^7 lines in less than a second.
_LINE = re.compile(rb"(?:\A|\n)(1\t[0-9][^\n]{20,}\t\.)(?=\n|\Z)")
# On the average lines are longer; of more than that, in files that are no longer ours, the last are looked at.
_LINE_MIN_BYTES = 96
_GONE = "gone"
# A name is the user's own, and a page shows no more of it.
_NAME_MAX_CHARS = 256


class Entry(NamedTuple):
    """One record as the index has it.

    `path` is its directory below DIR/CLUSTER, 2026/11/29/12.0. `exit` is STATUS:SIGNAL as Slurm prints it, "" where
    it is not known. `state` is that of the manifest, or how Slurm ended the job. `nodes` is a host list. `findings` is
    their number. `uid`, the owner, is not in the line: the directory that the line was found under says it, so that
    nobody can speak for others.
    """

    path: str
    start_s: float | None
    end_s: float | None
    state: str
    exit: str
    printed_id: str
    job_id: str
    attempt: int
    name: str
    user: str
    nodes: str
    partition: str
    resumes: int
    findings: int
    uid: int


Row = list[str]
"""A line's fields as they stand there; those of an entry begin at number 1."""
PATH, START, END, STATE, EXIT, PRINTED_ID, JOB_ID, ATTEMPT, NAME, USER, NODES, PARTITION, RESUMES, FINDINGS, WRITTEN = (
    range(1, 16)
)
_ROW_FIELDS = len(Entry._fields) - 1 + 3
_GONE_FIELDS = 5
Gone = dict[str, float]
"""Paths of records that are gone, and the time of the last line that says otherwise."""


def entry_of(path: str, manifest: Manifest, uid: int, findings: int) -> Entry:
    """The entry of a record that has a manifest. `uid` is the owner of its files."""
    status, signal = manifest.exit_status, manifest.exit_signal
    if manifest.outcome == ENDED:  # Slurm's 0 is no success then
        status = signal = None
    return Entry(
        path=path,
        start_s=manifest.start_s,
        end_s=manifest.end_s,
        state=manifest.outcome if manifest.outcome in BY_SLURM else manifest.state,
        exit="" if status is None and signal is None else f"{status or 0}:{signal or 0}",
        printed_id=manifest.printed_id,
        job_id=manifest.job_id,
        attempt=manifest.attempt,
        name=manifest.name,
        user=manifest.user,
        nodes=manifest.node_list,
        partition=manifest.partition,
        resumes=manifest.resumes,
        findings=findings,
        uid=uid,
    )


def entry_of_node(path: str, record: NodeRecord, uid: int) -> Entry:
    """The entry of a record whose lead node never wrote its manifest: what another of its nodes knows."""
    state = "lost" if record.state == "ended" else record.state
    ids = (record.job_id, record.job_id, record.attempt)
    return Entry(path, record.start_s, record.end_s, state, "", *ids, "", "", record.node, "", 0, 0, uid)


def line_of(entry: Entry, written_s: float = 0.0) -> bytes:
    """The entry's line, newline included."""
    short = entry._replace(name=entry.name[:_NAME_MAX_CHARS])
    return "\t".join([_SCHEMA, *map(_written, short[:-1]), _written(written_s), _END]).encode("ascii") + b"\n"


def gone_line(path: str, until_s: float) -> bytes:
    """A line that says: there is no such record any more, whatever lines say that were written until then."""
    return "\t".join([_SCHEMA, _written(path), _GONE, _written(until_s), _END]).encode("ascii") + b"\n"


def rows_of(content: bytes) -> tuple[dict[str, Row], Gone]:
    """The last whole line of each record, by path, and those that are gone. What is torn, of a later schema or none of
    ours is left out."""
    rows: dict[str, Row] = {}
    gone: Gone = {}
    lines = _LINE.findall(content)[-(len(content) // _LINE_MIN_BYTES + 16) :]
    for line in b"\n".join(lines).decode("ascii", errors="replace").split("\n"):
        row = line.split("\t")
        if len(row) == _ROW_FIELDS:
            rows[row[PATH]] = row
        elif len(row) == _GONE_FIELDS and row[2] == _GONE:
            gone[row[PATH]] = _time_of(row[3])
    return rows, gone


def written_s(row: Row) -> float:
    """When the row's line was written, by its node's clock."""
    return _time_of(row[WRITTEN])


def is_gone(row: Row, gone: Gone) -> bool:
    """Whether the record went after the row's line was written."""
    return row[PATH] in gone and written_s(row) <= gone[row[PATH]]


def says_the_same(row: Row, line: bytes) -> bool:
    """Whether a row says of a record what this line does, whenever they were written."""
    return row[:WRITTEN] == line.decode("ascii").split("\t")[:WRITTEN]


def line_of_row(row: Row) -> bytes:
    """The line that a row was read from, newline included."""
    return "\t".join(row).encode("ascii", errors="replace") + b"\n"


def entry_from(row: Row, uid: int) -> Entry | None:
    """The entry of a row; None where a field is not what it should be."""
    try:
        return Entry(
            path=text_of(row[PATH]),
            start_s=seconds_of(row[START]),
            end_s=seconds_of(row[END]),
            state=text_of(row[STATE]),
            exit=text_of(row[EXIT]),
            printed_id=text_of(row[PRINTED_ID]),
            job_id=text_of(row[JOB_ID]),
            attempt=int(row[ATTEMPT]),
            name=text_of(row[NAME]),
            user=text_of(row[USER]),
            nodes=text_of(row[NODES]),
            partition=text_of(row[PARTITION]),
            resumes=int(row[RESUMES]),
            findings=int(row[FINDINGS]),
            uid=uid,
        )
    except ValueError:
        return None


def text_of(field: str) -> str:
    """A field's text. Raises ValueError for what is no field of ours."""
    return str(json.loads(f'"{field}"')) if "\\" in field else field


def seconds_of(field: str) -> float | None:
    """A field's time. Raises ValueError."""
    return float(field) if field else None


def _time_of(field: str) -> float:
    try:
        return float(field)
    except ValueError:
        return 0.0


def _written(value: str | float | None) -> str:
    if isinstance(value, str):
        return json.dumps(value)[1:-1]
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
