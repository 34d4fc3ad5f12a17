# SPDX-License-Identifier: Apache-2.0
"""Lines of the kernel that begin with words that a user chose: they tell of no hardware, whatever those words are.

A task calls itself what it likes, within 15 bytes (TASK_COMM_LEN), and a file's name may be 255 bytes long; lines of
the kernel begin with them, and name a file behind them:

    COMM[4711]: segfault at 0 ip … sp … error 4 in FILE[401000+1000]      arch/x86/mm/fault.c
    COMM[4711] bad frame in rt_sigreturn frame:… in FILE[…]               arch/x86/kernel/signal.c
    COMM[4711]: unhandled exception: …, ESR 0x…, in FILE[…]               arch/arm64/kernel/traps.c
    COMM (4711) used greatest stack depth: 12345 bytes left               kernel/exit.c
    COMM invoked oom-killer: gfp_mask=…                                   mm/oom_kill.c
    COMM cpuset=CGROUP mems_allowed=0                                     kernel/cgroup/cpuset.c before 5.0
    COMM: page allocation failure: order:9, mode:0x…(…)                   mm/page_alloc.c
    COMM: vmalloc error: size 4096, …, mode:0x…(…)                        mm/vmalloc.c
    COMM: sending ioctl 5310 to a partition!                              block/ioctl.c
    COMM uses obsolete (PF_INET,SOCK_PACKET)                              net/packet/af_packet.c
    FILE: COMM: potentially unexpected fatal signal 11.                   kernel/signal.c, with print-fatal-signals
    beegfs: COMM(4711): FhgfsOpsHelper: Communication error: …            BeeGFS, and a name comes later
    PREFIX IN=eth0 OUT= MAC=… SRC=… DST=… LEN=84 TOS=0x00 …               net/netfilter, with nf_log_all_netns

The other half of the defence: every pattern of hardware is the driver's own format from the beginning of the line on,
without a gap in which such words could stand. Where a user's words stand further back (`name=` of an XID, the names of
a killed process, of a cgroup, of a client's version), no pattern looks for anything in them.
"""

from __future__ import annotations

import re

# dmesg and syslog daemons write a byte that is not printable as \x1b or #033.
_COMM = r"(?:\\x[0-9a-f]{2}|#[0-7]{3}|.){0,15}?"
# Lines of the kernel's own in which a name stands behind a few words; their patterns are whole.
BEEGFS = r"beegfs: .{1,15}\(\d{1,10}\): "
_NAME_COMES_LATER = rf"(?!INFO: task |(?:mce|MCE): Killing |{BEEGFS})"
_BY_TASK = re.compile(
    rf"{_NAME_COMES_LATER}{_COMM}"
    r"(?:\[\d{1,10}\][: ]| ?\(\d{1,10}\)[: ]|/\d{1,10}: | invoked oom-killer| cpuset=|: page allocation "
    r"|: sending ioctl | uses obsolete |: .{1,200}, mode:0x[0-9a-f]{1,8}\()",
    re.DOTALL,
)
_FATAL_SIGNAL = re.compile(r"potentially unexpected fatal signal \d{1,3}\.\s*$")
_FIREWALL = re.compile(
    r".{0,160}?IN=\S{0,15} OUT=\S{0,15} .{0,200}?(?:SRC=\S{1,45} DST=\S{1,45} LEN=|ARP HTYPE=|MACPROTO=)", re.DOTALL
)


def begins_with_them(text: str) -> bool:
    """Whether the line begins with words of a user."""
    return bool(_BY_TASK.match(text) or _FATAL_SIGNAL.search(text[-80:]) or _FIREWALL.match(text))
