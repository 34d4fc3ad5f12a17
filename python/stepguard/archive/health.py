# SPDX-License-Identifier: Apache-2.0
"""What became of a node's devices during an attempt, out of what the agent told at its end. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepguard.archive.timeline import Event
from stepguard.records import wire
from stepguard.records.health import HealthChange, HealthEvent, HealthRecord
from stepguard.records.manifest import FindingRecord, health_from
from stepguard.records.shape import MalformedRecord

KIND = "job_health"
_BAD = ("fail", "warn")


def told(events: Sequence[Event]) -> HealthRecord | None:
    """What the last look told; None where nobody looked."""
    found = [event for event in events if event.kind == KIND]
    try:
        return health_from(wire.text(found[-1].fields, "record")) if found else None
    except MalformedRecord as error:
        return HealthRecord("unknown", why=f"what the agent told cannot be read: {error}")


def findings(health: HealthRecord, node: str) -> Iterator[FindingRecord]:
    """What of it is bad, for the findings of the job."""
    for event in health.events:
        if event.status in _BAD:
            yield FindingRecord(
                "gpu-event" if event.source == "xid" else "kernel-event",
                event_words(event),
                event.first_s,
                node,
                about=event.device,
            )
    for change in health.changes:
        if change.status in _BAD:
            yield FindingRecord("device-change", change_words(change), None, node, about=change.device)
    for one in health.findings:
        if one.status in _BAD:
            when = "" if one.is_new else ", as it was at the beginning"
            asked = f"; {one.action}" if one.action not in ("", "none") else ""
            text = f"{one.status} {one.device or 'node'}: {one.what}: {one.evidence}{asked}{when}"
            yield FindingRecord("device-finding", text, None, node, about=one.device)


def event_words(event: HealthEvent) -> str:
    """One event in a line."""
    what = f"{event.source} {event.code}".strip()
    where = f" on {event.device}" if event.device else ""
    times = f", {event.count} times" if event.count > 1 else ""
    asked = f", {event.action}" if event.action not in ("", "none") else ""
    text = f": {event.text}" if event.text else ""
    return f"{event.status} {what}{where} ({event.fault_class}{asked}{times}){text}"


_WORDS = {
    "moved": "{what} moved by {by:g}, to {after}",
    "changed": "{what} was {before}, is {after}",
    "reset": "{what} was {before}, is {after}: reset in between",
    "vanished": "the GPU at {before} vanished",
    "unread": "the GPU at {before} does not answer: {after}",
    "new": "a new GPU at {after}",
    "swapped": "another GPU is at {what}: {after}",
    "mig-vanished": "MIG device {what} vanished",
    "mig-new": "MIG device {what} is new",
    "device-gone": "gone",
    "device-new": "new",
    "rebooted": "the node was rebooted in between",
}


def change_words(change: HealthChange) -> str:
    """One change in a line."""
    by = 0.0 if change.by is None else change.by
    words = _WORDS.get(change.kind, "{kind} {what}: was {before}, is {after}")
    text = words.format_map({**vars(change), "by": by})
    status = "" if change.status == "ok" else f"{change.status} "
    return f"{status}{change.device}: {text}" if change.device else f"{status}{text}"
