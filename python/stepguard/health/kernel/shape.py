# SPDX-License-Identifier: Apache-2.0
"""Whether a text is a log, or what a program printed, which may quote one.

A line from a job's output proves nothing: the program may have made it up, or read it elsewhere. So a text is looked at
as a whole first:
- a log: its lines stand in formats of logs, but for what counts for nothing (see around) and one in a hundred, as large
  logs have them. What the kernel wrote in it is trusted.
- an excerpt: no line has a format, and every one begins as lines of the kernel do (somebody pasted `NVRM: Xid …`, or
  `dmesg -t`). It is taken for the kernel's.
- anything else: its events are shown, and none is trusted.
"""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Iterable

from stepguard.health.kernel.around import Around
from stepguard.health.kernel.formats import parse, untagged
from stepguard.health.kernel.journal import begin, begins_docker

_MAX_LINES = 50_000
# Of so many lines of a log one may be damaged, or a program's that was written between.
_LINES_PER_ODD = 100
# Lines of a record of journalctl that takes several, once there is one.
_OF_RECORD = re.compile(r'\s{0,8}(?:[A-Z_][A-Z0-9_]{0,63}(?:=|$)|[{}\]]|"[A-Z_])')
# Of a field whose value, of several lines and no form, comes behind it in an export.
_NAME_ALONE = re.compile(r"[A-Z_][A-Z0-9_]{0,63}$")
# A line of /dev/kmsg that says of which device the record before it is.
OF_KMSG = (" SUBSYSTEM=", " DEVICE=")
_KERNEL_START = re.compile(
    r"NVRM: |Xid \(|nvidia-nvswitch\d|SXid \(|nvidia[ :-]|mlx[45]_|pcieport |AER: |mce: "
    r"|EXT4-fs|XFS \(|BTRFS[: ]|JBD2: |Aborting journal|BERT: |md/raid|ata\d"
    r"|(?:\{\d{1,9}\})?\[Hardware Error\]|EDAC |Memory failure: |nvme |nvme\d|blk_update_request: |print_req_error: "
    r"|I/O error, dev |Buffer I/O error|critical \w{1,10} error, dev |Lustre(?:Error)?: |LNet(?:Error)?: |INFO: task "
    r"|INFO: rcu|watchdog: |NMI watchdog: |rcu: |BUG: |Kernel panic|Call Trace:|oom-kill:|oom_reaper: |Out of memory: "
    r"|Memory cgroup |Killed process |Tasks in /|Task in /|.{1,15} invoked oom-killer|IPv6: ADDRCONF|bond\d{1,3}: |efa "
    r"|(?:lib)?ceph: |rbd: |beegfs: |CIFS:? |NETDEV WATCHDOG: |device-mapper: |mpt[23]sas_|AMD-Vi: "
    r"|thermal thermal_zone|amdgpu |nfs: server |infiniband |neuron[: ]|[\w-]{1,32}: probe of "
    r"|[\w-]{1,32} [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d[: ]"
)


class Shape(enum.Enum):
    """What a text is as a whole."""

    LOG = enum.auto()
    EXCERPT = enum.auto()
    OTHER = enum.auto()


def shape_of(lines: Iterable[str]) -> Shape:
    """As above, by the first 50,000 lines; OTHER where there is nothing but what counts for nothing."""
    formatted = bare = other = 0
    has_records = in_value = False
    around = Around()
    for text in itertools.islice(lines, _MAX_LINES):
        begins_record = begin(0, text) is not None
        has_records = has_records or begins_record
        if begins_record or (has_records and _OF_RECORD.match(text)) or parse(0, text) or _is_json(text):
            formatted += 1
            around.after_log(text)
            in_value = has_records and _NAME_ALONE.match(text) is not None
        elif in_value and text:
            continue
        elif _KERNEL_START.match(untagged(text)):
            bare += 1
            around.after_log(text)
        elif not text.startswith(OF_KMSG) and not around.has(text):
            other += 1
    if formatted and formatted >= bare and formatted >= other * _LINES_PER_ODD:
        return Shape.LOG
    return Shape.EXCERPT if bare and not other and not formatted else Shape.OTHER


def _is_json(text: str) -> bool:
    return text.startswith(("{", "data: {")) and ('"MESSAGE"' in text or begins_docker(text))
