# SPDX-License-Identifier: Apache-2.0
"""Which devices the PCI bus has, whether a driver has taken them or not. Numbers are those of the PCI ID repository."""

from __future__ import annotations

from typing import NamedTuple

from stepguard.health.probes.files import Tree

NVIDIA, AMD, AMAZON, MELLANOX = "0x10de", "0x1002", "0x1d0f", "0x15b3"
_DEVICES = "/sys/bus/pci/devices"
# A display controller other than VGA, as AMD's Instinct MI200 is, and a processing accelerator, as MI300 is.
_ACCELERATORS = ("0x0380", "0x1200")
_EFA = frozenset({"0xefa0", "0xefa1", "0xefa2", "0xefa3"})
# Inferentia 1, Trainium 1, Inferentia 2, Trainium 2 and 3.
_NEURON = frozenset({"0x7064", "0x7065", "0x7066", "0x7067", "0x7164", "0x7264", "0x7364", "0x7564"})


class Device(NamedTuple):
    """`kind` is the class code, 0x120000."""

    address: str
    vendor: str
    device: str
    kind: str


def devices(tree: Tree, vendor: str) -> list[Device]:
    """Those of a vendor."""
    found = []
    for address in tree.names(_DEVICES):
        if tree.text(f"{_DEVICES}/{address}/vendor") == vendor:
            number, kind = (tree.text(f"{_DEVICES}/{address}/{name}") or "" for name in ("device", "class"))
            found.append(Device(address, vendor, number, kind))
    return found


def amd_gpus(tree: Tree) -> list[Device]:
    """AMD's accelerators; not the graphics of a CPU or a desktop."""
    return [one for one in devices(tree, AMD) if one.kind.startswith(_ACCELERATORS)]


def nvidia_gpus(tree: Tree) -> list[Device]:
    """NVIDIA's GPUs, with a display or without."""
    return [one for one in devices(tree, NVIDIA) if one.kind.startswith(("0x0300", "0x0302"))]


def efa(tree: Tree) -> list[Device]:
    """Amazon's Elastic Fabric Adapters."""
    return [one for one in devices(tree, AMAZON) if one.device in _EFA]


def neuron(tree: Tree) -> list[Device]:
    """Amazon's Inferentia and Trainium."""
    return [one for one in devices(tree, AMAZON) if one.device in _NEURON]
