# SPDX-License-Identifier: Apache-2.0
"""Errors of host memory and processors: machine checks and EDAC. What firmware reports first: see firmware.

    mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 7: 8c00004000010091
    mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 4: be00000000800400
    mce: [Hardware Error]: Machine check events logged
    EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (…)
    [Hardware Error]: Corrected error, no action required.                          AMD
    Memory failure: 0x3f0000: recovery action for dirty LRU page: Recovered
    Memory failure: 0x3f0000: Sending SIGBUS to python:4711 due to hardware memory corruption

Where a bank's status is in the line, its bit for "uncorrected" decides. `MCE: Killing COMM:PID due to hardware memory
corruption` is none: any user may have it said of a page that only they call poisoned (UFFDIO_POISON of userfaultfd,
since 6.6), and the kernel tells of a page that really is by the others.
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.sighting import Sighting, by_catalogue

_BANK = re.compile(
    r"(?:mce: )?\[Hardware Error\]: CPU (?P<cpu>\d{1,5}): Machine Check(?P<exception> Exception)?: [0-9a-f]{1,16} "
    r"Bank (?P<bank>\d{1,3}): (?P<status>[0-9a-f]{16})"
)
# Bit 61 of MCi_STATUS: the error was not corrected (Intel SDM 3B, 16.3.2.2; AMD APM 2, 9.3.2.1).
_UNCORRECTED_BIT = 61
_EDAC = re.compile(
    r"EDAC (?P<controller>[A-Za-z]{1,8}\d{1,3}): \d{1,9} (?P<kind>CE|UE) (?:\w[\w ,-]{0,63}? )?on "
    r"(?:(?P<dimm>[\w#:.-]{1,64})|[\w#:. -]{1,128})(?: \(|$)"
)
# mm/memory-failure.c; "Killing" before 6.9.
_OF_A_BAD_PAGE = r"(?:recovery action for |Killing |Sending SIGBUS to |forcibly killing )"
_WORDS = (
    (re.compile(r"mce: \[Hardware Error\]: Machine check events logged"), "corrected", True),
    (re.compile(r"(?:\{\d{1,9}\})?\[Hardware Error\]: (?:\w{1,32} )?Corrected error"), "corrected", True),
    (re.compile(r"(?:\{\d{1,9}\})?\[Hardware Error\]: (?:Deferred|Uncorrected)[, ]"), "uncorrected", True),
    (re.compile(r"mce: Uncorrected hardware memory error"), "uncorrected", False),
    (re.compile(r"Memory failure: 0x[0-9a-f]{1,16}: " + _OF_A_BAD_PAGE), "uncorrected", True),
    (re.compile(r"mce: \[Hardware Error\]: (?:PANIC|Machine check: )"), "uncorrected", True),
)


def errors(text: str, catalogue: Catalogue) -> list[Sighting]:
    """The machine check or memory error of a line."""
    if found := _BANK.match(text):
        is_uncorrected = found["exception"] is not None or int(found["status"], 16) >> _UNCORRECTED_BIT & 1
        device = f"cpu{found['cpu']}-bank{found['bank']}"
        return [by_catalogue(catalogue, "mce", "uncorrected" if is_uncorrected else "corrected", device)]
    if found := _EDAC.match(text):
        device = found["dimm"] or found["controller"].lower()
        return [by_catalogue(catalogue, "mce", "uncorrected" if found["kind"] == "UE" else "corrected", device)]
    for pattern, code, is_detail in _WORDS:
        if pattern.match(text):
            return [by_catalogue(catalogue, "mce", code, "", is_detail)]
    return []
