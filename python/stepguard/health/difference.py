# SPDX-License-Identifier: Apache-2.0
"""What happened to a job's GPUs and to its node between two snapshots. Pure: it asks nobody.

What one of the two does not know is no change: it is told as not known.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stepguard.health.difference_table import COUNTERS, NODE_STATES, PARTS, STATES, Counter, Part
from stepguard.health.model import Action, Finding, Status, worst
from stepguard.health.probes.document import to_finding
from stepguard.health.snapshot import GPU_PROBE, Snapshot

Values = Mapping[str, Any]

_MJ_PER_J, _NS_PER_MS = 1e3, 1e6


class Kind(enum.StrEnum):
    """What happened. RESET: a counter went down: it began anew in between, and moved by what it has now at least."""

    MOVED = "moved"
    CHANGED = "changed"
    RESET = "reset"
    VANISHED = "vanished"
    UNREAD = "unread"
    NEW = "new"
    SWAPPED = "swapped"
    MIG_VANISHED = "mig-vanished"
    MIG_NEW = "mig-new"
    DEVICE_GONE = "device-gone"
    DEVICE_NEW = "device-new"
    REBOOTED = "rebooted"


_ACTIONS = {Kind.VANISHED: Action.REBOOT, Kind.REBOOTED: Action.NONE}


@dataclass(frozen=True)
class Change:
    """One thing that is not as it was.

    `device`  UUID of the GPU, or the name of another device; "" for the node as a whole
    `what`    the value's path in the snapshot, an NVLink's with its number: nvlink.link_replays.3
    `by`      how much a counter moved; None for what is no counter
    `status`  how bad it is that it happened; OK: it is told, and no more
    """

    kind: Kind
    device: str
    what: str
    before: object
    after: object
    by: float | None = None
    status: Status = Status.OK


@dataclass
class Difference:
    """
    `seconds`       between the two
    `gpus`          how many GPUs both have
    `appeared`      findings that the later has and the earlier has not
    `energy_j`      UUID → used in between, at least, where it was reset; None is not known
    `throttled_ms`  UUID → cause → how long clocks were held down, where they were
    `not_known`     device → paths that one of the two does not know though the other does
    """

    seconds: float
    gpus: int = 0
    changes: list[Change] = field(default_factory=list)
    appeared: list[Finding] = field(default_factory=list)
    energy_j: dict[str, float | None] = field(default_factory=dict)
    throttled_ms: dict[str, dict[str, float]] = field(default_factory=dict)
    not_known: dict[str, list[str]] = field(default_factory=dict)

    @property
    def status(self) -> Status:
        """The worst that happened; UNKNOWN rather than OK where the GPUs of one side are not known."""
        statuses = [one.status for one in self.changes] + [one.status for one in self.appeared]
        return worst([*statuses, Status.UNKNOWN if "gpus" in self.not_known.get("", ()) else Status.OK])

    def findings(self) -> list[Finding]:
        """What of it is bad: the findings that appeared, and the changes that are no mere fact."""
        return self.appeared + [_finding(one) for one in self.changes if one.status is not Status.OK]

    def only_here(self, known: Iterable[Finding]) -> list[Finding]:
        """Counters that moved though they must not, on devices of which nothing that is known says that they failed: no
        later look will tell of it."""
        failed = {one.device for one in known if one.status is Status.FAIL}
        moved = (one for one in self.changes if one.kind is Kind.MOVED and one.status is not Status.OK)
        return [_finding(one) for one in moved if one.device not in failed]

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return {"schema": 1, "status": self.status, **dataclasses.asdict(self)}


def compare(before: Snapshot, after: Snapshot) -> Difference:
    """What happened between the two."""
    rebooted = before["boot_id"] != after["boot_id"]
    clock = "at_s" if rebooted else "uptime_s"
    comparison = _Comparison(Difference(after[clock] - before[clock]))
    if rebooted:
        comparison.add(Kind.REBOOTED, "", "boot_id", before["boot_id"], after["boot_id"], status=Status.WARN)
    for probe, path in NODE_STATES:
        sides = [_at(side["shared"].get(probe), path) for side in (before, after)]
        comparison.state("", f"{probe}.{path}", *sides)
    for part in PARTS:
        comparison.part(part, *(_at(side["shared"].get(part.probe), part.path) for side in (before, after)))
    if before["gpus"] is None or after["gpus"] is None:
        if not (_has_no_gpus(before) and _has_no_gpus(after)):
            comparison.is_not_known("", "gpus")
    else:
        comparison.gpus(before, after)
    known = {(one["device"], one["what"]) for one in before["findings"]}
    comparison.found.appeared = [
        to_finding(one) for one in after["findings"] if (one["device"], one["what"]) not in known
    ]
    return comparison.found


class _Comparison:
    """Fills a Difference."""

    def __init__(self, found: Difference) -> None:
        self.found = found

    def add(
        self,
        kind: Kind,
        device: str,
        what: str,
        before: object,
        after: object,
        by: float | None = None,
        status: Status = Status.OK,
    ) -> None:
        self.found.changes.append(Change(kind, device, what, before, after, by, status))

    def is_not_known(self, device: str, what: str) -> None:
        self.found.not_known.setdefault(device, []).append(what)

    def gpus(self, before: Snapshot, after: Snapshot) -> None:
        was, now = before["gpus"], after["gpus"]
        for uuid in was:
            if uuid in now:
                self.gpu(uuid, was[uuid], now[uuid])
        new = {uuid: gpu for uuid, gpu in now.items() if uuid not in was}
        at = {gpu["pci"]: uuid for uuid, gpu in new.items() if gpu["pci"] is not None}
        for uuid, gpu in was.items():
            if uuid in now:
                continue
            unread, other = _unread(uuid, gpu, after["unread"]), at.get(gpu["pci"])
            if unread is not None:
                self.add(Kind.UNREAD, uuid, "gpu", gpu["pci"], unread["why"], status=Status(unread["status"]))
            elif other is not None:
                self.add(Kind.SWAPPED, uuid, gpu["pci"], uuid, other, status=Status.WARN)
                new.pop(other, None)
            else:
                self.add(Kind.VANISHED, uuid, "gpu", gpu["pci"], None, status=Status.FAIL)
        for uuid, gpu in new.items():
            if _unread(uuid, gpu, before["unread"]) is not None:
                self.is_not_known(uuid, "gpu")
            else:
                self.add(Kind.NEW, uuid, "gpu", None, gpu["pci"])

    def gpu(self, uuid: str, before: Values, after: Values) -> None:
        self.found.gpus += 1
        for counter in COUNTERS:
            self.counter(uuid, counter, _at(before, counter.path), _at(after, counter.path))
        for path in STATES:
            self.state(uuid, path, _at(before, path), _at(after, path))
        self.mig(uuid, _at(before, "mig.devices") or {}, _at(after, "mig.devices") or {})
        energy_mj = self.growth(uuid, "power.energy_mj", _at(before, "power.energy_mj"), _at(after, "power.energy_mj"))
        self.found.energy_j[uuid] = None if energy_mj is None else energy_mj / _MJ_PER_J
        for cause in _at(after, "throttled_ns") or {}:
            path = f"throttled_ns.{cause}"
            time_ns = self.growth(uuid, path, _at(before, path), _at(after, path))
            if time_ns:
                self.found.throttled_ms.setdefault(uuid, {})[cause] = time_ns / _NS_PER_MS

    def part(self, part: Part, before: Values | None, after: Values | None) -> None:
        """Devices of one kind, none of which is a GPU of NVIDIA's."""
        if before is None or after is None:
            if before or after:
                self.is_not_known("", f"{part.probe}.{part.path}")
            return
        for device, was in before.items():
            now = after.get(device)
            if now is None:
                self.add(Kind.DEVICE_GONE, device, f"{part.probe}.{part.path}", device, None, status=part.gone)
                continue
            for counter in part.counters:
                self.counter(device, counter, _at(was, counter.path), _at(now, counter.path))
            for path in part.states:
                self.state(device, path, _at(was, path), _at(now, path))
        for device in after:
            if device not in before:
                self.add(Kind.DEVICE_NEW, device, f"{part.probe}.{part.path}", None, device)

    def counter(self, device: str, counter: Counter, before: object, after: object) -> None:
        if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            for place, (one, other) in enumerate(zip(before, after, strict=True)):
                self.counter(device, Counter(f"{counter.path}.{place}", counter.status), one, other)
            return
        by = self.growth(device, counter.path, before, after)
        if by:
            self.add(Kind.MOVED, device, counter.path, before, after, by, counter.status)

    def growth(self, device: str, what: str, before: object, after: object) -> float | None:
        """How much it grew; None where that is not known. One that went down is told as a reset, and counts from 0."""
        if before is None and after is None:
            return None
        if not isinstance(before, int | float) or not isinstance(after, int | float):
            self.is_not_known(device, what)
            return None
        if after < before:
            self.add(Kind.RESET, device, what, before, after)
            return after
        return after - before

    def state(self, device: str, what: str, before: object, after: object) -> None:
        if before == after:
            return
        if before is None or after is None:
            self.is_not_known(device, what)
        else:
            self.add(Kind.CHANGED, device, what, before, after)

    def mig(self, uuid: str, before: Values, after: Values) -> None:
        for device in before:
            if device not in after:
                self.add(Kind.MIG_VANISHED, uuid, device, before[device], None, status=Status.WARN)
        for device in after:
            if device not in before:
                self.add(Kind.MIG_NEW, uuid, device, None, after[device])


def _finding(one: Change) -> Finding:
    action = _ACTIONS.get(one.kind, Action.CHECK)
    return Finding(one.status, one.device, f"{one.kind}: {one.what}", action, _evidence(one))


def _evidence(change: Change) -> str:
    by = f", moved by {change.by:g}" if change.by is not None else ""
    return f"was {change.before}, is {change.after}{by}"


def _at(values: Any, path: str) -> Any:
    """The value at a path of keys; None where there is none."""
    for key in path.split("."):
        if not isinstance(values, Mapping):
            return None
        values = values.get(key)
    return values


def _has_no_gpus(snapshot: Snapshot) -> bool:
    """Whether the node has none of NVIDIA's, which is known, rather than none that answers."""
    probe = snapshot["probes"].get(GPU_PROBE)
    return snapshot["gpus"] is None and probe is not None and probe["status"] == Status.OK


def _unread(uuid: str, gpu: Values, unread: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The one that did not answer that must be this GPU: a lost one may tell no more than its place."""
    for one in unread:
        if one["device"] == uuid or (one.get("pci") is not None and one["pci"] == gpu["pci"]):
            return one
        if not one.get("pci") and one["index"] is not None and one["index"] == gpu["index"]:
            return one
    return None
