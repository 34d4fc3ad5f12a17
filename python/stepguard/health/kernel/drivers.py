# SPDX-License-Identifier: Apache-2.0
"""A device that its driver could not take, in the words of the kernel's driver core, the same for all drivers.

    nvidia: probe of 0000:41:00.0 failed with error -1
    mlx5_core 0000:18:00.0: probe with driver mlx5_core failed with error -16             since 6.11

call_driver_probe in drivers/base/dd.c. It is silent where the driver says that the device is not for it (-ENODEV,
-ENXIO), and where it will try again (-EPROBE_DEFER).
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.sighting import PCI, Sighting, by_catalogue, pci_address

# The drivers of what a node is for, and the source that their devices' faults have. Others, as sound, USB and the
# network for administrators, may fail or be switched off.
SOURCES = {
    "nvidia": "xid",
    "amdgpu": "amdgpu",
    "neuron": "neuron",
    "nvme": "nvme",
    "efa": "efa",
    **dict.fromkeys(("nvidia-nvswitch", "mlx4_core", "mlx5_core", "bnxt_en", "hfi1", "ice", "ionic", "irdma"), "link"),
}
_DRIVER = "(?P<driver>" + "|".join(SOURCES) + ")"
_NOT_TAKEN = re.compile(
    rf"(?:{_DRIVER}: probe of (?P<device>{PCI})"
    rf"|[\w-]{{1,32}} (?P<named>{PCI}): probe with driver (?P<by>[\w-]{{1,32}}))"
    r" failed with error -\d{1,4}$"
)


def not_taken(text: str, catalogue: Catalogue) -> list[Sighting]:
    """The device that a line says no driver has."""
    found = _NOT_TAKEN.match(text)
    source = SOURCES.get(found["driver"] or found["by"]) if found else None
    if not found or not source:
        return []
    return [by_catalogue(catalogue, source, "probe-failed", pci_address(found["device"] or found["named"]))]
