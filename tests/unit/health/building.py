# SPDX-License-Identifier: Apache-2.0
"""Nodes and findings as tests of the policy make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from stepguard.config import Health
from stepguard.health.catalogue import shipped, status_of
from stepguard.health.model import Action, Event, FaultClass, Finding, Report, Status, worst
from stepguard.health.policy import NodeHealth, Rules
from stepguard.slurm.records import Node


def node(
    name: str = "n1",
    reason: str = "",
    time_s: int | None = None,
    states: str = "IDLE",
    partitions: tuple[str, ...] = ("main",),
    user: str = "root",
    comment: str = "",
) -> Node:
    """A node as Slurm has it; `states` as scontrol prints them."""
    return Node(
        name=name,
        address=name,
        port=6818,
        states=frozenset(states.split("+")),
        reason=reason,
        boot_time=None,
        slurmd_start_time=None,
        cpus=8,
        partitions=partitions,
        reason_user=user if reason else "",
        reason_time=time_s,
        comment=comment,
    )


@dataclass(frozen=True)
class Repeats:
    """`count` times within `within_s`, and it is this."""

    count: int
    within_s: float
    fault_class: FaultClass
    action: Action


class Row(NamedTuple):
    """A row of the catalogue, as far as the policy looks at it."""

    repeats: Repeats | None = None
    overridden_by: tuple[str, ...] = ()


APPLICATION = Row(Repeats(5, 86400, FaultClass.HARDWARE_RESET, Action.RESET_GPU))
ROWS = {13: APPLICATION, 31: APPLICATION, 48: Row(None, ("xid-154",)), 79: Row(None, ("xid-154",))}


def lookup(source: str, code: int | str) -> Row:
    """A small catalogue."""
    return ROWS.get(code, Row()) if source == "xid" and isinstance(code, int) else Row()


def xid(
    code: int,
    fault_class: FaultClass = FaultClass.HARDWARE_REPLACE,
    action: Action = Action.REPLACE,
    device: str = "0000:0f:00",
    trusted: bool = True,
    text: str = "",
) -> Event:
    """What the kernel says of a GPU."""
    return Event(1, "xid", code, device, fault_class, action, trusted=trusted, text=text or f"Xid {code}")


XID_13 = xid(13, FaultClass.APPLICATION, Action.RESTART_APPLICATION)
XID_48 = xid(48, FaultClass.HARDWARE_RESET, Action.RESET_GPU)
XID_79 = xid(79)


def report(probe: str = "nvml", *findings: Finding, status: Status | None = None, reason: str = "") -> Report:
    """A probe's report; its status is that of the worst finding, where none is given."""
    return Report(probe, status or worst((one.status for one in findings), Status.OK), reason, list(findings))


def finding(
    what: str = "row-remap-failure",
    status: Status = Status.FAIL,
    device: str = "GPU-1",
    action: Action = Action.REPLACE,
    evidence: str = "failed: 1",
) -> Finding:
    """Something that a probe found."""
    return Finding(status, device, what, action, evidence)


RULES = Rules.of(Health(), lookup, status_of)
SHIPPED = Rules.of(Health(), shipped().lookup, status_of)
GPU, OTHER = "0000:0f:00", "0000:10:00"
UUIDS = {"GPU-1": "00000000:0F:00.0", "GPU-2": "00000000:10:00.0"}


def looked_at(rules: Rules = RULES) -> NodeHealth:
    """A node that a probe has found well."""
    health = NodeHealth(rules, "boot-1")
    health.know_gpus(UUIDS, 0)
    health.add_report(report(), 0)
    return health
