# SPDX-License-Identifier: Apache-2.0
"""Amazon's devices: the EFA adapter and Neuron accelerators.

    efa 0000:00:06.0 rdmap0s6: The device didn't send any completion for admin cmd CREATE_QP(1) status 0 (…
    infiniband efa_0: Failed to process command CREATE_CQ (opcode 4) err -12
    neuron:nr_reset_thread_fn: nd3: reset request 4711 failed
    neuron:ndma_memcpy_wait_for_completion: DMA completion timeout for UDMA_ENG_33 q0

The driver says also what it retries; a row of the catalogue says how grave each is. `NEURON_HW_ERR=…` is none of its
words: programs have it printed (NEURON_IOCTL_PRINTK). What the hardware counts, the probe reads.
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.sighting import PCI, Sighting, by_catalogue, pci_address

_EFA = re.compile(
    rf"(?:efa (?P<pci>{PCI})(?:[: ] ?(?P<name>[\w-]{{1,32}}))?|infiniband (?P<ib>(?:efa_|rdmap)[\w-]{{1,24}})): "
    r"(?P<text>.{1,256})"
)
_NEURON = re.compile(r"neuron:[a-z_]\w{1,63}: (?P<text>.{1,512})")
_NEURON_DEVICE = re.compile(r"\bnd ?(?P<index>\d{1,3})\b|\bneuron(?P<number>\d{1,3})\b")


def _table(*rows: tuple[str, str]) -> list[tuple[str, re.Pattern[str]]]:
    return [(code, re.compile(pattern)) for code, pattern in rows]


_EFA_CODES = _table(
    ("timeout", r"The device (?:didn't send any completion|sent a completion but)|.{0,48}[Tt]im(?:eout|ed out)"),
    ("reset-failed", r"Failed to reset|.{0,32}[Rr]eset .{0,32}failed|Device (?:isn't|not) ready"),
    ("command-failed", r"Failed to |Failed command|.{0,32}command .{0,48}(?:failed|err)"),
)
_NEURON_CODES = _table(
    ("reset-failed", r"(?:nd ?\d{1,3}: )?reset request \d{1,10} (?:failed|was initiated, but failed)"),
    ("reset-failed", r"(?:nd ?\d{1,3}: )?(?:reset failed|[Ff]ailed to reset)"),
    ("timeout", r".{0,128}(?:completion timeout|timed out|read timeout)"),
)


def efa(text: str, catalogue: Catalogue) -> list[Sighting]:
    """What the EFA driver complains of."""
    found = _EFA.match(text)
    if not found:
        return []
    device = found["name"] or found["ib"] or pci_address(found["pci"])
    for code, pattern in _EFA_CODES:
        if pattern.match(found["text"]):
            return [by_catalogue(catalogue, "efa", code, device)]
    return []


def neuron(text: str, catalogue: Catalogue) -> list[Sighting]:
    """What the Neuron driver complains of."""
    found = _NEURON.match(text)
    if not found:
        return []
    for code, pattern in _NEURON_CODES:
        if pattern.match(found["text"]):
            named = _NEURON_DEVICE.search(found["text"])
            index = (named["index"] or named["number"]) if named else ""
            return [by_catalogue(catalogue, "neuron", code, f"neuron{index}" if index else "")]
    return []
