# SPDX-License-Identifier: Apache-2.0
"""Which attempt a lone epilog ended: the one that it names, or the one before.

Slurm counts a requeue before it runs the epilogs of the attempt that ends, and begins the next attempt when they are
over (22.05 to 26.05). A node where an attempt ran no step tells nothing of it but its epilog (without
`PrologFlags=Alloc`); so it is the record that tells, which the attempt's first node has written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from stepguard.archive import place
from stepguard.archive.fold import Folded
from stepguard.archive.layout import NODES
from stepguard.archive.ownership import Ownership
from stepguard.archive.spooled import Spooled
from stepguard.archive.store import Directory, Writer
from stepguard.records import wire
from stepguard.records.manifest import NodeRecord
from stepguard.records.spool import AttemptKey

# How long an attempt's first node may need to write that it has begun.
PATIENCE_S = 120.0
# Two nodes' clocks differ by less, where NTP keeps them.
_SAME_S = 1.0
_VARIABLES = ("SLURM_JOB_RESTART_COUNT", "SLURM_RESTART_COUNT")


class Candidates(NamedTuple):
    """The attempts of which it is the end of one."""

    before: AttemptKey
    named: AttemptKey


def candidates(key: AttemptKey, spool: Spooled) -> Candidates | None:
    """Of what the spool has of an attempt, if that is an epilog alone; None where there is more, and where it names the
    first attempt, which comes after none."""
    if not spool.messages or spool.damaged or any(message.kind != "epilog" for message in spool.messages):
        return None
    told = wire.variables(spool.messages[0].fields.get("environment", b""), *_VARIABLES)
    counts = [told[name] for name in _VARIABLES if re.fullmatch("[0-9]{1,10}", told.get(name, ""))]
    named = int(counts[0]) if counts else 0
    return Candidates(AttemptKey(key.job_id, named - 1), AttemptKey(key.job_id, named)) if named else None


def ended(of: Candidates, folded: Folded, archive: Path, ownership: Ownership) -> AttemptKey | None:
    """The attempt that it ended; None while nothing tells. `folded`: the epilog. Raises OSError."""
    node, at_s = folded.node.node, folded.node.end_s
    if at_s is None:
        return None
    with Directory.top(archive, Writer(node, ownership)) as top:
        cluster = top.existing(folded.cluster)
        if cluster is None:
            return None
        with cluster:
            before, named = (
                _told(cluster, place.Attempt(key, folded.uid, at_s, begins=False, leads=False), node) for key in of
            )
    if before.part is not None and before.part.boot_id != folded.node.boot_id:
        before = before._replace(part=None)  # a slurmd that has just booted may run an epilog once more
    is_earlier = _is_earlier(at_s, before, named)
    return None if is_earlier is None else of.before if is_earlier else of.named


class _Told(NamedTuple):
    """What a record tells: the attempt's times, as its first node has written them, and this node's part."""

    start_s: float | None = None
    end_s: float | None = None
    part: NodeRecord | None = None


def _is_earlier(at_s: float, before: _Told, named: _Told) -> bool | None:
    if before.part is not None and before.part.end_s is not None and _has_epilog(before.part):
        return at_s <= before.part.end_s + _SAME_S  # it is this very one; or else another attempt's
    if named.start_s is not None:
        between = before.end_s is not None and before.end_s < named.start_s
        return at_s < ((before.end_s or 0.0) + named.start_s) / 2 if between else at_s < named.start_s
    if before.end_s is not None and at_s <= before.end_s + _SAME_S:
        return True
    return None


def _has_epilog(part: NodeRecord) -> bool:
    return part.state == "ended" and not any(one.what == "epilog" for one in part.missing)


def _told(cluster: Directory, attempt: place.Attempt, node: str) -> _Told:
    record = place.existing_record(cluster, attempt)
    if record is None:
        return _Told()
    with record:
        manifest = place.manifest_in(record)
        _, start_s, end_s = place.told_by(record)
        nodes = record.existing(NODES)
        if nodes is None:
            return _Told(start_s, end_s)
        with nodes:
            if manifest is not None and (lead := place.node_in(nodes, manifest.lead_node)) is not None:
                end_s = lead.end_s  # of its epilog: that of the manifest is the job's own, before all epilogs
            return _Told(start_s, end_s, place.node_in(nodes, node))
