# SPDX-License-Identifier: Apache-2.0
"""Errors that the firmware reports (ACPI's APEI: GHES, BERT). One record takes several lines, and only all of them
tell: how grave it is, of which part (memory, a processor, PCIe), and for PCIe of which device.

    {1}[Hardware Error]: event severity: recoverable
    {1}[Hardware Error]:  Error 0, type: recoverable
    {1}[Hardware Error]:   section_type: PCIe error
    {1}[Hardware Error]:   device_id: 0000:3a:01.0

    BERT: Error records from previous boot:
    [Hardware Error]: event severity: fatal                  without a number: all that follow are of the boot before

Facts: cper_estatus_print and cper_estatus_print_section in drivers/firmware/efi/cper.c; drivers/acpi/apei/ghes.c
numbers each record, bert.c does not. Of a record's severity and a section's the lesser counts, as ghes.c handles them.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Hashable

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.line import LogLine
from stepguard.health.kernel.sighting import PCI, Sighting, by_catalogue, pci_address

MARK = "[Hardware Error]: "
_LINE = re.compile(
    r"(?P<number>\{\d{1,10}\})?\[Hardware Error\]: {1,3}(?:"
    r"event severity: (?P<of_record>\w{1,16})"
    r"|Error \d{1,5}, type: (?P<of_section>\w{1,16})"
    r"|section[_ ]type: (?P<kind>\w[\w/ ,-]{1,80})"
    rf"|(?:device_id|agent_address): (?P<device>{PCI})"
    r")\s*$"
)
_LEAST_FIRST = ("info", "corrected", "recoverable", "fatal")
# Of a part that is not named here, Linux prints bytes: what they say only the firmware's maker knows.
_KINDS = {
    "general processor error": "mce",
    "ARM processor error": "mce",
    "IA32/X64 processor error": "mce",
    "memory error": "mce",
    "PCIe error": "aer",
    "CXL Protocol Error": "aer",
}
_NAMES_A_DEVICE = "aer"
_CODES = {
    "mce": {"corrected": "corrected", "recoverable": "recoverable", "fatal": "uncorrected"},
    "aer": {"corrected": "corrected", "recoverable": "recoverable", "fatal": "fatal"},
    "": {"recoverable": "firmware", "fatal": "firmware-fatal"},
}
_GRAVE = frozenset({"recoverable", "fatal"})
_MAX_RECORDS = 16


@dataclasses.dataclass
class _Record:
    """A record as far as it has been read. Severities are "" until told. `is_waiting`: its last section, which stood at
    `place`, is not told of yet."""

    of_record: str = ""
    of_section: str = ""
    source: str = ""
    is_waiting: bool = False
    place: LogLine | None = None

    @property
    def severity(self) -> str:
        known = [one for one in (self.of_record, self.of_section) if one in _LEAST_FIRST]
        return min(known, key=_LEAST_FIRST.index, default="")

    def begins(self, source: str, place: LogLine | None) -> None:
        self.source, self.is_waiting, self.place = source, True, place


class FirmwareRecords:
    """Takes the lines of a log that have MARK in them. `witness`: whose words they are. `place`: the line, where
    the caller asks for the `rest`."""

    def __init__(self) -> None:
        self._records: dict[tuple[Hashable, str], _Record] = {}

    def take(self, text: str, witness: Hashable, place: LogLine | None, catalogue: Catalogue) -> list[Sighting]:
        """What the line tells, with those of the same record before it."""
        found = _LINE.match(text)
        if not found:
            return []
        number = found["number"] or ""
        if found["of_record"]:
            self._begin((witness, number), found["of_record"]).begins("", place)
            return []
        record = self._records.get((witness, number)) or self._begin((witness, number), "")
        if found["of_section"]:
            told = self._told(record, number, "", catalogue) if record.of_section else []
            record.of_section = found["of_section"]
            record.begins("", place)
            return told
        if found["kind"]:
            record.begins(_KINDS.get(found["kind"].rstrip(), ""), place)
            return [] if record.source == _NAMES_A_DEVICE else self._told(record, number, "", catalogue)
        return self._told(record, number, pci_address(found["device"]), catalogue)

    def rest(self, catalogue: Catalogue) -> list[tuple[Sighting, LogLine]]:
        """What is known of the records that were cut off, when there are no more lines."""
        records, self._records = self._records, {}
        return [
            (sighting, record.place)
            for (_, number), record in records.items()
            if record.place is not None
            for sighting in self._told(record, number, "", catalogue)
        ]

    def _begin(self, key: tuple[Hashable, str], severity: str) -> _Record:
        self._records.pop(key, None)
        self._records[key] = _Record(severity)
        if len(self._records) > _MAX_RECORDS:
            del self._records[next(iter(self._records))]
        return self._records[key]

    @staticmethod
    def _told(record: _Record, number: str, device: str, catalogue: Catalogue) -> list[Sighting]:
        code = _CODES[record.source].get(record.severity)
        if not record.is_waiting or code is None:
            return []
        record.is_waiting = False
        if not number and record.severity in _GRAVE:
            code = "previous-boot"
        return [by_catalogue(catalogue, record.source or "mce", code, device)]
