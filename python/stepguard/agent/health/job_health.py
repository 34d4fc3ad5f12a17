# SPDX-License-Identifier: Apache-2.0
"""What is kept of a node's health in the record of a job: two snapshots, the events between them, the verdict."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

from stepguard.agent.health.event_log import EventLog, Logged
from stepguard.agent.health.job_gpus import Gpus
from stepguard.health.difference import Change, Difference, compare
from stepguard.health.discretion import finding_for_all
from stepguard.health.model import Finding, Status, worst
from stepguard.health.policy import NodeHealth
from stepguard.health.probes.document import to_finding
from stepguard.health.snapshot import Snapshot
from stepguard.health.verdict import NodeVerdict, severity
from stepguard.records.health import (
    SHOWN_MAX,
    TEXT_MAX,
    HealthChange,
    HealthEvent,
    HealthFinding,
    HealthRecord,
)

# The item of a kernel's log that cannot be read is this probe's.
KERNEL_LOG = "kernel-log"
_WORST_FIRST = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.OK)
# A look takes a tenth of that, and more on a node that has just started its jobs.
_LATE_S = 3.0
_T = TypeVar("_T")


class Story(NamedTuple):
    """One attempt on this node, from `begin_s` by CLOCK_BOOTTIME; `reaction`: what was done to the node meanwhile."""

    job_id: int
    begin_s: float
    before: Snapshot | None
    after: Snapshot
    verdict: NodeVerdict
    reaction: str


def told(story: Story, gpus: Gpus, log: EventLog, health: NodeHealth) -> HealthRecord:
    """What a record keeps. `health` is told of what has become worse and what no later look will tell."""
    difference = None if story.before is None else compare(story.before, story.after)
    findings = [to_finding(one) for one in story.after["findings"]]
    if difference is not None:
        health.add_difference(difference.only_here(findings), float(story.after["uptime_s"]))
    own = set() if gpus is None else {health.name(gpu) for gpu in gpus}
    others = set() if gpus is None else health.others(gpus)
    events = [_as_judged(one, story.verdict) for one in log.of(story.job_id, own, others, story.begin_s)]
    return _record(story, _known(story) if gpus is None else gpus, difference, findings, events)


def _as_judged(event: Logged, verdict: NodeVerdict) -> Logged:
    """The event as the verdict has it: one that has come too often is something else than each time by itself."""
    for item in verdict.items:
        is_it = (item.source, item.code) == (event.source, event.code) and event.device in (item.device, item.gpu)
        if is_it and item.fault_class is not None and severity(item.status) > severity(event.status):
            return dataclasses.replace(event, fault_class=item.fault_class, action=item.action)
    return event


def _record(
    story: Story,
    gpus: Sequence[str],
    difference: Difference | None,
    findings: Sequence[Finding],
    events: Sequence[Logged],
) -> HealthRecord:
    """Lists are cut to what a record holds, the worst first."""
    after = story.after
    unknown = [
        f"{name}: {said['reason']}"
        for name, said in after["probes"].items()
        if said["status"] == Status.UNKNOWN and not any(one.status is Status.UNKNOWN for one in findings)
    ]
    # No look tells of it, and what the kernel said of the job's time may be missing.
    unread = (one for one in story.verdict.items if one.source == KERNEL_LOG and one.status is Status.UNKNOWN)
    unknown += [f"{KERNEL_LOG}: {one.text}" for one in unread]
    changes = difference.changes if difference else []
    statuses = [one.status for one in findings] + [one.status for one in changes] + [one.status for one in events]
    statuses += [difference.status] if difference else []
    statuses += [Status.UNKNOWN] if unknown else []
    found = HealthRecord(worst(statuses, Status.OK), story.verdict.action, list(gpus))
    new = {(one.device, one.what) for one in difference.appeared} if difference else set()
    booted_s = float(after["at_s"]) - float(after["uptime_s"])
    found.changes = _kept(found, "changes", [(one.status, _change(one)) for one in changes])
    found.findings = _kept(found, "findings", [(one.status, _finding(one, new)) for one in findings])
    found.events = _kept(found, "events", [(one.status, _event(one, booted_s)) for one in events])
    found.reaction = story.reaction[:TEXT_MAX]
    found.why = "; ".join([*_late(story), *unknown])[:TEXT_MAX]
    if difference is not None:
        _compared(found, difference)
    return found


def _late(story: Story) -> list[str]:
    """What the first look may have missed: an agent that was not there at the beginning looks when it comes."""
    if story.before is None:
        return ["there was no look at its beginning"]
    late_s = float(story.before["uptime_s"]) - story.begin_s
    return [f"the first look was {late_s:.0f} s after its beginning"] if late_s > _LATE_S else []


def _known(story: Story) -> list[str]:
    """The GPUs of either look: one that is lost or hangs in one is told by the other."""
    looks = [look["gpus"] or {} for look in (story.before, story.after) if look is not None]
    return list(dict.fromkeys(uuid for gpus in looks for uuid in gpus))


def _compared(found: HealthRecord, difference: Difference) -> None:
    found.seconds = round(difference.seconds, 3)
    known_j = [joules for joules in difference.energy_j.values() if joules is not None]
    found.energy_j = round(sum(known_j), 3) if known_j else None
    for causes in difference.throttled_ms.values():
        for cause, time_ms in causes.items():
            found.throttled_ms[cause] = round(found.throttled_ms.get(cause, 0.0) + time_ms, 3)
    found.not_known = {device: paths[:SHOWN_MAX] for device, paths in difference.not_known.items()}


def _kept(found: HealthRecord, name: str, told: Sequence[tuple[Status, _T]]) -> list[_T]:
    ordered = sorted(told, key=lambda one: _WORST_FIRST.index(one[0]))  # stable
    if len(ordered) > SHOWN_MAX:
        found.left_out[name] = len(ordered) - SHOWN_MAX
    return [one for _, one in ordered[:SHOWN_MAX]]


def _change(one: Change) -> HealthChange:
    return HealthChange(one.kind, one.device, one.what, _text(one.before), _text(one.after), one.by, one.status)


def _finding(one: Finding, new: set[tuple[str, str]]) -> HealthFinding:
    is_new = (one.device, one.what) in new
    one = finding_for_all(one)
    return HealthFinding(one.status, one.device, one.what, one.action, one.evidence[:TEXT_MAX], is_new)


def _event(one: Logged, booted_s: float) -> HealthEvent:
    code = "" if one.code is None else str(one.code)
    first_s, last_s = booted_s + one.first_s, booted_s + one.last_s
    return HealthEvent(
        one.source, code, one.device, one.fault_class, one.action, one.status, one.count, first_s, last_s, one.text
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return (value if isinstance(value, str) else json.dumps(value))[:TEXT_MAX]
