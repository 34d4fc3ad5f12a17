# SPDX-License-Identifier: Apache-2.0
"""RDMA devices: InfiniBand and RoCE adapters, and Amazon's EFA, by /sys/class/infiniband.

A port that is down and has never been up may be one without a cable, so it warns; the site names those that must be up
in Settings.ports. Counters go on over reboots of some devices: they say something as differences only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from stepguard.errors import ProcessError
from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.probes import memory, pci, program
from stepguard.health.probes.files import Tree
from stepguard.health.probes.report import conclude, of_judgement, unreadable
from stepguard.health.probes.settings import Settings
from stepguard.health.tools import fi_info
from stepguard.health.tools.ib_port import Port, judge, plain
from stepguard.health.tools.values import number

NAME = "infiniband"

_CLASS = "/sys/class/infiniband"
_DMI_PRODUCT = "/sys/devices/virtual/dmi/id/product_name"
_FI_INFO_S = 10.0
# Azure's criterion to return an adapter or a cable: so many losses of the link within so many seconds.
_FLAPS, _FLAPS_WITHIN_S = 3, 3 * 3600.0
# The last two are EFA's.
_OF_A_LINK = ("link_downed", "port_rcv_data", "port_xmit_data", "rx_bytes", "tx_bytes")
# How many EFAs an instance can have (Amazon EC2 user guide, "Elastic Fabric Adapter", network cards of instance types).
_EFA_OF_INSTANCE = {
    "p4d.24xlarge": 4,
    "p4de.24xlarge": 4,
    "p5.48xlarge": 32,
    "p5e.48xlarge": 32,
    "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8,
    "trn1.32xlarge": 8,
    "trn1n.32xlarge": 16,
    "trn2.48xlarge": 16,
}

Ports = dict[str, dict[str, Any]]


def run(settings: Settings) -> Report:
    """Judges ports and adapters. `values`: `ports` by name, mlx5_0/1, and `devices`."""
    tree = Tree(settings.root)
    devices, ports = _read(tree)
    efa = [name for name, device in devices.items() if device["vendor"] == pci.AMAZON]
    findings = [
        *_ports(ports, settings.ports),
        *_flaps(ports, settings.state),
        *_efa(tree, len(efa)),
        *(_fi_info(len(efa)) if efa else ()),
        *unreadable(tree),
    ]
    if not devices and not findings:
        return Report(NAME, Status.OK, "no InfiniBand device and no EFA here", values={"devices": {}, "ports": {}})
    well = f"{len(devices)} devices, {len(ports)} ports, no finding"
    return conclude(NAME, findings, well, {"devices": devices, "ports": ports})


def _read(tree: Tree) -> tuple[dict[str, Any], Ports]:
    devices: dict[str, Any] = {}
    ports: Ports = {}
    for name in tree.names(_CLASS):
        place = f"{_CLASS}/{name}"
        print(f"{place} is read", file=sys.stderr, flush=True)  # the last that is heard where a read does not return
        devices[name] = {
            "vendor": tree.text(f"{place}/device/vendor"),
            "type": tree.text(f"{place}/hca_type"),
            "board": tree.text(f"{place}/board_id"),
            "firmware": tree.text(f"{place}/fw_ver"),
        }
        for port in tree.names(f"{place}/ports"):
            at = f"{place}/ports/{port}"
            ports[f"{name}/{port}"] = {
                "state": plain(tree.text(f"{at}/state") or ""),
                "physical": plain(tree.text(f"{at}/phys_state") or ""),
                "rate_gbps": number(tree.text(f"{at}/rate") or ""),
                "link": tree.text(f"{at}/link_layer"),
                "group": f"{devices[name]['type']} {devices[name]['board']}",
                "counters": _counters(tree, f"{at}/counters"),
                "hw_counters": _counters(tree, f"{at}/hw_counters"),
            }
    return devices, ports


def _counters(tree: Tree, place: str) -> dict[str, int]:
    # `lifespan` is a setting, for how many ms the driver tells the same again.
    told = {name: tree.number(f"{place}/{name}") for name in tree.names(place) if name != "lifespan"}
    return {name: count for name, count in told.items() if count is not None}


def _ports(ports: Ports, must_be_up: tuple[str, ...]) -> Iterator[Finding]:
    known = [
        Port(name, port["state"], port["physical"], port["rate_gbps"], f"{port['group']} {port['link']}")
        for name, port in ports.items()
    ]
    for said in judge(known):
        status = said.status
        if status is Status.OK or (must_be_up and said.device not in must_be_up):
            continue
        why = said.reason
        if status is Status.FAIL and not must_be_up and not _was_up(ports[said.device]):
            status, why = Status.WARN, f"{why}, and it never had one: unused, or it did not come up"
        yield Finding(status, said.device, "port", Action.CHECK, why)
    for name in must_be_up:
        if name not in ports:
            yield Finding(Status.FAIL, name, "port", Action.CHECK, "there is no such port")


def _was_up(port: dict[str, Any]) -> bool:
    """Whether it ever had a link, as far as its counters tell."""
    counters = {**port["counters"], **port["hw_counters"]}
    return any(counters.get(name) for name in _OF_A_LINK)


def _flaps(ports: Ports, state: str | None) -> Iterator[Finding]:
    """By what earlier runs saw; nothing where nothing is remembered."""
    if state is None:
        return
    now_s = memory.now_s()
    kept = memory.load(state, NAME)
    seen: dict[str, list[list[float]]] = {}
    for name, port in ports.items():
        count = port["counters"].get("link_downed")
        if count is None:
            continue
        times = _times(kept.get(name), now_s)
        if not times or times[-1][1] != count:
            times.append([now_s, count])
        seen[name] = times
        # One that went down began anew, at 0.
        moves = [later[1] - earlier[1] if later[1] >= earlier[1] else later[1] for earlier, later in pairwise(times)]
        if sum(moves) >= _FLAPS:
            evidence = f"lost its link {sum(moves):.0f} times within {_FLAPS_WITHIN_S / 3600:.0f} h"
            yield Finding(Status.FAIL, name, "link-downed", Action.CHECK, evidence)
    try:
        memory.save(state, NAME, seen)
    except OSError as error:
        evidence = f"lost links cannot be counted over time: {state}: {error.strerror}"
        yield Finding(Status.UNKNOWN, "", "link-downed", Action.CHECK, evidence)


def _times(kept: object, now_s: float) -> list[list[float]]:
    """What was seen within the time, and the last before it."""
    if not isinstance(kept, list):
        return []
    numbers = [
        [float(one[0]), int(one[1])]
        for one in kept
        if isinstance(one, list) and len(one) == 2 and all(isinstance(part, int | float) for part in one)
    ]
    old = [one for one in numbers if now_s - one[0] > _FLAPS_WITHIN_S]
    return [*old[-1:], *(one for one in numbers if 0 <= now_s - one[0] <= _FLAPS_WITHIN_S)]


def _efa(tree: Tree, seen: int) -> Iterator[Finding]:
    on_bus = len(pci.efa(tree))
    if seen < on_bus:
        evidence = f"{on_bus} EFAs on the PCI bus, {seen} RDMA devices: the driver efa is not loaded, or gave up"
        yield Finding(Status.FAIL, "", "efa-count", Action.CHECK, evidence)
    instance = tree.text(_DMI_PRODUCT) or ""
    possible = _EFA_OF_INSTANCE.get(instance, 0)
    if 0 < on_bus < possible:
        evidence = f"{on_bus} EFAs, {instance} can have {possible}: how it was launched says how many it has"
        yield Finding(Status.WARN, "", "efa-count", Action.CHECK, evidence)


def _fi_info(seen: int) -> Iterator[Finding]:
    """What libfabric sees; nothing where it is not installed."""
    tool = program.find("fi_info")
    if tool is None:
        return
    try:
        output = program.run([tool, "-p", "efa"], _FI_INFO_S)
    except ProcessError as error:
        yield Finding(Status.UNKNOWN, "", "fi_info", Action.CHECK, str(error))
        return
    if output.status is None:
        yield Finding(Status.UNKNOWN, "", "fi_info", Action.CHECK, f"no answer within {_FI_INFO_S:g} s")
        return
    said = fi_info.KIND.read(output.text, output.status)
    yield from of_judgement(said, "fi_info")
    found = sum(one.status is Status.OK for one in said.devices)
    if said.status is Status.OK and found < seen:
        yield Finding(Status.WARN, "", "fi_info", Action.CHECK, f"libfabric has {found} of {seen} EFAs")
