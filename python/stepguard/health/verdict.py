# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a node, all sources together. Seconds are those of the caller's clock, which no one sets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stepguard.health.model import Action, FaultClass, Status, worst

_BY_WEIGHT = list(Action)
_BY_SEVERITY = [Status.OK, Status.UNKNOWN, Status.WARN, Status.FAIL]


def weight(action: Action) -> int:
    """A number that is the greater the more is to be done."""
    return _BY_WEIGHT.index(action)


def severity(status: Status) -> int:
    """A number that is the greater the worse it is."""
    return _BY_SEVERITY.index(status)


@dataclass(frozen=True)
class Item:
    """One thing that is wrong, or that cannot be told.

    `source`   of an event its source (xid, …), of a finding its probe
    `code`     of an event its code, of a finding `what`
    `device`   as the source names it; "" for the node as a whole
    `gpu`      the one GPU that it concerns, by its PCI address where that is known; "" for the node
    `since_s`  when it was first seen, or came back after it had been gone; `last_s` when it was seen last
    `count`    how often it happened, or came
    `fault_class`  of an event its class; None of a finding
    """

    source: str
    code: int | str | None
    device: str
    gpu: str
    status: Status
    action: Action
    text: str
    since_s: float
    last_s: float
    count: int
    fault_class: FaultClass | None = None

    @property
    def key(self) -> str:
        """The same for the same thing, over restarts and boots."""
        return "|".join((self.source, str(self.code), self.gpu or self.device, self.status))

    def __str__(self) -> str:
        what = self.source if self.code is None else f"{self.source} {self.code}"
        return f"{what}{f' on {self.device}' if self.device else ''}{f': {self.text}' if self.text else ''}"


@dataclass(frozen=True)
class NodeVerdict:
    """How the node is, what that asks for, and why, the worst first. `action` is that of what has failed, else none."""

    status: Status
    action: Action
    items: tuple[Item, ...]

    def as_record(self) -> dict[str, Any]:
        """For JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> NodeVerdict:
        """What `as_record` gave. Raises KeyError, TypeError or ValueError when it is nothing of the kind."""
        items = tuple(_item(item) for item in record["items"])
        return cls(Status(record["status"]), Action(record["action"]), items)


def _item(record: Mapping[str, Any]) -> Item:
    fault_class = record["fault_class"]
    named = {
        "status": Status(record["status"]),
        "action": Action(record["action"]),
        "fault_class": None if fault_class is None else FaultClass(fault_class),
    }
    return Item(**{**record, **named})


def verdict_of(items: list[Item], is_looked_at: bool) -> NodeVerdict:
    """The verdict on these items. None of them is OK only where something has looked (`is_looked_at`)."""
    ordered = sorted(items, key=lambda item: (-severity(item.status), -weight(item.action), item.since_s, item.key))
    status = worst((item.status for item in items), Status.OK if is_looked_at else Status.UNKNOWN)
    failed = [item.action for item in items if item.status is Status.FAIL]
    return NodeVerdict(status, max(failed, key=weight, default=Action.NONE), tuple(ordered))
