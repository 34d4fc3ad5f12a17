# SPDX-License-Identifier: Apache-2.0
"""Many jobs, one a line, and the nodes of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepguard.archive.index_reading import Found
from stepguard.archive.outcome import COMPLETED
from stepguard.archive.reading_record import Record, user_name
from stepguard.report.ended import state_of
from stepguard.report.layout import shortened, table
from stepguard.report.screen import Screen
from stepguard.report.steps import how
from stepguard.report.times import between, duration, moment

# What users choose as they like, and a list of nodes without order, widens a column for all: --json has all of it.
_CELL_COLUMNS = 40
_HEADER = ("JOB", "CLUSTER", "USER", "NAME", "PARTITION", "NODES", "STATE", "EXIT", "START", "TOOK", "FOUND", "RESUMED")


def jobs_table(found: Sequence[Found], screen: Screen, with_user: bool, with_cluster: bool) -> Iterator[str]:
    """Entries of the index. The attempt stands behind the id of a requeued job, 12.0 and 12.1."""
    rows = [_row(one, screen, with_user, with_cluster) for one in found]
    return table(_HEADER, rows, screen)


def parts_table(records: Sequence[Record], screen: Screen) -> Iterator[str]:
    """The tasks of an array or the parts of a het job."""
    rows = []
    for record in records:
        manifest = record.manifest
        rows.append(
            (
                screen.text(record.printed_id) + _attempt(record.attempt, record.has_later),
                state_of(record),
                how(manifest.exit_status, manifest.exit_signal) if manifest else "",
                _short(manifest.node_list, screen) if manifest else "",
                moment(record.start_s),
                duration(between(record.start_s, manifest.end_s if manifest else None)),
                str(len(record.findings) or ""),
            )
        )
    return table(("JOB", "STATE", "EXIT", "NODES", "START", "TOOK", "FOUND"), rows, screen)


def nodes_table(record: Record, screen: Screen) -> Iterator[str]:
    """One line a node: its part of the record."""
    rows = []
    for part in record.nodes:
        steps = [step for step in part.steps if step.step_id != "extern"]
        failed = sum(1 for step in steps for one in step.exits if one.status or one.signal)
        rows.append(
            (
                screen.text(part.node),
                screen.text(part.state),
                moment(part.start_s),
                duration(between(part.start_s, part.end_s)),
                screen.text(part.gpus),
                str(len(steps)),
                str(failed or ""),
                screen.text("; ".join(f"{one.what}: {one.why}" for one in part.missing)),
            )
        )
    return table(("NODE", "STATE", "START", "TOOK", "GPUS", "STEPS", "FAILED TASKS", "MISSING"), rows, screen)


def _row(found: Found, screen: Screen, with_user: bool, with_cluster: bool) -> tuple[str, ...]:
    entry = found.entry
    exit_text = entry.exit if found.outcome != COMPLETED else ""
    return (
        screen.text(entry.printed_id) + _attempt(entry.attempt, found.has_later),
        found.cluster.root.name if with_cluster else "",
        _short(entry.user or user_name(entry.uid) or str(entry.uid), screen) if with_user else "",
        _short(entry.name, screen),
        _short(entry.partition, screen),
        _short(entry.nodes, screen),
        screen.text(found.outcome),
        screen.text(exit_text),
        moment(entry.start_s),
        duration(between(entry.start_s, entry.end_s)),
        str(entry.findings or ""),
        str(entry.resumes or ""),
    )


def _short(text: str, screen: Screen) -> str:
    return shortened(screen.text(text), _CELL_COLUMNS)


def _attempt(attempt: int, has_later: bool) -> str:
    """What names an attempt behind its job's id, where the id alone does not."""
    return f".{attempt}" if attempt or has_later else ""
