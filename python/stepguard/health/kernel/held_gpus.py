# SPDX-License-Identifier: Apache-2.0
"""GPUs that another driver has when NVIDIA's is loaded, which tells of it in several lines:

    NVRM: GPU 0000:41:00.0 is already bound to nouveau.                 not of older releases
    NVRM: The NVIDIA probe routine was not called for 1 device(s).
    NVRM: No NVIDIA devices probed.                                     where it got no other

The first names the GPU, and whether it was given to a virtual machine (vfio), which is right. Only where no such line
comes before it, the last means that the node has no GPU.
Facts: kernel-open/nvidia of open-gpu-kernel-modules (nv.c, nv-pci.c).
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.sighting import PCI, Sighting, by_catalogue, pci_address

_HELD, _GIVEN, NONE_FOUND = "held", "given-away", "none-found"
_BOUND = re.compile(rf"NVRM: GPU (?P<device>{PCI}) is already bound to (?P<driver>[\w-]{{1,64}})")
_GIVES = re.compile(r"\w{0,48}vfio[_-]pci|pci-stub|(?:xen-)?pciback")
_NOT_CALLED = re.compile(r"NVRM: The NVIDIA probe routine was not called for \d{1,4} device")
# With what the driver advises, each of its lines for itself.
_LINES_OF_ONE_LOADING = 12


def held(text: str, catalogue: Catalogue) -> list[Sighting]:
    """The GPU that a line says another driver has; one without an address where it does not say which."""
    if found := _BOUND.match(text):
        code = _GIVEN if _GIVES.fullmatch(found["driver"]) else _HELD
        return [by_catalogue(catalogue, "xid", code, pci_address(found["device"]))]
    return [by_catalogue(catalogue, "xid", _HELD, "")] if _NOT_CALLED.match(text) else []


class HeldGpus:
    """Puts together what those lines tell."""

    def __init__(self) -> None:
        self._last: Sighting | None = None
        self._line = 0

    def told(self, sighting: Sighting, line: int) -> Sighting:
        """What a sighting of the source "xid" is, behind those before it; `line` is its number."""
        is_of_them = sighting.code in (_HELD, _GIVEN)
        if not is_of_them and sighting.code != NONE_FOUND:
            return sighting
        if not sighting.device and self._last and line - self._line < _LINES_OF_ONE_LOADING:
            return self._last._replace(is_detail=True)
        if is_of_them:
            self._last, self._line = sighting, line
        return sighting
