# SPDX-License-Identifier: Apache-2.0
"""Whatever a user calls a task, a file or an interface: lines of the kernel that name it tell of no hardware."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Collection
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepguard.health.catalogue import status_of
from stepguard.health.kernel import LogLine, recognize
from stepguard.health.kernel.oom import job_of
from stepguard.health.model import Event, Status

CORPUS = Path(__file__).parents[3] / "data/health/kernel/lines.toml"
TEXTS = [case["text"] for case in tomllib.loads(CORPUS.read_text())["case"]]
COMM_BYTES, FILE_BYTES, PREFIX_CHARS, VERSION_CHARS = 15, 255, 127, 63

# The kernel's own formats. {c} is a task's name, {f} a file's.
TASK_FIRST = [
    # arch/x86/mm/fault.c, show_signal_msg; arch/x86/kernel/signal.c; arch/x86/kernel/traps.c before its pr_fmt
    "{c}[14143]: segfault at 0 ip 0000000000401136 sp 00007ffd1e8e0ab0 error 6 in {f}[401000+1000]",
    "{c}[1]: segfault at 0 ip 0 sp 0 error 4 in {f}[0+1]",
    "{c}[14143]: segfault at 0 ip 0000000000401136 sp 00007ffd1e8e0ab0 error 6 in {f}[401000+1000] likely on CPU 3 "
    "(core 1, socket 0)",
    "{c}[1] bad frame in rt_sigreturn frame:0 ip:0 sp:0 orax:f in {f}[0+1]",
    "{c}[1] general protection fault ip:0 sp:0 error:0 in {f}[0+1]",
    "{c}[1] trap int3 ip:0 sp:0 error:0 in {f}[0+1]",
    "{c}[1] vsyscall attempted with vsyscall=none ip:0 cs:33 sp:0 ax:0 si:0 di:0",
    "{c}[1]: bad usercopy",
    # arch/arm64/kernel/traps.c, arch/powerpc/kernel/traps.c, arch/riscv/kernel/traps.c
    "{c}[1]: unhandled exception: SP/PC alignment, ESR 0x000000008a000000, in {f}[0+1]",
    "{c}[1]: undefined instruction: pc=0000000000401136",
    "{c}[1]: unhandled signal 11 code 0x1 at 0x0000000000000000 in {f}[0+1]",
    "{c}[1]: segfault (11) at 0 nip 0 lr 0 code 1 in {f}[0+1]",
    # kernel/exit.c, mm/mmap.c, fs/drop_caches.c, mm/mremap.c, fs/proc/base.c, drivers/md/md.c
    "{c} (1) used greatest stack depth: 11432 bytes left",
    "{c} (1): VmData 1 exceed data ulimit 1. Update limits or use boot option ignore_rlimit_data.",
    "{c} (1): drop_caches: 3",
    "{c} (1): attempted to duplicate a private mapping with mremap.  This is not supported.",
    "{c} (1): /proc/1/oom_adj is deprecated, please use /proc/1/oom_score_adj instead.",
    "{c}(1): deprecated ioctl",
    # mm/oom_kill.c, kernel/cgroup/cpuset.c, mm/page_alloc.c (warn_alloc), mm/vmalloc.c; {f} is a cgroup
    "{c} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "{c} cpuset={f} mems_allowed=0",
    "{c}: page allocation failure: order:9, mode:0xcc0(GFP_KERNEL), nodemask=(null),cpuset={f},mems_allowed=0",
    "{c}: page allocation stalls for 10000ms, order:0, mode:0xcc0(GFP_KERNEL), nodemask=(null)",
    "{c}: vmalloc error: size 4096, page order 0, failed to allocate pages, mode:0xcc0(GFP_KERNEL), nodemask=(null),"
    "cpuset={f},mems_allowed=0",
    # block/ioctl.c, net/packet/af_packet.c, kernel/signal.c of old and new
    "{c}: sending ioctl 5310 to a partition!",
    "{c} uses obsolete (PF_INET,SOCK_PACKET)",
    "{c}/1: potentially unexpected fatal signal 11.",
    "{c}: potentially unexpected fatal signal 11.",
    "{f}: {c}: potentially unexpected fatal signal 11.",
]
TASK_LATER = [
    "traps: {c}[1] general protection fault ip:0 sp:0 error:0 in {f}[0+1]",
    "traps: {c}[1] trap divide error ip:0 sp:0 error:0 in {f}[0+1]",
    "beegfs: {c}(1): FhgfsOpsHelper: Communication error: Receive timed out from: beegfs-storage st02 [ID: 2]",
    "BUG: Bad page state in process {c}  pfn:12345",
    "show_signal_msg: 12 callbacks suppressed",
    "umip: {c}[1] ip:0 sp:0: SGDT instruction cannot be used by applications.",
    "x86/split lock detection: #AC: {c}/1 took a split_lock trap at address: 0x0",
    "process '{f}' started with executable stack",
    "process `{c}' is using obsolete setsockopt SO_BSDCOMPAT",
    "capability: warning: `{c}' uses deprecated v2 capabilities in a way that may be insecure",
    "warning: process `{c}' used the deprecated sysctl system call with 1.2.",
    "netlink: 12 bytes leftover after parsing attributes in process `{c}'.",
    'ptrace attach of "{f}"[1] was attempted by "{f}"[2]',
    'audit: type=1701 audit(1.000:1): auid=1 uid=1 gid=1 ses=1 pid=1 comm="{c}" exe="/tmp/{f}" sig=11 res=1',
    "__vm_enough_memory: pid: 1, comm: {c}, bytes: 4096 not enough memory for the allocation",
    "futex_wake_op: {c} tries to shift op by -1; fix this program",
    "mmap: {c} (1): VmData 1 exceed data ulimit 1.",
    "CPU: 3 PID: 1 Comm: {c} Tainted: P           OE      5.15.0-1 #1",
    "[   1234]  1000  1234   100000    50000   500000        0             0 {c}",
    "oom_reaper: reaped process 1 ({c}), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
    "Tasks in /{f} are going to be killed due to memory.oom.group set",
    "memory: usage 1kB, limit 1kB, failcnt 1",
    "Memory cgroup stats for /{f}:",
    "cgroup: fork rejected by pids controller in /{f}",
    "cgroup: Unknown parameter '{f}'",
    "tmpfs: Unknown parameter '{f}'",
    "fuse: Bad value for '{f}'",
    'overlayfs: unrecognized mount option "{f}" or missing value',
    "BTRFS: device label {f} devid 1 transid 5 /dev/loop0 scanned by {c} (1)",
    "EXT4-fs error (device loop0): ext4_lookup:1602: inode #2: comm {c}: deleted inode referenced: 12",
    "EXT4-fs (loop0): Remounting filesystem read-only",
    "Aborting journal on device loop0-8.",
    "XFS (loop3p1): Log I/O Error Detected. Shutting down filesystem",
    "I/O error, dev loop0, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
    "critical medium error, dev loop0, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
    "MCE: Killing {c}:1 due to hardware memory corruption fault at 4631e000",
    "INFO: task {c}:1 blocked for more than 120 seconds.",
    "INFO: task {c}:1 <reader> blocked on an rw-semaphore likely owned by task {c}:2 <writer>",
    "Memory cgroup out of memory: Killed process 1 ({c}) total-vm:1kB, anon-rss:1kB, file-rss:0kB, UID:1000",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset={f},mems_allowed=0,oom_memcg=/a/{f},"
    "task_memcg=/a/{f},task={c},pid=1,uid=1000",
    "amdgpu 0000:c3:00.0: amdgpu: Process information: process {c} pid 1 thread {c} pid 2",
    "amdgpu 0000:c3:00.0: amdgpu:  Process {c} pid 1 thread {c} pid 2",
    "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process {c} pid 1 thread {c} pid 2",
    "NVRM: API mismatch: the client '{c}' (pid 1)",
    "nfs: server {f} not responding, still trying",
    "usb 1-1: Product: {f}",
    "input: {f} as /devices/virtual/input/input5",
    # drivers/net: an interface is called what its owner likes, {i}, in their own network namespace too
    "{i}: entered promiscuous mode",
    "{i}: (slave {i}): Enslaving as an active interface with an up link",
    "{i}: (slave {i}): link status definitely down, disabling slave",
    "{i}: port 1({i}) entered blocking state",
    "{i}: Device {i} failed to register rx_handler",
    "{i}: renamed from {i}",
    "IPv6: ADDRCONF(NETDEV_CHANGE): {i}: link becomes ready",
]
# A text of the user's, of that many characters, and where the kernel puts it.
LONG = [
    (PREFIX_CHARS, "{t}IN=eth0 OUT= MAC=00:00 SRC=10.0.0.1 DST=10.0.0.2 LEN=84 TOS=0x00 PREC=0x00"),
    (PREFIX_CHARS, "{t}IN= OUT=eth0 ARP HTYPE=1 PTYPE=0x0800 OPCODE=1"),
    (VERSION_CHARS, "NVRM: API mismatch: the client has the version {t}, but\nNVRM: this kernel module has the"),
]  # fmt: skip
FORGED = [
    "Oops: 0000 [#1]", "Oops: 0000 [#1", "Oops: a", "kernel BUG at a", "neuron:nd3", "neuron:f: ", "LustreError: x",
    "LustreError: 1:", "LustreError", "neuron", "NVRM", "RmInitAdapter", "HW_ERROR", "LBUG", "Xid (0f:00): 79",
    "SXid (0f:00): 1", "EDAC MC0: 1 UE ", "EDAC MC0: 1 UE", "mlx5_core 0f:00", "efa 00:06: rese", "nvme nvme0: I/O",
    "XFS (a): ", "GPU is lost", "has fallen off the bus", "GPU has fallen off the bus", "a[#1] SMP", "x), 79",
    "a, Fatal", "x, RLW Fatal i0", "mce: Killing ", " in x uncorrectable", "reset failed", "Shutting down filesystem",
    "NV_ERR_GPU_IS_LOST", "INFO: task a[1]", "a[1]: b", "x\n", "NVRM: Xid (PCI:0000:0f:00): 79, pid=1, name=a, b",
    "x,task_memcg=", "\x01\x02\x03\x04", " (device sda): forced readonly", "due to hardware memory corruption fault at",
]  # fmt: skip


def cut(text: str, size: int) -> str:
    """As many bytes as the kernel has room for."""
    return text.replace("\0", "").encode(errors="replace")[:size].decode(errors="ignore")


def name_of_interface(text: str) -> str:
    """dev_valid_name: no slash, no colon, no space."""
    return "".join(char for char in cut(text, COMM_BYTES) if char not in "/:" and not char.isspace()) or "eth0"


def filled(form: str, comm: str, file: str) -> str:
    file = cut(file.replace("/", ""), FILE_BYTES)
    return (
        form.replace("{c}", "\0c").replace("{f}", "\0f").replace("{i}", "\0i")
        .replace("\0i", name_of_interface(comm)).replace("\0f", file).replace("\0c", cut(comm, COMM_BYTES))
    )  # fmt: skip


def told(text: str) -> list[Event]:
    return recognize(LogLine(1, None, "", "kernel", text, True))


def failing(text: str) -> list[Event]:
    return [event for event in told(text) if status_of(event.fault_class, event.action) is Status.FAIL]


def escaped(text: str) -> str:
    """As dmesg shows it."""
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


# What a forger starts from: words of our own patterns, whole, cut at either end, and put together.
PIECE = st.one_of(st.sampled_from(FORGED), st.sampled_from(TEXTS), st.text(max_size=20))
CUT_OUT = st.tuples(PIECE, st.integers(0, 120), st.integers(1, 200)).map(lambda it: it[0][it[1] : it[1] + it[2]])
WORDS = st.one_of(PIECE, CUT_OUT, st.lists(st.one_of(PIECE, CUT_OUT), max_size=3).map("".join))


@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(TASK_FIRST), WORDS, WORDS)
def test_a_line_that_begins_with_a_name_is_no_event(form: str, comm: str, file: str) -> None:
    line = filled(form, comm, file)
    assert not told(line) or not failing(line)
    assert not failing(escaped(line))


@settings(max_examples=1500, deadline=None)
@given(st.sampled_from(TASK_LATER), WORDS, WORDS)
def test_a_line_with_a_name_in_it_fails_nothing(form: str, comm: str, file: str) -> None:
    assert not failing(filled(form, comm, file))


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from(LONG), WORDS)
def test_a_text_of_a_users_own_is_no_event(long: tuple[int, str], text: str) -> None:
    size, form = long
    assert not failing(form.replace("{t}", cut(text, size)))


def test_every_beginning_of_every_line_as_a_name() -> None:
    comms = {text[:size] for text in [*TEXTS, *FORGED] for size in range(1, COMM_BYTES + 1)}
    files = ("HW_ERROR", "LBUG", "GPU is lost", "a[#1] SMP", "Shutting down filesystem")
    assert not [line for line in _lines(comms, files) if failing(line)]


def test_every_end_of_every_line_as_a_files_name() -> None:
    files = {text[start:] for text in [*TEXTS, *FORGED] for start in range(0, len(text), 7)}
    assert not [line for line in _lines(("NVRM: ", "neuron:f: ", "EDAC MC0: 1 UE "), files) if failing(line)]


def _lines(comms: Collection[str], files: Collection[str]) -> list[str]:
    forms = [*TASK_FIRST, *TASK_LATER]
    return [filled(form, *both) for form in forms for both in itertools.product(comms, files)]


@pytest.mark.parametrize("code", [13, 31, 43, 94, 145, 149, 154])
@settings(max_examples=200, deadline=None)
@given(WORDS, st.sampled_from(["", "RLW_REMAP Nonfatal XC0 i0 Link 03 (0x00000004 0x00000001 0x0)", "Ch 00000008"]))
def test_the_name_in_an_xid_changes_nothing(code: int, comm: str, words: str) -> None:
    start, end = f"NVRM: Xid (PCI:0000:0f:00): {code}, pid=4711, name=", f", {words}"

    def brief(name: str) -> list[tuple[object, ...]]:
        return [(e.code, e.device, e.fault_class, e.action) for e in told(start + name + end)]

    assert brief(cut(comm, COMM_BYTES)) == brief("python")


@settings(max_examples=200, deadline=None)
@given(WORDS)
def test_a_soft_lockup_is_one_whatever_runs(comm: str) -> None:
    lockup = "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [{c}:1]"
    for line in (lockup, "INFO: task {c}:1 blocked for more than 1 seconds."):
        (event,) = told(filled(line, cut(comm, COMM_BYTES) or "x", ""))
        assert event.code in ("soft-lockup", "hung-task")


@pytest.mark.parametrize(
    "line",
    [
        "Oops: 0000 [#1[14143]: segfault at 0 ip 0000000000401136 sp 00007ffd1e8e0ab0 error 6 in seg[401000+1000]",
        "neuron:nd3[1]: segfault at 0 ip 0 sp 0 error 6 in HW_ERROR[401000+1000]",
        "LustreError: x[1]: segfault at 0 ip 0 sp 0 error 6 in LBUG[401000+1000]",
        "kernel BUG at a[1]: segfault at 0 ip 0 sp 0 error 6 in a[401000+1000]",
        "Xid (0f:00): 79[1]: segfault at 0 ip 0 sp 0 error 6 in a[401000+1000]",
        "EDAC MC0: 1 UE  (1) used greatest stack depth: 11432 bytes left",
        "LustreError: (slave LBUG): Enslaving as an active interface with an up link",
        "NVRM: Device RmInitAdapter failed to register rx_handler",
    ],
)
def test_what_has_been_tried(line: str) -> None:
    assert told(line) == []


def test_a_clients_version_is_no_more_than_that() -> None:
    (event,) = told("NVRM: API mismatch: the client has the version GPU is lost, but")
    assert (event.code, status_of(event.fault_class, event.action)) == ("api-mismatch", "warn")


@pytest.mark.parametrize(
    "line",
    [
        "Oops: 0000 [#1] PREEMPT SMP NOPTI",
        "Oops: 0002 [#12]",
        "Oops: Oops: 0000 [#1] PREEMPT SMP NOPTI",
        "Oops: general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] SMP PTI",
        "general protection fault, probably for non-canonical address 0xdead000000000122: 0000 [#1] SMP PTI",
        "general protection fault: 0000 [#1] SMP",
        "kernel BUG at mm/slub.c:4023!",
        "kernel BUG at /build/linux-5.15/mm/slub.c:4023!",
        "BUG: unable to handle page fault for address: ffffffffc0a1b2c3",
    ],
)
def test_an_oops_is_one(line: str) -> None:
    assert [(event.code, event.device) for event in told(line)] == [("oops", "")]


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("EDAC MC0: 1 UE memory read error on CPU_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)", "CPU_MC#0_Chan#1_DIMM#0"),
        ("EDAC MC0: 1 UE memory read error on CPU_MC#0_Chan#1_DIMM#0", "CPU_MC#0_Chan#1_DIMM#0"),
        ("EDAC MC0: 1 UE Multi-bit ECC on unknown memory (node:0 card:1 module:71 bank:7)", "mc0"),
        ("EDAC MC1: 1 UE on DIMM_0_CH0 (mc:0 page:0x00012ab)", "DIMM_0_CH0"),
    ],
)  # fmt: skip
def test_the_dimm_of_an_uncorrected_error(line: str, device: str) -> None:
    assert [(event.code, event.device) for event in told(line)] == [("uncorrected", device)]


@pytest.mark.parametrize(
    "words",
    [
        "poll_health:825:(pid 0): device's health compromised - reached miss count",
        "poll_health:825: device's health compromised - reached miss count",
        "device's health compromised - reached miss count",
        "print_health_info:430:(pid 0): synd 0x1: firmware internal error",
        "print_health_info:430:(pid 0): health issue observed, firmware internal error, severity(3) ERROR:",
    ],
)
def test_an_adapters_firmware(words: str) -> None:
    assert [(e.code, e.device) for e in told(f"mlx5_core 0000:a1:00.0: {words}")] == [("firmware", "0000:a1:00")]


def test_a_users_own_cgroup_is_no_job_of_slurms() -> None:
    session = "/user.slice/user-1000.slice/user@1000.service"
    assert job_of(f"{session}/job_71/step_0") is None
    assert job_of(f"{session}/slurmstepd.scope/job_71/step_0") is None
    forged = f"{session}/x,task_memcg=/slurm/uid_1000/job_71/step_0"
    line = f"oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg={session},task_memcg={forged},task=a,pid=1,uid=1000"
    assert [job_of(event.device) for event in told(line)] == [None]


def test_an_image_of_a_container_is_not_the_nodes_disk() -> None:
    (event,) = told("EXT4-fs (loop0): Remounting filesystem read-only")
    assert (event.code, event.device, status_of(event.fault_class, event.action)) == ("image-error", "loop0", "warn")
