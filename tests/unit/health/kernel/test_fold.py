# SPDX-License-Identifier: Apache-2.0
"""Events of a log: counted, by the rules of repetition and of XID 154."""

from __future__ import annotations

import pytest

from stepguard.health.catalogue import shipped
from stepguard.health.kernel import LogLine, events
from stepguard.health.kernel.fold import MAX_EVENTS, Folder
from stepguard.health.kernel.lines import read
from stepguard.health.kernel.oom import job_of
from stepguard.health.model import Event

SM = "Graphics SM Warp Exception on (GPC {gpc}, TPC 2, SM 0): Out Of Range Address"


def log(*texts: str, step_s: float = 60.0) -> list[Event]:
    """The events of kernel lines that are so far apart."""
    return events(LogLine(n, 1e9 + n * step_s, "n1", "kernel", text, True) for n, text in enumerate(texts, 1))


def xid(code: int, rest: str = "", pci: str = "0000:0f:00", pid: int = 4711) -> str:
    return f"NVRM: Xid (PCI:{pci}): {code}, pid={pid}, name=python, {rest}"


def recovery(to: str, pci: str = "0000:0f:00") -> str:
    return f"NVRM: Xid (PCI:{pci}): 154, GPU recovery action changed from 0x0 (None) to {to}"


def brief(found: list[Event]) -> list[tuple[object, ...]]:
    return [
        (e.code, e.device[-5:-3] if e.source == "xid" else e.device, e.fault_class, e.action, e.count) for e in found
    ]


def test_identical_events_are_counted_with_the_first_line() -> None:
    found = log(xid(48), xid(63), xid(48), xid(48, pci="0000:1f:00"), xid(48))
    assert [(e.line, e.code, e.device, e.count) for e in found] == [
        (1, 48, "0000:0f:00", 3),
        (2, 63, "0000:0f:00", 1),
        (4, 48, "0000:1f:00", 1),
    ]


@pytest.mark.parametrize("code", [13, 31])
def test_five_times_on_one_gpu_is_hardware(code: int) -> None:
    assert brief(log(*[xid(code)] * 4)) == [(code, "0f", "application", "restart-application", 4)]
    assert brief(log(*[xid(code)] * 5)) == [(code, "0f", "hardware-reset", "reset-gpu", 5)]


def test_five_times_on_several_gpus_is_the_program() -> None:
    found = log(*[xid(13, pci=f"0000:{number:02x}:00") for number in range(1, 9)] * 4)
    assert {event.fault_class for event in found} == {"application"}
    assert [event.count for event in found] == [4] * 8


def test_many_lines_of_one_fault_are_one_time() -> None:
    burst = [xid(13, SM.format(gpc=1)) for _ in range(8)]
    assert brief(log(*burst, step_s=0.001)) == [(13, "0f", "application", "restart-application", 8)]


@pytest.mark.parametrize(
    "form",
    [
        "[  902.123456] {}", "6,1,902123456,-;{}", "Jun  1 12:00:00 n1 kernel: {}", "[Mon Jun  1 12:00:00 2026] {}",
        '{{"dmesg": [{{"pri": 3, "time": 902.123456, "msg": "{}"}}]}}',
    ],
)  # fmt: skip
def test_the_same_line_at_one_instant_is_one_fault(form: str) -> None:
    line = form.replace("{{", "{").replace("}}", "}").replace("{}", xid(13, SM.format(gpc=1)))
    text = line.replace("]}", ", " + line[line.index("[{") + 1 : -2] + "]}") if "dmesg" in form else f"{line}\n" * 8
    (event,) = events(read(text.encode()))
    assert (event.fault_class, event.count > 1) == ("application", True)


def test_what_is_long_past_does_not_count() -> None:
    assert log(*[xid(13)] * 5, step_s=21_000)[0].fault_class == "hardware-reset"
    assert log(*[xid(13)] * 5, step_s=22_000)[0].fault_class == "application"


def test_hosts_are_kept_apart() -> None:
    lines = [LogLine(n, None, f"n{n % 3}", "kernel", xid(13), True) for n in range(1, 13)]
    lines.append(LogLine(13, None, "n1", "kernel", recovery("0x2 (Node Reboot Required)"), True))
    lines += [LogLine(14, None, f"n{n}", "kernel", xid(48), True) for n in range(2)]
    found = [(event.code, event.fault_class, event.count) for event in events(lines)]
    assert found == [
        *[(13, "application", 4)] * 3,
        (154, "reboot", 1),
        (48, "hardware-reset", 1),
        (48, "reboot", 1),
    ]


