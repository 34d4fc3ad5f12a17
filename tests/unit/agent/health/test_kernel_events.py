# SPDX-License-Identifier: Apache-2.0
"""What lines of the kernel's log tell as they come."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stepguard.agent.health.kernel_events import KernelEvents
from stepguard.agent.health.kernel_log import Line
from stepguard.health.catalogue import shipped
from stepguard.health.model import Action, Event

XID_13 = "NVRM: Xid (PCI:0000:0f:00): 13, pid=77, name=python, Graphics Exception: ESR 0x505730=0x"
XID_79 = "NVRM: Xid (PCI:0000:0F:00): 79, pid=77, name=python, GPU has fallen off the bus."


@pytest.fixture
def events() -> KernelEvents:
    return KernelEvents(shipped)


def _short(found: list[tuple[Event, float]]) -> list[tuple[str, object, str, int, float]]:
    return [(event.source, event.code, event.device, event.count, at_s) for event, at_s in found]


def test_an_event_with_its_time(events: KernelEvents) -> None:
    [(event, at_s)] = events.of([Line(1.0, "usb 1-1: new device"), Line(2.5, XID_79), Line(3.0, "")])
    assert (event.source, event.code, event.device, event.action) == ("xid", 79, "0000:0f:00", Action.REPLACE)
    assert (event.trusted, event.text, event.count, at_s) == (True, XID_79, 1, 2.5)


def test_identical_events_of_a_moment_are_counted(events: KernelEvents) -> None:
    found = events.of([Line(10 + number / 100, XID_13 + str(number)) for number in range(50)])
    assert _short(found) == [("xid", 13, "0000:0f:00", 50, 10.0)]
    assert _short(events.of([Line(20.0, XID_13), Line(23.0, XID_13), Line(23.5, XID_13)])) == [
        ("xid", 13, "0000:0f:00", 1, 20.0),
        ("xid", 13, "0000:0f:00", 2, 23.0),
    ]


def test_154_says_what_is_to_be_done(events: KernelEvents) -> None:
    text = "NVRM: Xid (PCI:0000:0f:00): 154, GPU recovery action changed from 0x0 (None) to 0x{} ({})"
    said = [("1", "GPU Reset Required"), ("2", "Node Reboot Required"), ("0", "None")]
    found = events.of([Line(1.0, text.format(*words)) for words in said])
    assert [event.action for event, _ in found] == [Action.RESET_GPU, Action.REBOOT, Action.NONE]


def test_more_lines_on_one_event_are_not_another(events: KernelEvents) -> None:
    """Also where they come in another batch; a line that stands alone counts."""
    sxid = "nvidia-nvswitch1: SXid (PCI:0000:c2:00.0): 20034, "
    detail = Line(5.1, sxid + "Severity 5 Engine instance 28 Sub-engine instance 00")
    assert _short(events.of([Line(5.0, sxid + "Fatal, Link 28 LTSSM Fault Up"), detail])) == [
        ("sxid", 20034, "0000:c2:00", 1, 5.0)
    ]
    assert _short(events.of([detail])) == [("sxid", 20034, "0000:c2:00", 0, 5.1)]
    assert _short(events.of([detail._replace(at_s=60.0)])) == [("sxid", 20034, "0000:c2:00", 1, 60.0)]


def test_a_gpu_that_was_named_just_before(events: KernelEvents) -> None:
    lines = [
        Line(1.0, "NVRM: The NVIDIA GPU 0000:1b:00.0"),
        Line(1.0, "NVRM: (PCI ID: 10de:2335) installed in this system has"),
        Line(1.0, "NVRM: fallen off the bus and is not responding to commands."),
    ]
    assert _short(events.of(lines)) == [("xid", None, "0000:1b:00", 1, 1.0)]


def test_a_record_of_several_lines(events: KernelEvents) -> None:
    text = "\n".join(
        (
            "NVRM: The NVIDIA GPU 0000:1b:00.0",
            "NVRM: (PCI ID: 10de:2335) installed in this system has",
            "NVRM: fallen off the bus and is not responding to commands.",
        )
    )
    assert _short(events.of([Line(1.0, text)])) == [("xid", None, "0000:1b:00", 1, 1.0)]


def test_what_firmware_reports_comes_line_by_line(events: KernelEvents) -> None:
    mark = "{4}[Hardware Error]: "
    lines = [f"{mark}event severity: fatal", f"{mark} Error 0, type: fatal", f"{mark}  section_type: PCIe error"]
    assert [events.of([Line(1.0, line)]) for line in lines] == [[], [], []]
    found = events.of([Line(1.0, "usb 1-1: new device"), Line(2.0, f"{mark}  device_id: 0000:3a:01.0")])
    assert _short(found) == [("aer", "fatal", "0000:3a:01", 1, 2.0)]


def test_a_record_that_somebody_began_is_the_firmwares_from_its_own_beginning(events: KernelEvents) -> None:
    mark = "{4}[Hardware Error]: "
    begun = [f"{mark}event severity: fatal", f"{mark} Error 0, type: fatal", f"{mark}  section_type: PCIe error"]
    true = [
        f"{mark}event severity: corrected",
        f"{mark} Error 0, type: corrected",
        f"{mark}  section_type: memory error",
    ]
    assert _short(events.of([Line(1.0, line) for line in begun + true])) == [("mce", "corrected", "", 1, 1.0)]


def test_one_kill_is_one(events: KernelEvents) -> None:
    lines = [
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0,oom_memcg=/slurm/job_7,"
        "task_memcg=/slurm/job_7/step_0,task=python,pid=4711,uid=1000",
        "Memory cgroup out of memory: Killed process 4711 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB",
    ]
    assert sum(count for *_, count, _ in _short(events.of([Line(1.0, line) for line in lines]))) == 1


def test_lines_that_tell_nothing_are_cheap(events: KernelEvents) -> None:
    lines = [
        Line(1.0, f"IPv4: martian source 10.0.0.{number % 256} from 10.9.8.7, on dev eth0") for number in range(10_000)
    ]
    events.of(lines[:1])
    cpu_s = time.process_time()
    assert events.of(lines) == []
    assert time.process_time() - cpu_s < 1.0  # 0.03 s where nothing else runs


@pytest.mark.parametrize(
    ("text", "code", "device"),
    [
        ("bond0: (slave eth7): link status definitely down, disabling slave", "down", "eth7"),
        ("bond0: (slave secret): link status definitely down, disabling slave", "down", ""),
        ("secret: link status definitely down for interface ..", "down", ""),
        ("IPv6: ADDRCONF(NETDEV_CHANGE): secret: link becomes ready", "up", ""),
        ("mlx5_core 0000:a1:00.0 eth7: Link down", "down", "eth7"),
        ("mlx5_core 0000:a1:00.0: Port module event: module 0, Cable unplugged", "cable", "0000:a1:00"),
    ],
)
def test_interfaces_of_other_network_namespaces_are_not_named(
    text: str, code: str, device: str, tmp_path: Path
) -> None:
    (tmp_path / "eth7").symlink_to("../../devices/virtual/net/eth7")
    [(event, _)] = KernelEvents(shipped, interfaces=tmp_path).of([Line(999.0, text)])
    assert (event.source, event.code, event.device) == ("link", code, device)


def test_links_of_a_boot_are_not_down(tmp_path: Path) -> None:
    (tmp_path / "eth7").symlink_to("../../devices/virtual/net/eth7")
    (tmp_path / "eth8").symlink_to("../../devices/virtual/net/eth8")
    said = "mlx5_core 0000:a1:00.0 {}: Link {}"
    lines = [
        Line(0.0, "Linux version 6.8.0-41-generic (buildd@lcy02) #41-Ubuntu SMP"),
        Line(9.0, said.format("eth7", "down")),
        Line(11.0, said.format("eth7", "up")),
        Line(700.0, said.format("eth8", "down")),
    ]
    before = KernelEvents(shipped, interfaces=tmp_path)
    assert [event.code for event, _ in before.of(lines)] == ["not-up-yet", "up", "not-up-yet"]
    restarted = KernelEvents(shipped, interfaces=tmp_path)
    for agent in (before, restarted):
        assert [event.code for event, _ in agent.of([Line(9000.0, said.format("eth7", "down"))])] == ["down"]


KILL = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0,oom_memcg=/slurm/uid_1/job_7,"
    "task_memcg=/slurm/uid_1/job_7/step_0,task=python,pid=4711,uid=1000"
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (XID_79, ("unproven", "xid 79", "0000:0f:00")),
        (XID_13, ("unproven", "xid 13", "0000:0f:00")),
        (
            XID_79.partition(":")[0]
            + ": Xid (PCI:0000:0f:00): 154, GPU recovery action changed from 0x1 (x) to 0x0 (None)",
            None,
        ),
        (KILL, ("unproven", "oom cgroup", "")),
        (
            "EXT4-fs error (device sda1): ext4_find_entry:1436: inode #2: comm ls: reading",
            ("unproven", "nvme fs-error", ""),
        ),
        ("IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready", None),
    ],
)
def test_lines_that_nobody_trusts_are_told_apart(
    events: KernelEvents, text: str, told: tuple[str, str, str] | None
) -> None:
    """They add nothing to what the kernel said, take nothing from it, and are no job's."""
    found = [event for event, _ in events.of([Line(1.0, text, is_trusted=False)])]
    assert [(event.source, event.code, event.device) for event in found] == ([told] if told else [])
    assert all((event.fault_class, event.action) == ("ignore", "check") for event in found)
    assert all(event.source != "unproven" for event, _ in events.of([Line(1.0, text)]))


@pytest.mark.parametrize(
    ("level", "is_loaded", "told"),
    [
        (3, True, ("ignore", "check")),
        (3, False, ("hardware-replace", "replace")),
        (0, True, ("hardware-replace", "replace")),
    ],
)
def test_where_anybody_can_print_errors_none_decides(
    level: int, is_loaded: bool, told: tuple[str, str], tmp_path: Path
) -> None:
    driver = tmp_path / "neuron"
    if is_loaded:
        driver.mkdir()
    [(event, _)] = KernelEvents(shipped, driver).of([Line(1.0, XID_79, level)])
    assert (event.fault_class, event.action) == told
