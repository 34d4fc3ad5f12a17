# SPDX-License-Identifier: Apache-2.0
"""What one line tells, before it is counted."""

from __future__ import annotations

import re
from typing import NamedTuple

from stepguard.health.catalogue import XID_154, Catalogue
from stepguard.health.model import Action, FaultClass

PCI = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-9A-Fa-f])?"
_PCI_PARTS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2})(?:\.([0-9a-f]))?")
_SHORT_DOMAIN = 4


class Sighting(NamedTuple):
    """An event of one line.

    `code`      None: the source names none, and `row` is the catalogue's name for it
    `pid`       of the program that it names, for telling one fault from the next; `place`: where on the GPU, "GPC.TPC"
    `is_detail` the line says more of an event that another line names
    `is_overridable`  an XID 154 of the same GPU counts for more; `recovers`: it is such an XID 154
    """

    source: str
    code: int | str | None
    device: str
    fault_class: FaultClass
    action: Action
    pid: str = ""
    is_detail: bool = False
    is_overridable: bool = False
    recovers: bool = False
    row: str = ""
    place: str = ""


def by_catalogue(catalogue: Catalogue, source: str, code: int | str, device: str, is_detail: bool = False) -> Sighting:
    """The sighting of a code, as the catalogue has it."""
    entry = catalogue.lookup(source, code)
    yields = XID_154 in entry.overridden_by
    judged = (entry.fault_class, entry.action)
    return Sighting(source, code, device, *judged, is_detail=is_detail, is_overridable=yields)


def pci_address(text: str) -> str:
    """0000:0f:00 of 0000:0F:00.0, 00000000:0f:00.0 and 0f:00: one name for one device, whoever writes it. A function
    other than 0 stays, for bridges and adapters have several."""
    found = _PCI_PARTS.fullmatch(text.lower())
    if not found:
        return text.lower()
    domain, slot, function = found.groups()
    domain = (domain or "").lstrip("0").rjust(_SHORT_DOMAIN, "0")
    return f"{domain}:{slot}" + (f".{function}" if function and function != "0" else "")