@pytest.mark.parametrize(
    ("texts", "fault_class"),
    [
        ([xid(13)] * 5, "application"),
        ([xid(13, pid=run) for run in range(5)], "hardware-reset"),
        ([f"NVRM: Xid (PCI:0000:0f:00): 13, {rest}" for _ in range(5) for rest in "ab"], "hardware-reset"),
        ([f"NVRM: Xid (PCI:0000:0f:00): 13, {rest}" for rest in "abcde"], "application"),
    ],
)
def test_without_times_another_program_or_the_same_line_again_is_another_time(
    texts: list[str], fault_class: str
) -> None:
    lines = [LogLine(n, None, "", "kernel", text, True) for n, text in enumerate(texts)]
    assert events(lines)[0].fault_class == fault_class


def test_repetitions_that_nobody_can_trust_do_not_make_a_trusted_one_hardware() -> None:
    lines = [LogLine(n, None, "", "kernel", xid(13, pid=n), n == 1) for n in range(1, 9)]
    assert [(event.trusted, event.fault_class) for event in events(lines)] == [
        (True, "application"),
        (False, "hardware-reset"),
    ]


def test_a_sites_own_repetition() -> None:
    rule = {"count": 2, "within_s": 60, "class": "hardware-replace", "action": "replace"}
    catalogue = shipped().with_site({"xid": {"43": {"repeats": rule}}})
    lines = [LogLine(n, 1e9 + 2 * n, "", "kernel", xid(43, pid=n), True) for n in range(2)]
    assert brief(events(lines, catalogue)) == [(43, "0f", "hardware-replace", "replace", 2)]


@pytest.mark.parametrize(
    ("to", "fault_class", "action"),
    [
        ("0x1 (GPU Reset Required)", "hardware-reset", "reset-gpu"),
        ("0x2 (Node Reboot Required)", "reboot", "reboot"),
        ("0x4 (Drain and Reset)", "hardware-reset", "reset-gpu"),
    ],
)
def test_xid_154_counts_for_more_than_the_row(to: str, fault_class: str, action: str) -> None:
    found = log(xid(119), recovery(to), xid(119, pci="0000:1f:00"))
    assert brief(found) == [
        (119, "0f", fault_class, action, 1),
        (154, "0f", fault_class, action, 1),
        (119, "1f", "hardware-reset", "reset-gpu", 1),
    ]


@pytest.mark.parametrize(
    ("to", "verdict"),
    [
        ("0x0 (None)", ("hardware-replace", "none")),
        ("0x1 (GPU Reset Required)", ("hardware-reset", "reset-gpu")),
        ("0x2 (Node Reboot Required)", ("reboot", "reboot")),
        ("0x2 (OS Reboot)", ("reboot", "reboot")),
        ("0x3 (Drain P2P)", ("hardware-replace", "replace")),
        ("0x9 (New)", ("hardware-replace", "replace")),
    ],
)
def test_what_the_driver_asks_for_decides_for_a_gpu_that_is_gone(to: str, verdict: tuple[str, str]) -> None:
    found = log(xid(79), "NVRM: GPU 0000:0f:00.0: GPU has fallen off the bus.", recovery(to))
    assert brief(found)[:2] == [(79, "0f", *verdict, 1), (None, "0f", *verdict, 1)]


def test_xid_154_makes_no_fault_of_a_program_one_of_hardware_and_no_failed_remapping_less() -> None:
    found = log(xid(43), xid(64), recovery("0x2 (Node Reboot Required)"), recovery("0x0 (None)"))
    assert brief(found)[:2] == [
        (43, "0f", "application", "restart-application", 1),
        (64, "0f", "hardware-replace", "replace", 1),
    ]


def test_xid_154_none_speaks_of_what_came_before() -> None:
    found = log(xid(48), recovery("0x1 (GPU Reset Required)"), recovery("0x0 (None)"), xid(95))
    assert brief(found) == [
        (48, "0f", "hardware-reset", "none", 1),
        (154, "0f", "hardware-reset", "none", 1),
        (154, "0f", "ignore", "none", 1),
        (95, "0f", "hardware-reset", "reset-gpu", 1),
    ]


@pytest.mark.parametrize("to", ["0x9 (New)", "0x3 (Drain P2P)", "0x5 (Recover IMEX Domain)"])
def test_an_xid_154_that_asks_for_a_look_leaves_the_others_what_they_are(to: str) -> None:
    for lines in ((xid(48), recovery(to)), (xid(48), recovery("0x2 (OS Reboot)"), recovery(to))):
        expected = ("hardware-reset", "reset-gpu") if len(lines) == 2 else ("reboot", "reboot")
        assert brief(log(*lines))[0] == (48, "0f", *expected, 1)


def test_a_forged_xid_154_changes_nothing() -> None:
    lines = [
        LogLine(1, None, "", "kernel", xid(48), True),
        LogLine(2, None, "", "root", recovery("0x0 (None)"), False),
    ]
    assert brief(events(lines))[0] == (48, "0f", "hardware-reset", "reset-gpu", 1)


