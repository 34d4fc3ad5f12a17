# SPDX-License-Identifier: Apache-2.0
"""PCIe's error reporting (AER), by the root port and by the device's own report; and by firmware first (GHES).

    pcieport 0000:00:01.0: AER: Corrected error received: 0000:0f:00.0
    pcieport 0000:00:01.0: AER: Multiple Uncorrectable (Fatal) error message received from 0000:0f:00.0      since 6.10
    nvidia 0000:0f:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)     more of the same
    nvidia 0000:0f:00.0: AER: can't recover (no error_detected callback)
    nvidia 0000:0f:00.0: AER: aer_uncor_severity: 0x00062030                      firmware first
    nvidia 0000:0f:00.0: Unable to change power state from D3cold to D0, device inaccessible
    nvidia 0000:0f:00.0: Refused to change power state, currently in D3        older kernels
    nvidia 0000:0f:00.0: not ready 65535ms after FLR; giving up

    pcieport 0000:00:01.0: DPC: containment event, status:0x200d, ERR_FATAL received from 0000:0f:00.0
    pcieport 0000:00:01.0: pciehp: Slot(8): Link Down
    pcieport 0000:00:01.0: pciehp: Slot(8): Card not present

Lines of the second form count only where none of the first tells of the same device.
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.drivers import SOURCES
from stepguard.health.kernel.sighting import PCI, Sighting, by_catalogue, pci_address

_SEVERITY = r"(?P<severity>Correct\w{2,4}|Uncorrect\w{2,4} \((?:Non-)?Fatal\))"
_FROM = re.compile(
    rf"[\w-]{{1,32}} (?P<port>{PCI}): (?:AER: )?(?:Multiple )?{_SEVERITY}"
    rf" error (?:message )?received(?:: | from )(?:(?P<device>{PCI})|id=[0-9a-f]{{4}})?"
)
_OWN = re.compile(rf"[\w-]{{1,32}} (?P<device>{PCI}): (?:AER: )?PCIe Bus Error: severity={_SEVERITY}")
_FAILED = re.compile(rf"[\w-]{{1,32}} (?P<device>{PCI}): AER: (?:can't recover|[Dd]evice recovery failed)")

# pci_print_aer has it of uncorrected errors alone, which the kernel goes on to recover from.
_BY_FIRMWARE = re.compile(rf"[\w-]{{1,32}} (?P<device>{PCI}): AER: aer_uncor_severity: 0x")
# Of what a node is for, and lends to a virtual machine. Others, as sound and USB, may be switched off.
_DRIVERS = (*SOURCES, "vfio-pci", "habanalabs", "i40e", "ixgbe", "igb", "igc", "tg3", "qede", "ena")
_OURS = rf"(?:{'|'.join(_DRIVERS)}) (?P<device>{PCI}): "
# pci_power_up and pci_set_low_power_state, drivers/pci/pci.c. One that stays in D0, switched on, does no harm.
_INACCESSIBLE = re.compile(
    _OURS + r"(?:(?:Unable to|can't) change power state from \S{1,16} to \S{1,16}"
    r"(?:, device| \(config space) inaccessible"
    r"|[Rr]efused to change power state(?:, currently in D3| \(currently D3| from D3\w{0,4} to D0))"
)
# pci_dev_wait, after a minute: of a reset (FLR, bus reset, pm), or when the port contained an error (DPC).
_NOT_READY = re.compile(_OURS + r"not ready \d{1,7}ms after [\w >-]{1,32}; giving up")
# What the IOMMU refused, drivers/iommu/amd/iommu.c; a device that it does not know by its driver comes within.
_DMA_FAULT = re.compile(_OURS + r"AMD-Vi: Event logged \[IO_PAGE_FAULT domain=")
_DMA_FAULT_OF_ONE = re.compile(rf"AMD-Vi: Event logged \[IO_PAGE_FAULT device=(?P<device>{PCI}) domain=")

_CONTAINED = re.compile(
    rf"pcieport (?P<port>{PCI}): DPC: containment event(?:.{{0,64}} received from (?P<device>{PCI}))?"
)
# Not "Link Down/Up ignored", which is a reset that went well.
_CARD_GONE = re.compile(rf"pcieport (?P<port>{PCI}): pciehp: Slot\([\w-]{{1,16}}\): (?:Link Down$|Card not present)")


def errors(text: str, catalogue: Catalogue) -> list[Sighting]:
    """The PCIe error of a line."""
    if found := _FROM.match(text):
        device = found["device"] or found["port"]
        return [by_catalogue(catalogue, "aer", _code(found["severity"]), pci_address(device))]
    if found := _OWN.match(text):
        return [by_catalogue(catalogue, "aer", _code(found["severity"]), pci_address(found["device"]), is_detail=True)]
    if found := _FAILED.match(text):
        return [by_catalogue(catalogue, "aer", "recovery-failed", pci_address(found["device"]))]
    if found := _CONTAINED.match(text):
        return [by_catalogue(catalogue, "aer", "contained", pci_address(found["device"] or found["port"]))]
    if found := _BY_FIRMWARE.match(text):
        return [by_catalogue(catalogue, "aer", "recoverable", pci_address(found["device"]), is_detail=True)]
    if found := _INACCESSIBLE.match(text):
        return [by_catalogue(catalogue, "aer", "inaccessible", pci_address(found["device"]))]
    if found := _NOT_READY.match(text):
        return [by_catalogue(catalogue, "aer", "reset-failed", pci_address(found["device"]))]
    if found := _DMA_FAULT.match(text) or _DMA_FAULT_OF_ONE.match(text):
        return [by_catalogue(catalogue, "aer", "dma-fault", pci_address(found["device"]))]
    if found := _CARD_GONE.match(text):
        return [by_catalogue(catalogue, "aer", "card-gone", pci_address(found["port"]))]
    return []


def _code(severity: str) -> str:
    if severity.startswith("Corr"):
        return "corrected"
    return "uncorrected" if "(Non-Fatal)" in severity else "fatal"
