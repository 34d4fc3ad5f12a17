# SPDX-License-Identifier: Apache-2.0
"""AWS Neuron devices, by the driver's files under /sys/devices/virtual/neuron_device (Neuron Sysfs User Guide).

Whatever is written to a counter clears it, and what is written to `reset` resets the device: files.Tree, which can only
read, is the one that opens them. Counters begin when the driver is loaded. They are found by their names: driver 2.31
has moved some.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.probes import pci
from stepguard.health.probes.files import Tree
from stepguard.health.probes.report import conclude, unreadable
from stepguard.health.probes.settings import Settings
from stepguard.health.tools.neuron_instances import missing

NAME = "neuron"

_PLACE = "/sys/devices/virtual/neuron_device"
_DMI_PRODUCT = "/sys/devices/virtual/dmi/id/product_name"
_DEVICE = re.compile(r"neuron\d{1,4}")
_CORE = re.compile(r"neuron_core(\d{1,4})")
_OF_DEVICE = ("mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected", "sram_ecc_uncorrected")
_OF_CORE = ("hw_error", "timeout", "failure", "generic_error", "reset_req_count", "reset_fail_count")
_ECC = ("mem_ecc_uncorrected", "sram_ecc_uncorrected")
# Of neither is there a counter in them.
_SKIPPED = frozenset({"memory_usage", "power"})
_MAX_DEPTH = 5
# The first generation tells no ECC errors (driver 2.14.5.0: "on TRN1 and INF2").
_WITHOUT_ECC = frozenset({"v1", "NCv1", "Inferentia"})


class Rule(NamedTuple):
    """A counter that moved since the driver was loaded is a finding."""

    what: str
    status: Status
    action: Action
    counters: tuple[str, ...]
    source: str


RULES = (
    Rule("ecc-uncorrected", Status.FAIL, Action.REPLACE, _ECC, "Neuron Sysfs User Guide: unrepairable"),
    Rule("hw-error", Status.FAIL, Action.REPLACE, ("hw_error",), "NRT_EXEC_HW_ERR_*, Neuron Runtime return codes"),
    Rule("reset-failed", Status.FAIL, Action.REBOOT, ("reset_fail_count",), "aws-neuron-driver, neuron_reset.c"),
    Rule(
        "ecc-repairable",
        Status.WARN,
        Action.RESET_GPU,
        ("mem_ecc_repairable_uncorrected",),
        "Neuron Sysfs User Guide: repairable",
    ),
)


def run(settings: Settings) -> Report:
    """Judges the devices. `values`: `devices` by name, with their counters, those of cores as lists."""
    tree = Tree(settings.root)
    devices = {name: _read(tree, f"{_PLACE}/{name}") for name in tree.directories(_PLACE) if _DEVICE.fullmatch(name)}
    findings = [
        *_count(tree, len(devices)),
        *(finding for name, device in devices.items() for finding in _judge(name, device)),
        *unreadable(tree),
    ]
    if not devices and not findings:
        return Report(NAME, Status.OK, "no Neuron device here", values={"devices": {}})
    return conclude(NAME, findings, f"{len(devices)} Neuron devices, no finding", {"devices": devices})


def _read(tree: Tree, place: str) -> dict[str, Any]:
    print(f"{place} is read", file=sys.stderr, flush=True)  # the last that is heard where a read does not return
    cores = sorted((int(match[1]), match[0]) for name in tree.directories(place) if (match := _CORE.fullmatch(name)))
    of_device = _find(tree, place, frozenset(_OF_DEVICE))
    of_cores = [_find(tree, f"{place}/{core}", frozenset(_OF_CORE)) for _, core in cores]
    return {
        "serial": tree.text(f"{place}/info/serial_number"),
        "architecture": tree.text(f"{place}/info/architecture/arch_type"),
        "name": tree.text(f"{place}/info/architecture/device_name"),
        "cores": tree.number(f"{place}/core_count"),
        "counters": {
            **{name: of_device.get(name) for name in _OF_DEVICE},
            **{name: [core.get(name) for core in of_cores] for name in _OF_CORE},
        },
    }


def _find(tree: Tree, place: str, wanted: frozenset[str], depth: int = 0) -> dict[str, int]:
    """The counters of these names below a directory: each is one, with its sum in `total`."""
    found: dict[str, int] = {}
    for name in tree.directories(place):
        if name in wanted:
            total = tree.number(f"{place}/{name}/total")
            if total is not None:
                found[name] = total
        elif depth < _MAX_DEPTH and name not in _SKIPPED and not _CORE.fullmatch(name):
            found.update(_find(tree, f"{place}/{name}", wanted, depth + 1))
    return found


def _judge(name: str, device: dict[str, Any]) -> Iterator[Finding]:
    counters = device["counters"]
    for rule in RULES:
        told = ", ".join(
            f"{counter} {_told(counters[counter])}" for counter in rule.counters if _sum(counters[counter])
        )
        if told:
            yield Finding(rule.status, name, rule.what, rule.action, told)
    if device["architecture"] not in _WITHOUT_ECC and any(counters[counter] is None for counter in _ECC):
        evidence = "its uncorrected ECC errors are not told"
        yield Finding(Status.UNKNOWN, name, "not-readable", Action.CHECK, evidence)


def _sum(value: int | list[int | None] | None) -> int:
    return sum(one or 0 for one in value) if isinstance(value, list) else value or 0


def _told(value: int | list[int | None] | None) -> str:
    if not isinstance(value, list):
        return str(value)
    return " and ".join(f"{count} of core {core}" for core, count in enumerate(value) if count)


def _count(tree: Tree, seen: int) -> Iterator[Finding]:
    on_bus = len(pci.neuron(tree))
    if seen < on_bus:
        evidence = f"{on_bus} Neuron devices on the PCI bus, the driver has {seen}"
        yield Finding(Status.FAIL, "", "device-count", Action.CHECK, evidence)
    elif seen:
        for remark in missing(tree.text(_DMI_PRODUCT) or "", seen):
            yield Finding(remark.status, "", "device-count", Action.CHECK, remark.reason)