def test_the_three_lines_of_an_sxid_are_one() -> None:
    start = "nvidia-nvswitch1: SXid (PCI:0000:c2:00.0): 20034, "
    three = [f"{start}Fatal, Link 28 LTSSM Fault Up", f"{start}Severity 5 Engine instance 28", f"{start}Data {{0x1}}"]
    assert [event.count for event in log(*three, *three)] == [2]
    assert [event.count for event in log(three[1])] == [1]


def test_the_two_lines_of_a_pcie_error_are_one() -> None:
    two = [
        "pcieport 0000:00:01.0: AER: Corrected error received: 0000:0f:00.0",
        "nvidia 0000:0f:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    ]
    assert [event.count for event in log(*two * 3)] == [3]
    assert [event.count for event in log(two[1], two[1])] == [2]


def kill(pid: int, job: int = 71) -> list[str]:
    cgroup = f"/slurm/uid_1000/job_{job}"
    return [
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg={cgroup},"
        f"task_memcg={cgroup}/step_0/task_0,task=python,pid={pid},uid=1000",
        f"Memory cgroup out of memory: Killed process {pid} (python) total-vm:1kB",
    ]


def test_the_two_lines_of_a_kill_are_one_with_the_job() -> None:
    (event,) = log(*kill(1), *kill(2))
    assert (event.code, event.count) == ("cgroup", 2)
    assert job_of(event.device) == (71, "0")


@pytest.mark.parametrize(
    ("cgroup", "job"),
    [
        ("/slurm/uid_1000/job_71/step_batch", (71, "batch")),
        ("/system.slice/slurmstepd.scope/job_71/step_extern/user/task_0", (71, "extern")),
        ("/slurm_n1/uid_1000/job_71", (71, "")),
        ("/system.slice/n1_slurmstepd.scope/job_71/step_0/user/task_0", (71, "0")),
        ("/kubepods.slice/cri-1.scope/system.slice/slurmstepd.scope/job_71", (71, "")),
        ("/slurm/uid_1000/job_71/step_0/slurm/uid_0/job_72/step_0", (71, "0")),
        ("/job_71/step_0", None),
        ("/system.slice/cron.service/job_71", None),
        ("/docker/abc/uid_1000/job_71", None),
        ("/slurm/uid_x/job_71", None),
        ("/user.slice/user-1000.slice/user@1000.service/slurm/uid_1000/job_71/step_0", None),
        ("/user.slice/user-1000.slice", None),
        ("/docker/job_x", None),
    ],
)
def test_the_job_of_a_cgroup(cgroup: str, job: tuple[int, str] | None) -> None:
    assert job_of(cgroup) == job


def test_a_gpu_that_a_line_before_names() -> None:
    found = log(
        "NVRM: The NVIDIA GPU 0000:0f:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    assert [(event.code, event.device, event.fault_class) for event in found] == [
        (None, "0000:0f:00", "hardware-replace")
    ]


PROBES_FAILED = "NVRM: The NVIDIA probe routine failed for 1 device(s)."
BAR = "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:0f:00.0)"


@pytest.mark.parametrize(
    "before",
    [
        ["nvidia: probe of 0000:0f:00.0 failed with error -1"],
        ["nvidia 0000:0f:00.0: probe with driver nvidia failed with error -1"],
        [BAR],
        BAR.splitlines(),
        [BAR, "nvidia: probe of 0000:0f:00.0 failed with error -1"],
    ],
)
def test_a_gpu_that_the_driver_did_not_take_is_one_and_named(before: list[str]) -> None:
    found = log(*before, PROBES_FAILED, "NVRM: None of the NVIDIA devices were initialized.", step_s=0.001)
    assert brief(found)[0][:4] == ("probe-failed", "0f", "hardware-reset", "check")
    assert len(found) == 1


def test_two_gpus_that_the_driver_did_not_take_are_two() -> None:
    lines = [f"nvidia: probe of 0000:{slot}:00.0 failed with error -1" for slot in ("0f", "1f")]
    assert [one[1:] for one in brief(log(*lines, PROBES_FAILED))] == [
        ("0f", "hardware-reset", "check", 1),
        ("1f", "hardware-reset", "check", 1),
    ]


def test_no_more_events_are_kept_than_a_node_has() -> None:
    folder = Folder()
    for number in range(MAX_EVENTS + 5):
        folder.add(LogLine(number, None, "", "kernel", f"EXT4-fs error (device d{number}): x", True))
    assert folder.is_cut
    assert len(folder.events()) == MAX_EVENTS


def test_a_thousand_lines_are_all_counted() -> None:
    text = "\n".join(f"3,{n},{n},-;{xid(48, pci=f'0000:{n % 8:02x}:00')}" for n in range(1000))
    assert sum(event.count for event in events(read(text.encode()))) == 1000
