# SPDX-License-Identifier: Apache-2.0
"""A line → what it tells.

Of a kernel's lines, few tell anything: a look for beginnings and words that no telling line lacks (`in` of a str, some
40 ns each) comes before any pattern. Every pattern is anchored at the line's beginning and bounded in its repetitions,
so that a line costs time in proportion to its length, and words that a user can get into a line (the name of a task, a
file, a cgroup) do not make an event of their own (see users_words).
"""

from __future__ import annotations

from collections.abc import Callable

from stepguard.health.catalogue import Catalogue, shipped
from stepguard.health.kernel import (
    amazon,
    amd,
    drivers,
    lockup,
    memory,
    network,
    nvidia,
    oom,
    pcie,
    storage,
    users_words,
)
from stepguard.health.kernel.line import LogLine
from stepguard.health.kernel.sighting import Sighting
from stepguard.health.model import Event

_Recognizer = Callable[[str, Catalogue], list[Sighting]]
# What every line of the kind begins with, or else a word that is in it, and who reads such lines; the first that finds
# something counts. One look for all beginnings costs less than one for two words.
_STARTS: tuple[tuple[str, _Recognizer], ...] = (
    ("NVRM: ", nvidia.xids),
    ("Xid (", nvidia.xids),
    ("EDAC ", memory.errors),
    ("Memory failure: ", memory.errors),
    ("mce: ", memory.errors),
    ("pcieport", pcie.errors),
    ("amdgpu", amd.errors),
    ("nfs: ", storage.nfs),
    ("ceph: ", storage.network_file_systems),
    ("rbd: ", storage.network_file_systems),
    ("beegfs: ", storage.network_file_systems),
    ("CIFS", storage.network_file_systems),
    ("Lustre", storage.lustre),
    ("LNet", storage.lustre),
    ("EXT4-fs", storage.file_systems),
    ("XFS (", storage.file_systems),
    ("BTRFS", storage.file_systems),
    ("JBD2", storage.file_systems),
    ("Aborting journal", storage.file_systems),
    ("md/raid", storage.disks),
    ("device-mapper: multipath: ", storage.disks),
    ("mpt2sas_cm", storage.disks),
    ("mpt3sas_cm", storage.disks),
    ("megaraid_sas ", storage.disks),
    ("mlx5_core", network.links),
    ("NETDEV WATCHDOG: ", network.links),
    ("Oops: ", lockup.lockups),
    ("Kernel panic", lockup.lockups),
    ("thermal thermal_zone", lockup.lockups),
    ("general protection", lockup.lockups),
)
_ANY_START = tuple(start for start, _ in _STARTS)
_WORDS: tuple[tuple[str, _Recognizer], ...] = (
    ("SXid", nvidia.sxids),
    ("PCIe Bus Error", pcie.errors),
    ("AER: ", pcie.errors),
    (" error received", pcie.errors),
    ("[Hardware Error]", memory.errors),
    ("oom-kill:", oom.kills),
    ("ut of memory", oom.kills),
    ("Task in /", oom.kills),
    ("power state", pcie.errors),
    ("; giving up", pcie.errors),
    ("AMD-Vi: Event", pcie.errors),
    (" failed with error -", drivers.not_taken),
    ("nvme", storage.disks),
    ("error, dev", storage.disks),
    ("I/O error", storage.disks),
    (": exception Emask", storage.disks),
    (": disable", storage.disks),
    ("efa", amazon.efa),
    ("rdmap", amazon.efa),
    ("euron", amazon.neuron),
    ("ink ", network.links),
    ("TX timeout ", network.links),
    ("blocked ", lockup.lockups),
    ("LOCKUP", lockup.lockups),
    (" stall", lockup.lockups),
    ("BUG", lockup.lockups),
)


def sightings(text: str, catalogue: Catalogue) -> list[Sighting]:
    """What the text of a line tells; mostly nothing."""
    found = _found(text, catalogue)
    return found if found and not users_words.begins_with_them(text) else []


def _found(text: str, catalogue: Catalogue) -> list[Sighting]:
    if text.startswith(_ANY_START):
        for start, recognizer in _STARTS:
            if text.startswith(start) and (found := recognizer(text, catalogue)):
                return found
    for word, recognizer in _WORDS:
        if word in text and (found := recognizer(text, catalogue)):
            return found
    return []


def recognize(line: LogLine, catalogue: Catalogue | None = None) -> list[Event]:
    """The events that a line tells of, each by its own row: what repeats, or what an XID 154 says of it, only more
    lines tell (see fold)."""
    return [event_of(sighting, line) for sighting in sightings(line.text, catalogue or shipped())]


def event_of(sighting: Sighting, line: LogLine) -> Event:
    return Event(
        line=line.number,
        source=sighting.source,
        code=sighting.code,
        device=sighting.device,
        fault_class=sighting.fault_class,
        action=sighting.action,
        trusted=line.is_kernel,
        text=line.text,
        at_s=line.at_s,
        row=sighting.row,
        pid=sighting.pid,
        places=frozenset({sighting.place} if sighting.place else ()),
    )
