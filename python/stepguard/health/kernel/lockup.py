# SPDX-License-Identifier: Apache-2.0
"""The kernel hangs, has stopped or stops: hung tasks, lockups, RCU stalls, oopses, panics, heat.

The device is the processor (cpu3) or the task's name; a task may call itself anything, within 15 bytes.
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.sighting import Sighting, by_catalogue

_HUNG = re.compile(
    r"INFO: task (?P<task>.{1,32}):\d{1,10} blocked (?:in I/O wait )?for more than \d{1,6} seconds", re.DOTALL
)
_WATCHDOG = r"(?:NMI )?(?:watchdog: )?"
_ADDRESS = r"(?:, [\w -]{1,64} address 0x[0-9a-f]{1,16})?"
_FAULT = rf"[a-z][a-z -]{{1,48}}{_ADDRESS}: "
_DIED = r"[0-9a-f]{4,16} \[#\d{1,6}\](?: [A-Z]|$)"
_PATTERNS = [
    (code, re.compile(pattern))
    for code, pattern in (
        ("soft-lockup", _WATCHDOG + r"BUG: soft lockup - CPU#(?P<cpu>\d{1,5}) stuck for "),
        ("hard-lockup", _WATCHDOG + r"(?:CPU\d{1,5}: )?Watchdog detected hard LOCKUP on cpu ?(?P<cpu>\d{0,5})"),
        ("rcu-stall", r"(?:rcu: )?INFO: \w{1,24} (?:self-)?detected (?:expedited )?stalls? on "),
        ("oops", r"BUG: unable to handle |BUG: kernel NULL pointer|kernel BUG at [^\s:\[]{1,200}:\d{1,6}!"),
        # Before 6.9 without "Oops: " before the fault's name.
        ("oops", rf"Oops: (?:Oops: |{_FAULT})?{_DIED}|general protection fault{_ADDRESS}: {_DIED}"),
        # mm/page_alloc.c, mm/memory.c: the page is used no more, and the kernel runs on.
        ("bad-page", r"BUG: Bad page (?:state|map) in process "),
        # thermal_zone_device_critical, drivers/thermal/thermal_core.c; before 5.11 without the zone's kind.
        ("overheated", r"thermal thermal_zone\d{1,4}: (?:[\w.@-]{1,32}: )?critical temperature reached"),
        ("panic", r"Kernel panic - not syncing"),
    )
]


def lockups(text: str, catalogue: Catalogue) -> list[Sighting]:
    """What hangs, by a line."""
    if found := _HUNG.match(text):
        return [by_catalogue(catalogue, "lockup", "hung-task", found["task"])]
    for code, pattern in _PATTERNS:
        if found := pattern.match(text):
            cpu = found.groupdict().get("cpu")
            return [by_catalogue(catalogue, "lockup", code, f"cpu{cpu}" if cpu else "")]
    return []
