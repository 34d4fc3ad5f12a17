# SPDX-License-Identifier: Apache-2.0
"""`stepguard health nodes`: the nodes of the cluster that are not well, by what each has told into the archive."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from stepguard.cli.output import tell

if TYPE_CHECKING:
    from stepguard.archive.node_state import Told
    from stepguard.health.model import Status
    from stepguard.records.node_state import NodeState
    from stepguard.report.screen import Screen

SCHEMA = 1
_UNKNOWN = 3
_HEADER = ("NODE", "CLUSTER", "STATUS", "ACTION", "WHY", "SINCE", "FAILED JOBS", "TOLD")
_WHY_COLUMNS, _JOBS_NAMED = 60, 8


class _Found(NamedTuple):
    cluster: str
    state: NodeState


@click.command(short_help="The nodes of the cluster that are not well.")
@click.option("--all", "everything", is_flag=True, help="Those too that are well again.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def nodes(everything: bool, as_json: bool) -> int:
    """List the nodes that are not well, and those on whose GPUs job after job has failed, the worst first: what each
    node's agent told into the archive when that last changed. A node that never had trouble is not there. For root and
    the archive's administrators.

    \b
    EXIT STATUS:
      0  no such node
      1  warning: something to look at, or job after job has failed
      2  failed: hardware to reset or replace, or a node to reboot
      3  unknown: a node cannot tell, or its file cannot be read, and nothing is worse; or the archive cannot be
    """
    from stepguard import config
    from stepguard.health.model import Status, worst
    from stepguard.report.screen import stdout_screen, write_json, write_lines

    archive = Path(config.load().archive.dir)
    try:
        found, bad = _read(archive)
    except OSError as error:
        tell(_why_unread(error, archive))
        return _UNKNOWN
    listed = sorted(found if everything else filter(_is_listed, found), key=_order)
    for one in bad:
        tell(f"left out: {one.path}: {one.why}")
    if as_json:
        write_json(_document(listed, bad))
    else:
        screen = stdout_screen()
        write_lines(_table(listed, screen), screen)
    statuses = [_status(one.state) for one in listed] + [Status.UNKNOWN] * bool(bad)
    return worst(statuses, Status.OK).exit_status


def _read(archive: Path) -> tuple[list[_Found], list[Told]]:
    """What the nodes of all clusters tell, and what cannot be read. Raises OSError where nothing can be."""
    from stepguard.archive.layout import clusters
    from stepguard.archive.node_state import told_by

    next(archive.iterdir(), None)  # one that is not mounted must not look empty
    found, bad = [], []
    for cluster in clusters(archive):
        for one in told_by(cluster):
            if one.state is None:
                bad.append(one)
            else:
                found.append(_Found(cluster.root.name, one.state))
    return found, bad


def _why_unread(error: OSError, archive: Path) -> str:
    if isinstance(error, PermissionError):
        advice = "root may, and the group that [archive] admin_groups names"
    else:
        advice = "[archive] dir in the configuration says where it is; is its file system mounted?"
    where = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else archive
    return f"cannot read what nodes tell: {error.strerror or error}: {where}: {advice}"


def _status(state: NodeState) -> Status:
    """That of the node; a warning where its GPUs fail job after job and it seems well."""
    from stepguard.health.model import Status, worst

    return worst([Status(state.status), Status.WARN if state.offences else Status.OK])


def _is_listed(one: _Found) -> bool:
    return one.state.status != "ok" or bool(one.state.offences)


def _order(one: _Found) -> tuple[int, int, str, str]:
    """The worst first."""
    from stepguard.records.node_state import STATUSES

    return -STATUSES.index(_status(one.state)), -one.state.offences, one.cluster, one.state.node


def _table(listed: Sequence[_Found], screen: Screen) -> Iterator[str]:
    from stepguard.report.layout import table

    if not listed:
        yield "no node has told of trouble that it still has"
        return
    has_clusters = len({one.cluster for one in listed}) > 1
    now_s = time.time()
    yield from table(_HEADER, [_row(one, has_clusters, now_s, screen) for one in listed], screen)


def _row(one: _Found, has_clusters: bool, now_s: float, screen: Screen) -> tuple[str, ...]:
    from stepguard.cli.health_node import ago
    from stepguard.report.layout import shortened
    from stepguard.report.times import moment

    state = one.state
    worst = state.items[0] if state.items else None
    why = shortened(screen.text(worst.text), _WHY_COLUMNS) if worst else ""
    more = len(state.items) - 1 + state.left_out
    offenders = (f"{screen.text(gpu.gpu)}: {_jobs(gpu.job_ids, gpu.job_count, screen)}" for gpu in state.offenders)
    return (
        screen.text(state.node),
        screen.text(one.cluster) if has_clusters else "",
        state.status.upper(),
        screen.text(state.action) if state.action != "none" else "",
        f"{why} (and {more} more)" if more > 0 else why,
        moment(worst.since_s) if worst else "",
        "; ".join(offenders),
        ago(max(now_s - state.at_s, 0.0)),
    )


def _jobs(job_ids: Sequence[str], count: int, screen: Screen) -> str:
    """The last ones, by name."""
    named = [screen.text(job_id) for job_id in job_ids[-_JOBS_NAMED:]]
    return ", ".join(named) + (f" (and {count - len(named)} more)" if count > len(named) else "")


def _document(listed: Sequence[_Found], bad: Sequence[Told]) -> dict[str, Any]:
    shown: list[dict[str, Any]] = [{"cluster": one.cluster, **dataclasses.asdict(one.state)} for one in listed]
    return {"schema": SCHEMA, "nodes": shown, "left_out": [{"file": str(one.path), "why": one.why} for one in bad]}
