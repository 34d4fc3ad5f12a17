# SPDX-License-Identifier: Apache-2.0
"""The lines of the index: one says what `stepguard jobs` shows of one record, and where that lies.

    1 <tab> field <tab> … <tab> . <newline>

Fields are JSON strings without their quotes: ASCII, no tab or newline inside, lossless for undecodable bytes. The last
one is when the line was written, and the dot tells a whole line from a torn one that was healed. A line "path gone
time" takes back those of a record that were written until then: one that comes again after it was pruned is there.
Tabs, for 10^5 lines of JSON take 0.4 to 0.6 s to parse, these 0.2 s, and only what is shown is parsed further.

The files are the users' own, who may write anything into them. So a line counts only if each of its fields is as we
write it: numbers are finite and bounded, words are known, texts are printable.
"""

from __future__ import annotations

import datetime
import json
import re
from typing import NamedTuple

from stepguard.archive.outcome import BY_SLURM, DAMAGED, ENDED, LOST, RUNNING
from stepguard.records.manifest import Manifest, NodeRecord

_SCHEMA = "1"
_END = "."
_GONE = "gone"
# In the year 5138.
_TIME_MAX_S = 99_999_999_999.0
_COUNT_MAX = 999_999_999
_DAY_S = 86400.0
_CLOCKS_DIFFER_S = 300.0
# A name is the user's own, and a page shows no more of it. A list of 10^5 nodes without order takes 600 KiB.
_NAME_MAX_CHARS = 256
_TEXT_MAX_CHARS = 1 << 20

# More of groups and alternatives would double the time that 10^5 lines take.
_TIME = r"[0-9]{1,11}\.[0-9]{3}"
_COUNT = "[0-9]{1,9}"
_ID = "[0-9]{1,10}"
_TEXT = r"[ -\x7f]*"
_PATH = rf"[0-9]{{4}}/[0-9]{{2}}/[0-9]{{2}}/{_ID}\.{_ID}~?[0-9]{{0,4}}"
_FIELDS = (
    f"(?:{_TIME})?",
    f"(?:{_TIME})?",
    f"(?:{'|'.join((ENDED, RUNNING, LOST, DAMAGED, *BY_SLURM))})",
    "(?:[0-9]{1,9}:[0-9]{1,9})?",
    rf"{_ID}[_+]?[0-9]{{0,10}}",
    _ID,
    _ID,
    *[_TEXT] * 4,
    _COUNT,
    _COUNT,
    _TIME,
)
# The newline before it lets the search pass over what is none of ours at once: 10^7 lines in less than a second.
_LINE = re.compile("\n(1\t({})\t(?:{}|gone\t{})\t\\.)(?=\n)".format(_PATH, "\t".join(_FIELDS), _TIME).encode())
# What ends like a line of ours.
_LINE_END = b"\t.\n"
# On the average lines are longer; of more than that, in files that are no longer ours, the last are looked at.
_LINE_MIN_BYTES = 96


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


class Told(NamedTuple):
    """What a file of the index tells: the last line of each record, by path; those that are gone; and how many of its
    lines were left out because they are not as we write them."""

    rows: dict[str, Row]
    gone: Gone
    bad: int


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
    """The entry's line, newline included. What no such entry can have is left out of it, or cut."""
    bounded = entry._replace(
        start_s=_bounded(entry.start_s),
        end_s=_bounded(entry.end_s),
        name=entry.name[:_NAME_MAX_CHARS],
        user=entry.user[:_NAME_MAX_CHARS],
        nodes=entry.nodes if len(entry.nodes) <= _TEXT_MAX_CHARS else "",
        partition=entry.partition[:_TEXT_MAX_CHARS],
        resumes=min(max(entry.resumes, 0), _COUNT_MAX),
        findings=min(max(entry.findings, 0), _COUNT_MAX),
    )
    return "\t".join([_SCHEMA, *map(_written, bounded[:-1]), f"{written_s:.3f}", _END]).encode("ascii") + b"\n"


def is_line(line: bytes) -> bool:
    """Whether that is a line of ours, newline included, that readers will believe."""
    return _LINE.match(b"\n" + line) is not None


