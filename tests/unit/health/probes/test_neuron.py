# SPDX-License-Identifier: Apache-2.0
"""Neuron devices from trees as the driver makes them, and the proof that nothing in one is ever opened for writing."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepguard.health.model import Action, Report, Status
from stepguard.health.probes import neuron
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import probe
from unit.health.probes.trees import Tree, told

_OK, _WARN, _FAIL, _UNKNOWN = Status.OK, Status.WARN, Status.FAIL, Status.UNKNOWN
_PLACE = "/sys/devices/virtual/neuron_device"

# inotify(7)
_MODIFY, _ATTRIB, _CLOSE_WRITE, _CLOSE_NOWRITE, _OPEN = 0x2, 0x4, 0x8, 0x10, 0x20
_MOVED, _CREATE, _DELETE = 0xC0, 0x100, 0x200
_CHANGES = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED | _CREATE | _DELETE


class Watched:
    """What the kernel sees done to the files of directories, by whatever process."""

    def __init__(self, root: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        for directory, _, _ in os.walk(root):
            watch = libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _CHANGES | _OPEN | _CLOSE_NOWRITE)
            assert watch >= 0, os.strerror(ctypes.get_errno())

    def events(self) -> Iterator[tuple[int, str]]:
        """Mask and name of the file."""
        while True:
            try:
                content = os.read(self._descriptor, 1 << 20)
            except BlockingIOError:
                return
            while content:
                _, mask, _, length = struct.unpack_from("iIII", content)
                yield mask, content[16 : 16 + length].rstrip(b"\0").decode()
                content = content[16 + length :]

    def close(self) -> None:
        os.close(self._descriptor)


@pytest.fixture
def trn1(tree: Tree) -> Tree:
    for number in range(16):
        tree.put_neuron(number)
        tree.put_pci(f"0000:{number:02x}:1e.0", "0x1d0f", "0x7164", "0x120000")
    tree.put({"product_name": "trn1.32xlarge"}, "/sys/devices/virtual/dmi/id")
    return tree


def look(tree: Tree) -> Report:
    return neuron.run(Settings(root=str(tree)))


def test_nothing_is_ever_opened_for_writing(trn1: Tree) -> None:
    trn1.put_neuron(3, mem_ecc_uncorrected=1)
    watched = Watched(trn1.path(_PLACE))
    try:
        report = probe("neuron", Settings(root=str(trn1), deadline_s=40.0))
        assert told(report) == [("neuron3", "ecc-uncorrected", _FAIL, Action.REPLACE)]
        events = list(watched.events())
        opened = [name for mask, name in events if mask & _OPEN]
        assert opened.count("total") == 16 * (3 + 2 * 6)
        assert "reset" not in opened
        assert [(hex(mask), name) for mask, name in events if mask & _CHANGES] == []
        # The same eyes see one that opens for writing, though it writes nothing.
        os.close(os.open(trn1.path(f"{_PLACE}/neuron0/reset"), os.O_WRONLY))
        assert [name for mask, name in watched.events() if mask & _CLOSE_WRITE] == ["reset"]
    finally:
        watched.close()


def test_well_devices(trn1: Tree) -> None:
    report = look(trn1)
    assert (report.status, report.reason) == (_OK, "16 Neuron devices, no finding")
    devices: Any = report.values["devices"]
    assert devices["neuron7"] == {
        "serial": "0000000000000007",
        "architecture": "v2",
        "name": "Trn1",
        "cores": 2,
        "counters": {
            "mem_ecc_uncorrected": 0,
            "mem_ecc_repairable_uncorrected": 0,
            "sram_ecc_uncorrected": 0,
            **{name: [0, 0] for name in ("hw_error", "timeout", "failure", "generic_error")},
            **{name: [0, 0] for name in ("reset_req_count", "reset_fail_count")},
        },
    }


@pytest.mark.parametrize(
    ("counters", "what", "status", "action", "evidence"),
    [
        ({"mem_ecc_uncorrected": 2}, "ecc-uncorrected", _FAIL, Action.REPLACE, "mem_ecc_uncorrected 2"),
        ({"sram_ecc_uncorrected": 1}, "ecc-uncorrected", _FAIL, Action.REPLACE, "sram_ecc_uncorrected 1"),
        ({"mem_ecc_repairable_uncorrected": 1}, "ecc-repairable", _WARN, Action.RESET_GPU, "1"),
        ({"hw_error_1": 4}, "hw-error", _FAIL, Action.REPLACE, "hw_error 4 of core 1"),
        ({"reset_fail_count_0": 1}, "reset-failed", _FAIL, Action.REBOOT, "reset_fail_count 1 of core 0"),
    ],
)
def test_a_counter_that_moved(
    counters: dict[str, int], what: str, status: Status, action: Action, evidence: str, trn1: Tree
) -> None:
    trn1.put_neuron(5, **counters)
    report = look(trn1)
    assert told(report) == [("neuron5", what, status, action)]
    assert evidence in report.findings[0].evidence


def test_what_programs_do_wrong_is_no_finding(trn1: Tree) -> None:
    trn1.put_neuron(5, failure_0=9, timeout_1=2, generic_error_0=1, reset_req_count_0=3)
    assert look(trn1).status is _OK


def test_counters_that_a_driver_has_elsewhere_are_found(trn1: Tree) -> None:
    trn1.put_neuron(0, sram_ecc_uncorrected=1, hw_error_0=1)
    device = trn1.path(f"{_PLACE}/neuron0")
    (device / "counters").mkdir()
    (device / "stats/hardware").rename(device / "counters/ecc")
    (device / "neuron_core0/stats/status").rename(device / "neuron_core0/status")
    assert [one.what for one in look(trn1).findings] == ["ecc-uncorrected", "hw-error"]


def test_counters_that_are_nowhere_are_not_well(trn1: Tree) -> None:
    device = trn1.path(f"{_PLACE}/neuron0")
    (device / "stats/hardware").rename(device / "stats/other")
    (device / "stats/other/mem_ecc_uncorrected").rename(device / "stats/other/new_name")
    assert told(look(trn1)) == [("neuron0", "not-readable", _UNKNOWN, Action.CHECK)]
    trn1.put({"info/architecture/arch_type": "v1"}, f"{_PLACE}/neuron0")
    assert look(trn1).status is _OK


def test_devices_that_are_missing(trn1: Tree) -> None:
    trn1.path(f"{_PLACE}/neuron9").rename(trn1.path("gone"))
    report = look(trn1)
    assert told(report) == [("", "device-count", _FAIL, Action.CHECK)]
    assert "16 Neuron devices on the PCI bus, the driver has 15" in report.reason


def test_a_device_that_is_not_even_on_the_bus(tree: Tree) -> None:
    for number in range(15):
        tree.put_neuron(number)
    tree.put({"product_name": "trn1.32xlarge"}, "/sys/devices/virtual/dmi/id")
    assert "15 Neuron devices, trn1.32xlarge has 16" in look(tree).reason


def test_no_driver(tree: Tree) -> None:
    tree.put_pci("0000:00:1e.0", "0x1d0f", "0x7264")
    assert told(look(tree)) == [("", "device-count", _FAIL, Action.CHECK)]


def test_hostile_files(trn1: Tree) -> None:
    trn1.put_fifo(f"{_PLACE}/neuron0/stats/hardware/mem_ecc_uncorrected/total")
    trn1.put({"neuron1/stats/hardware/sram_ecc_uncorrected/total": "9" * 10_000}, _PLACE)
    trn1.path(f"{_PLACE}/neuron2/info/serial_number").write_bytes(b"\xff\x00\x1b")
    trn1.path(f"{_PLACE}/neuron3/stats/again").symlink_to("..")
    report = look(trn1)
    assert report.status is _UNKNOWN
    assert {one.device for one in report.findings} == {"", "neuron0", "neuron1"}


def test_deep_directories_end(trn1: Tree) -> None:
    trn1.path(f"{_PLACE}/neuron0/{'d/' * 200}").mkdir(parents=True)
    assert look(trn1).status is _OK


def test_nothing_here(tree: Tree) -> None:
    assert (look(tree).status, look(tree).reason) == (_OK, "no Neuron device here")
    assert probe("neuron", Settings(root=str(tree))).reason == "no Neuron device here"
