# SPDX-License-Identifier: Apache-2.0
"""A port of an RDMA device, as three tools tell of it, and how it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from stepguard.health.model import DeviceJudgement, Status

# "4: ACTIVE" of ibstatus, "PORT_ACTIVE (4)" of ibv_devinfo, "Active" of ibstat.
# IBTA specification, PortPhysicalState.
_PHYSICAL = frozenset(
    {"", "sleep", "polling", "disabled", "portconfigurationtraining", "linkup", "linkerrorrecovery", "phytest"}
)
_STATE = re.compile(r"(?:\d{1,2}: ?)?(?:PORT_)?([A-Za-z_ ]{1,40})")


@dataclass
class Port:
    """What is not told is "" or None. `group` is what ports of one kind have in common."""

    name: str
    state: str = ""
    physical: str = ""
    rate_gbps: float | None = None
    group: str = ""
    cut: bool = False


def plain(state: str) -> str:
    """A state in lower case without its number: active, down, initializing, linkup, polling, disabled."""
    match = _STATE.match(state.strip())
    return match[1].strip().lower().replace("_", "").replace(" ", "") if match else ""


def judge(ports: Iterable[Port]) -> list[DeviceJudgement]:
    """Each port: fit for use is one that is Active and LinkUp, at the rate of the others of its kind."""
    known = list(ports)
    best: dict[str, float] = {}
    for port in known:
        if port.group and port.rate_gbps is not None and plain(port.state) == "active":
            best[port.group] = max(best.get(port.group, 0), port.rate_gbps)
    return [DeviceJudgement(port.name, *_judge(port, best.get(port.group))) for port in known]


def _judge(port: Port, best_gbps: float | None) -> tuple[Status, str]:
    state, physical = plain(port.state), plain(port.physical)
    said = f"state {port.state.strip()}" + (f", physical state {port.physical.strip()}" if physical else "")
    if physical not in _PHYSICAL:
        return Status.UNKNOWN, said
    if state == "down":
        # Disabled is what an administrator, or the adapter's settings, made of it.
        return (Status.WARN, f"{said}: turned off") if physical == "disabled" else (Status.FAIL, f"{said}: no link")
    if state in ("initializing", "init", "armed"):
        return Status.WARN, f"{said}: no subnet manager has set it up"
    if state != "active":
        return Status.UNKNOWN, said if state else "its state is not told"
    if physical not in ("linkup", ""):
        return Status.WARN, said
    if port.cut:
        return Status.UNKNOWN, "the text ends before all is told of it"
    if best_gbps is not None and port.rate_gbps is not None and port.rate_gbps < best_gbps:
        return Status.WARN, f"rate {port.rate_gbps:g} Gb/s, others of its kind {best_gbps:g} Gb/s"
    return Status.OK, said + (f", rate {port.rate_gbps:g} Gb/s" if port.rate_gbps is not None else "")
