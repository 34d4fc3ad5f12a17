# SPDX-License-Identifier: Apache-2.0
"""AMD's driver, amdgpu.

    amdgpu 0000:c3:00.0: amdgpu: 2 uncorrectable hardware errors detected in umc block
    amdgpu 0000:c3:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!
    amdgpu 0000:c3:00.0: amdgpu: socket: 0, die: 0 2 new uncorrectable hardware errors detected in umc block
    amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!           a program may have hung the GPU: the driver resets it
    amdgpu 0000:c3:00.0: amdgpu: GPU reset(2) failed
    amdgpu: GPU reset end with ret = -62

`0 uncorrectable …` and `no uncorrectable …` say that all is well. Names of programs stand in other lines
(`Process information: process …`), in which nothing is looked for.
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.sighting import PCI, Sighting, by_catalogue, pci_address

_START = rf"amdgpu(?: (?P<device>{PCI}))?: (?:amdgpu: )?(?:\{{\d{{1,9}}\}})?"
_WHERE = r"(?:socket: \d{1,3},? (?:die|HBM|hbm): \d{1,3},? ?)?"
_PATTERNS = [
    (code, re.compile(rf"{_START}(?:{pattern})"))
    for code, pattern in (
        ("uncorrected", _WHERE + r"(?:[1-9]\d{0,18} )?(?:new )?uncorrectable hardware errors? ?(?:detected|and|\()"),
        ("reset-failed", r"GPU reset(?:\(\d{1,9}\))? failed|GPU reset end with ret = -|GPU Recovery Failed"),
        ("reset", r"GPU reset begin"),
    )
]


def errors(text: str, catalogue: Catalogue) -> list[Sighting]:
    """What the driver complains of."""
    for code, pattern in _PATTERNS:
        if found := pattern.match(text):
            return [by_catalogue(catalogue, "amdgpu", code, pci_address(found["device"]) if found["device"] else "")]
    return []
