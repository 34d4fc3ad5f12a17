# SPDX-License-Identifier: Apache-2.0
"""One name for a GPU that sources call by its UUID, or by its PCI address in several forms."""

from __future__ import annotations

import re
from collections.abc import Mapping

# 0000:0f:00, 0000:0F:00.0, and NVML's 00000000:0F:00.0.
_PCI = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?", re.IGNORECASE)
_UUIDS = ("GPU-", "MIG-")


def pci_address(text: str) -> str:
    """The address as domain:bus:device, 0000:0f:00; the text as it is where it is no PCI address."""
    found = _PCI.fullmatch(text)
    if found is None:
        return text
    domain = (found[1] or "0").lstrip("0").rjust(4, "0")
    return f"{domain}:{found[2]}:{found[3]}".lower()


class Gpus:
    """The GPUs that the node has, or had: UUID → PCI address. The UUID of a MIG device may stand for its GPU's."""

    def __init__(self, addresses: Mapping[str, str] | None = None) -> None:
        self.addresses = {uuid: pci_address(address) for uuid, address in (addresses or {}).items()}

    def name(self, device: str) -> str:
        """The one name: the PCI address where it is known, else what it is called."""
        return self.addresses.get(device) or pci_address(device)

    def is_gpu(self, device: str) -> bool:
        """Whether the device is a GPU, as far as its name and what is known tell."""
        return device.startswith(_UUIDS) or pci_address(device) in self.addresses.values()

    def learn(self, addresses: Mapping[str, str]) -> set[str]:
        """Takes in what the node has now, and returns the addresses at which there is another GPU than before.

        One that is not among them stays known: it may have fallen off the bus.
        """
        swapped = set[str]()
        for uuid, address in Gpus(addresses).addresses.items():
            if uuid.startswith("MIG-"):
                self.addresses[uuid] = address
                continue
            before = {one for one, at in self.addresses.items() if at == address and not one.startswith("MIG-")}
            if before - {uuid}:
                swapped.add(address)
                self.addresses = {one: at for one, at in self.addresses.items() if at != address}
            self.addresses[uuid] = address
        return swapped
