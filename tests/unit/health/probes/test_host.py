# SPDX-License-Identifier: Apache-2.0
"""The node itself, from trees of /proc and /sys, and from the real ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepguard.health.model import Action, Report, Status
from stepguard.health.probes import file_systems, host, memory
from stepguard.health.probes.file_systems import Usage
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import probe
from unit.health.probes.trees import Tree, told

_OK, _WARN, _FAIL, _UNKNOWN = Status.OK, Status.WARN, Status.FAIL, Status.UNKNOWN
_MOUNTS = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 / /fsx\\040data rw - lustre a@tcp:/b rw"


@pytest.fixture
def node(tree: Tree) -> Tree:
    """A node that is well."""
    tree.put(
        {"meminfo": "MemTotal:  1000000 kB\nMemFree: 1 kB\nMemAvailable:  900000 kB", "self/mountinfo": _MOUNTS},
        "/proc",
    )
    tree.put({"current_clocksource": "tsc"}, "/sys/devices/system/clocksource/clocksource0")
    put_process(tree, 1, "systemd", "S")
    for controller in ("mc0", "mc1"):
        edac = {"ce_count": 0, "ue_count": 0, "dimm0/dimm_ce_count": 0, "dimm0/dimm_ue_count": 0}
        tree.put({**edac, "dimm0/dimm_label": f"{controller}#A1"}, f"/sys/devices/system/edac/mc/{controller}")
    tree.path("tmp").mkdir()
    return tree


def put_process(tree: Tree, pid: int, name: str, state: str, pending: int = 0, started: int = 77) -> None:
    fields = " ".join(["0"] * 18)
    tree.put({"stat": f"{pid} ({name}) {state} {fields} {started} 0 0"}, f"/proc/{pid}")
    tree.put({"status": f"Name:\t{name}\nSigPnd:\t{pending:016x}\nShdPnd:\t{0:016x}"}, f"/proc/{pid}")


def look(tree: Tree, **settings: Any) -> Report:
    return host.run(Settings(**{"root": str(tree), "filesystems": ("/tmp", "/nowhere"), **settings}))


def test_a_well_node(node: Tree) -> None:
    report = look(node)
    assert (report.status, report.reason, report.findings) == (_OK, "no finding", [])
    values: Any = report.values
    assert values["memory"] == {"MemTotal": 1_000_000, "MemAvailable": 900_000}
    assert values["clocksource"] == "tsc"
    assert values["processes"] == {"all": 1, "zombies": 0, "waiting": 0, "killed": 0}
    assert list(values["file_systems"]) == ["/tmp"]
    assert values["edac"]["mc1"]["dimms"] == {"dimm0": {"label": "mc1#A1", "corrected": 0, "uncorrected": 0}}


def test_thresholds_are_the_administrators(node: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    node.put({"meminfo": "MemTotal:  1000000 kB\nMemAvailable:  50000 kB"}, "/proc")
    monkeypatch.setattr(host, "usage", lambda _: Usage(1000 << 20, 100 << 20, 1000, 20))
    for pid in (61, 62):
        put_process(node, pid, "sh", "Z")
    assert told(look(node, filesystems=("/tmp",))) == [("/tmp", "inodes", _WARN, Action.CHECK)]
    assert look(node, filesystems=("/tmp",), inodes_free_percent=1.0).status is _OK
    strict = look(
        node,
        filesystems=("/tmp",),
        memory_free_percent=6.0,
        space_free_percent=11.0,
        inodes_free_percent=3.0,
        zombies=2,
    )
    assert [finding.what for finding in strict.findings] == ["memory", "space", "inodes", "zombies"]
    none = look(
        node, filesystems=("/tmp",), memory_free_percent=0, space_free_percent=0, inodes_free_percent=0, zombies=3
    )
    assert none.status is _OK


@pytest.mark.parametrize(("for_s", "status"), [(4.0, _WARN), (6.0, _FAIL)])
def test_how_long_a_process_may_take_to_end(
    node: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, for_s: float, status: Status
) -> None:
    put_process(node, 51, "python", "D", pending=1 << 8)
    now_s = [1000.0]
    monkeypatch.setattr(memory, "now_s", lambda: now_s[0])
    look(node, state=str(tmp_path / "state"), unkillable_s=5.0)
    now_s[0] += for_s
    [finding] = look(node, state=str(tmp_path / "state"), unkillable_s=5.0).findings
    assert (finding.what, finding.status) == ("unkillable", status)


def test_this_node() -> None:
    report = probe("host", Settings(deadline_s=40.0))
    values: Any = report.values
    assert values["memory"]["MemTotal"] > 1 << 16
    assert values["processes"]["all"] > 1
    assert values["file_systems"]["/"]["bytes"] > 1 << 20


def test_little_memory(node: Tree) -> None:
    node.put({"meminfo": "MemTotal: 1000000 kB\nMemAvailable: 9000 kB\nShmem: 700000 kB"}, "/proc")
    report = look(node)
    assert told(report) == [("", "memory", _WARN, Action.CHECK)]
    assert report.findings[0].evidence == "8 of 976 MiB free, 683 MiB in shared memory"


@pytest.mark.parametrize("text", ["", "MemTotal: many kB", "\0" * 100, "MemTotal: 5 kB"])
def test_memory_that_is_not_told(text: str, node: Tree) -> None:
    node.put({"meminfo": text}, "/proc")
    assert told(look(node)) == [("", "memory", _UNKNOWN, Action.CHECK)]


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        (Usage(1 << 30, 1 << 25, 1000, 900), [("/tmp", "space", _WARN, Action.CHECK)]),
        (Usage(1 << 30, 1 << 29, 1000, 3), [("/tmp", "inodes", _WARN, Action.CHECK)]),
        (Usage(1 << 30, 1 << 29, 0, 0), []),
        (Usage(0, 0, 0, 0), []),
        (Usage(error="Input/output error"), [("/tmp", "file-system", _WARN, Action.CHECK)]),
        (Usage(error="no answer", hangs=True), [("/tmp", "file-system", _UNKNOWN, Action.CHECK)]),
    ],
)
def test_a_file_system(used: Usage, expected: list[object], node: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "usage", lambda path: used)
    assert told(look(node, filesystems=("/tmp",))) == expected


def test_a_file_system_that_is_not_asked_here() -> None:
    assert file_systems.usage("/nowhere").is_missing
    used = file_systems.usage("/")
    assert used.bytes and used.bytes_free is not None and used.bytes > used.bytes_free > 0
    assert not used.error


def test_a_file_system_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    end = threading.Event()
    monkeypatch.setattr(file_systems, "_ANSWER_S", 0.1)
    monkeypatch.setattr(file_systems, "_ask", lambda path: Usage(bytes=1 if end.wait(60) else 0))
    try:
        assert file_systems.usage("/") == Usage(
            error="no answer within 0.1 s: its server is away, or its disk hangs", hangs=True
        )
    finally:
        end.set()


@pytest.mark.parametrize(("clock", "status"), [("hpet", _WARN), ("acpi_pm", _WARN), ("kvm-clock", _OK), ("", _OK)])
def test_the_clock(clock: str, status: Status, node: Tree) -> None:
    node.put({"current_clocksource": clock}, "/sys/devices/system/clocksource/clocksource0")
    assert look(node).status is status


def test_uncorrected_memory_errors(node: Tree) -> None:
    node.put({"ue_count": 2, "ce_count": 900, "dimm0/dimm_ue_count": 2}, "/sys/devices/system/edac/mc/mc1")
    report = look(node)
    assert told(report) == [("mc1", "memory-errors", _FAIL, Action.REPLACE)]
    assert report.findings[0].evidence == "2 uncorrected errors of mc1#A1 since the boot"


def test_zombies(node: Tree) -> None:
    for pid in range(100, 299):
        put_process(node, pid, "a) Z (b", "Z")
    assert look(node).status is _OK
    put_process(node, 299, "init", "Z")
    report = look(node)
    assert told(report) == [("", "zombies", _WARN, Action.CHECK)]
    assert report.findings[0].evidence == "200: a) Z (b (100), a) Z (b (101), a) Z (b (102), …"


def test_a_killed_process_that_does_not_end(node: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_process(node, 50, "waits", "D")
    put_process(node, 51, "python\x1b", "D", pending=1 << 8)
    put_process(node, 52, "runs", "R", pending=1 << 8)
    times = iter([1000.0, 1050.0, 1061.0, 1070.0, 1200.0])
    monkeypatch.setattr(memory, "now_s", lambda: next(times))
    state = str(tmp_path / "state")
    warned, failed = ("pid 51", "unkillable", _WARN, Action.CHECK), ("pid 51", "unkillable", _FAIL, Action.REBOOT)
    assert told(look(node, state=state)) == [warned]
    assert told(look(node, state=state)) == [warned]
    report = look(node, state=state)
    assert told(report) == [failed]
    assert report.findings[0].evidence == "python? was killed and waits for a device, for 61 s"
    put_process(node, 51, "another", "D", pending=1 << 8, started=99)
    assert told(look(node, state=state)) == [warned]
    # Nothing is remembered: it may have been so for a moment.
    assert told(look(node)) == [warned]


@pytest.mark.parametrize(
    ("said", "status", "expected"),
    [
        ("active\nactive", 0, []),
        ("active\nfailed", 3, [("nvidia-fabricmanager", "service", _FAIL, Action.CHECK)]),
        ("activating\nactive", 3, [("munge", "service", _WARN, Action.CHECK)]),
        (
            "inactive\nunknown",
            3,
            [(name, "service", _FAIL, Action.CHECK) for name in ("munge", "nvidia-fabricmanager")],
        ),
        ("active", 0, [("", "service", _UNKNOWN, Action.CHECK)]),
        ("", 1, [("", "service", _UNKNOWN, Action.CHECK)]),
    ],
)
def test_services(
    said: str, status: int, expected: list[object], node: Tree, tools: Callable[[str, str], None]
) -> None:
    node.path("run/systemd/system").mkdir(parents=True)
    tools("systemctl", f"[ \"$*\" = 'is-active -- munge nvidia-fabricmanager' ] && printf '{said}\n'; exit {status}")
    assert told(look(node, services=("munge", "nvidia-fabricmanager"))) == expected


def test_services_without_systemd(node: Tree) -> None:
    report = look(node, services=("munge",))
    assert told(report) == [("", "service", _UNKNOWN, Action.CHECK)]
    assert look(node).status is _OK


def test_systemd_that_hangs(node: Tree, tools: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    node.path("run/systemd/system").mkdir(parents=True)
    tools("systemctl", "exec sleep 1000")
    monkeypatch.setattr(host, "_SYSTEMCTL_S", 0.3)
    assert "no answer within 0.3 s" in look(node, services=("munge",)).reason


def test_mounts(node: Tree) -> None:
    node.path("fsx data").mkdir()
    report = look(node, mounts=("/fsx data", "/fsx data/", "/home"))
    assert told(report) == [("/home", "mount", _FAIL, Action.CHECK)]


def test_a_mount_that_is_stale_or_hangs(node: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    for used, status in ((Usage(error="Stale file handle"), _FAIL), (Usage(error="no answer", hangs=True), _UNKNOWN)):
        monkeypatch.setattr(host, "usage", lambda path, used=used: used)
        assert told(look(node, mounts=("/fsx data",), filesystems=())) == [("/fsx data", "mount", status, Action.CHECK)]


def test_mounts_that_are_not_told(node: Tree) -> None:
    node.put_fifo("/proc/self/mountinfo")
    report = look(node, mounts=("/",))
    assert [one.what for one in report.findings] == ["mount", "not-readable"]


def test_hostile_files(node: Tree) -> None:
    node.put_fifo("/proc/60/stat")
    node.put(
        {"61/stat": "garbage", "62/stat": "62 (x) D", "63/stat": ")" * 3000, "64/stat": "64 (y" + "\n" * 50}, "/proc"
    )
    put_process(node, 65, "z", "D", pending=1 << 8)
    node.put({"65/status": "SigPnd:\tnothing\nShdPnd:"}, "/proc")
    node.put({"mc0/ue_count": "-", "mcx/ue_count": 7}, "/sys/devices/system/edac/mc")
    report = look(node)
    assert told(report) == [("", "not-readable", _UNKNOWN, Action.CHECK)]
    assert "and 1 more" in report.reason