def gone_line(path: str, until_s: float) -> bytes:
    """A line that says: there is no such record any more, whatever lines say that were written until then."""
    return "\t".join([_SCHEMA, path, _GONE, f"{until_s:.3f}", _END]).encode("ascii") + b"\n"


def told_by(content: bytes) -> Told:
    """What stands in a file of the index. A line that is torn is left out like what is none of ours, and not counted;
    one of a later schema is."""
    told = Told({}, {}, 0)
    lines = _LINE.findall(b"\n" + content + b"\n")
    last = {path: line for line, path in lines[-(len(content) // _LINE_MIN_BYTES + 16) :]}
    for line in b"\n".join(last.values()).decode("ascii").split("\n"):
        row = line.split("\t")
        if len(row) == _ROW_FIELDS:
            told.rows[row[PATH]] = row
        elif len(row) == _GONE_FIELDS:
            told.gone[row[PATH]] = float(row[3])
    return told._replace(bad=content.count(_LINE_END) + content.endswith(_LINE_END[:-1]) - len(lines))


def written_s(row: Row) -> float:
    """When the row's line was written, by its node's clock."""
    return float(row[WRITTEN])


def is_gone(row: Row, gone: Gone) -> bool:
    """Whether the record went after the row's line was written."""
    return row[PATH] in gone and written_s(row) <= gone[row[PATH]]


def counts_more(rebuilt: Row, told: Row) -> bool:
    """Whether of a record the line of a rebuild counts, and not that of a node: what was written last. What says that
    the record still runs counts for less than what says that it has ended, unless it is younger by more than clocks
    differ."""
    younger_s = written_s(rebuilt) - written_s(told)
    if rebuilt[STATE] == RUNNING != told[STATE]:
        return younger_s > _CLOCKS_DIFFER_S
    return younger_s >= 0 or told[STATE] == RUNNING != rebuilt[STATE]


def says_the_same(row: Row, line: bytes) -> bool:
    """Whether a row says of a record what this line does, whenever they were written."""
    return row[:WRITTEN] == line.decode("ascii").split("\t")[:WRITTEN]


def line_of_row(row: Row) -> bytes:
    """The line that a row was read from, newline included."""
    return "\t".join(row).encode("ascii") + b"\n"


def entry_from(row: Row, uid: int) -> Entry:
    """The entry of a row."""
    return Entry(
        path=row[PATH],
        start_s=seconds_of(row[START]),
        end_s=seconds_of(row[END]),
        state=row[STATE],
        exit=row[EXIT],
        printed_id=row[PRINTED_ID],
        job_id=row[JOB_ID],
        attempt=int(row[ATTEMPT]),
        name=text_of(row[NAME])[:_NAME_MAX_CHARS],
        user=text_of(row[USER])[:_NAME_MAX_CHARS],
        nodes=text_of(row[NODES]),
        partition=text_of(row[PARTITION]),
        resumes=int(row[RESUMES]),
        findings=int(row[FINDINGS]),
        uid=uid,
    )


def text_of(field: str) -> str:
    """A field's text; what is no JSON stands for itself."""
    if "\\" not in field:
        return field
    try:
        return str(json.loads(f'"{field}"'))
    except ValueError:
        return field


def first_known_s(row: Row) -> float:
    """When the record's attempt began; of one that does not tell, the first time that is known of it: its end, else
    when the line was written, or the end of its day in the archive, whichever is earlier (a rebuild writes all anew).
    """
    if known := row[START] or row[END]:
        return float(known)
    year, month, day, _ = row[PATH].split("/")
    try:
        midnight = datetime.datetime(int(year), int(month), int(day), tzinfo=datetime.UTC)
    except ValueError:  # the path is its user's word
        return 0.0
    return min(written_s(row), midnight.timestamp() + _DAY_S)


def seconds_of(field: str) -> float | None:
    """A field's time."""
    return float(field) if field else None


def _bounded(time_s: float | None) -> float | None:
    return float(time_s) if time_s is not None and 0 <= time_s <= _TIME_MAX_S else None


def _written(value: str | float | None) -> str:
    if isinstance(value, str):
        return json.dumps(value)[1:-1]
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
