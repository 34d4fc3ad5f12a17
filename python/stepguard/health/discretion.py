# SPDX-License-Identifier: Apache-2.0
"""What of a thing that is wrong all may know: without what a user can choose. Root is told all of it, and the owner of
a job what concerned the job's own GPUs in its time; whoever else asks, Slurm's reasons and comments, and the files that
others may read get what is here. Pure.

A kernel's words hold the names and numbers of programs wherever its driver likes (`comm` of a file system's error, the
task of a lockup), so that those of few sources are passed on: what is left is source, code and device.
"""

from __future__ import annotations

import dataclasses
import re

from stepguard.health.model import Finding, Report, Status
from stepguard.health.probes.report import conclude
from stepguard.health.verdict import Item

# The kernel names no program in these but in an XID, and there as _OF_A_PROGRAM has it.
_PASSED_ON = frozenset({"xid", "sxid", "aer", "mce", "difference"})
# The device is a task; and that of "oom" is a cgroup.
_USERS_DEVICES = frozenset({("lockup", "hung-task"), ("lockup", "hung-in-driver")})
# A name is 15 bytes at most, ", " among them; what can be of it is left out. The address of a fault is the program's.
_OF_A_PROGRAM = re.compile(
    r", pid='?(?:\d{1,10}|<unknown>)'?(?:, name=.{0,15}(?=, |$))?|,? ?\b(?:name=|faulted @ ).*", re.DOTALL
)
# What a probe finds of processes, which it names.
_OF_PROCESSES = {
    "unkillable": "a process was killed and waits for a device",
    "zombies": "many processes have ended and nobody has asked how",
}


def item_for_all(item: Item) -> Item:
    """The item as all may know it."""
    if item.fault_class is None:
        found = finding_for_all(Finding(item.status, item.device, str(item.code), item.action, item.text))
        return dataclasses.replace(item, device=found.device, text=found.evidence)
    device, text = words_for_all(item.source, item.code, item.device, item.text)
    return dataclasses.replace(item, device=device, text=text if item.status is Status.FAIL else "")


def words_for_all(source: str, code: int | str | None, device: str, text: str) -> tuple[str, str]:
    """Device and text of an event, without what a user can choose."""
    if source == "oom" or (source, code) in _USERS_DEVICES:
        device = ""
    return device, _OF_A_PROGRAM.sub("", text) if source in _PASSED_ON and code not in _OF_PROCESSES else ""


def finding_for_all(one: Finding) -> Finding:
    """A probe's finding as all may know it."""
    words = _OF_PROCESSES.get(one.what)
    if words is None or one.status is Status.UNKNOWN:  # then it says why it cannot tell
        return one
    return dataclasses.replace(one, device="", evidence=words)


def reason_for_all(report: Report) -> str:
    """What a probe's report says in short, as all may know it."""
    found = [finding_for_all(one) for one in report.findings]
    return report.reason if found == report.findings else conclude(report.probe, found, report.reason).reason
