# SPDX-License-Identifier: Apache-2.0
"""The kernel hangs, has stopped or stops: hung tasks, lockups, RCU stalls, oopses, panics, heat.

The device is the processor (cpu3) or the task's name; a task may call itself anything, within 15 bytes.

What a hung task waits for stands in the lines behind it (sched_show_task in kernel/sched/core.c), each in lines of the
kernel's own: a function of NVIDIA's driver, or that it is a thread of that driver, for whose parent is 2, kthreadd.

    INFO: task nvidia-smi:88123 blocked for more than 241 seconds.
    task:nv_queue        state:D stack:    0 pid: 1212 ppid:     2 flags:0x00004000
     os_acquire_rwlock_write+0x35/0x50 [nvidia]
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.sighting import Sighting, by_catalogue

HUNG_TASK = "hung-task"
_HUNG = re.compile(
    r"INFO: task (?P<task>.{1,32}):\d{1,10} blocked (?:in I/O wait )?for more than \d{1,6} seconds", re.DOTALL
)
# A frame with the module that it is in. One behind "? " is what was left on the stack.
_FRAME = re.compile(r" ?[\w.]{1,128}\+0x[0-9a-f]{1,8}/0x[0-9a-f]{1,8} \[(?P<module>\w{1,64})(?: [0-9a-f]{40})?\]\s*$")
_THREAD = re.compile(r"task:(?:nv_\w{1,12}|nvidia-modeset/?|UVM [\w() -]{1,11}) +state:D .{0,48}\bppid: {0,8}2 ")
_LINES_OF_ONE_TASK = 64
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
        return [by_catalogue(catalogue, "lockup", HUNG_TASK, found["task"])]
    for code, pattern in _PATTERNS:
        if found := pattern.match(text):
            cpu = found.groupdict().get("cpu")
            return [by_catalogue(catalogue, "lockup", code, f"cpu{cpu}" if cpu else "")]
    return []


class HungTasks:
    """What hung tasks wait for, by the lines behind. `line`: its number."""

    def __init__(self) -> None:
        self._task, self._line = "", 0

    def begins(self, task: str, line: int) -> None:
        """A line has told that a task hangs."""
        self._task, self._line = task, line

    def waits_for(self, text: str, line: int, catalogue: Catalogue) -> list[Sighting]:
        """The hung task, where a line behind says that it is in NVIDIA's driver, or that its innermost module is."""
        if not self._task or line - self._line > _LINES_OF_ONE_TASK:
            return []
        frame = _FRAME.match(text)
        if not frame and not _THREAD.match(text):
            return []
        task, self._task = self._task, ""
        is_in_driver = frame is None or frame["module"].startswith("nvidia")
        return [by_catalogue(catalogue, "lockup", "hung-in-driver", task)] if is_in_driver else []
