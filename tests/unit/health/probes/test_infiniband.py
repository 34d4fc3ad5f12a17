# SPDX-License-Identifier: Apache-2.0
"""Ports, counters and EFAs from trees as the kernel makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepguard.health.model import Action, Report, Status
from stepguard.health.probes import infiniband, memory
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import probe
from unit.health.probes.trees import Tree, told

_OK, _WARN, _FAIL, _UNKNOWN = Status.OK, Status.WARN, Status.FAIL, Status.UNKNOWN
_SAMPLES = Path(__file__).parents[3] / "data/health/tools/fi_info"


@pytest.fixture(autouse=True)
def no_tools(tools: Callable[[str, str], None]) -> None:
    """None but those of a test."""


def look(tree: Tree, **settings: Any) -> Report:
    return infiniband.run(Settings(root=str(tree), **settings))


def test_well_ports(tree: Tree) -> None:
    tree.put_port("mlx5_0/1", symbol_error=3, out_of_sequence=7)
    tree.put_port("mlx5_1/1")
    report = look(tree)
    assert (report.status, report.reason, report.findings) == (_OK, "2 devices, 2 ports, no finding", [])
    ports: Any = report.values["ports"]
    assert ports["mlx5_0/1"]["counters"] == {"link_downed": 0, "port_rcv_data": 0, "symbol_error": 3}
    assert ports["mlx5_0/1"]["hw_counters"] == {"out_of_sequence": 7, "packet_seq_err": 0}
    assert (ports["mlx5_0/1"]["state"], ports["mlx5_0/1"]["rate_gbps"]) == ("active", 400)
    assert look(tree) == report


@pytest.mark.parametrize(
    ("values", "status", "evidence"),
    [
        ({"state": "1: DOWN", "phys_state": "2: Polling", "link_downed": 1}, _FAIL, "no link"),
        ({"state": "1: DOWN", "phys_state": "2: Polling", "port_rcv_data": 9}, _FAIL, "no link"),
        ({"state": "1: DOWN", "phys_state": "2: Polling"}, _WARN, "unused, or it did not come up"),
        ({"state": "1: DOWN", "phys_state": "3: Disabled"}, _WARN, "turned off"),
        ({"state": "2: INIT"}, _WARN, "no subnet manager"),
        ({"state": "4: ACTIVE", "phys_state": "6: LinkErrorRecovery"}, _WARN, "linkerrorrecovery"),
        ({"rate": "200 Gb/sec (2X NDR)"}, _WARN, "rate 200 Gb/s, others of its kind 400 Gb/s"),
        ({"state": "9: ODD"}, _UNKNOWN, "odd"),
        ({"state": ""}, _UNKNOWN, "not told"),
    ],
)
def test_a_port(values: dict[str, object], status: Status, evidence: str, tree: Tree) -> None:
    tree.put_port("mlx5_0/1")
    tree.put_port("mlx5_1/1", **values)
    report = look(tree)
    assert told(report) == [("mlx5_1/1", "port", status, Action.CHECK)]
    assert evidence in report.findings[0].evidence


def test_a_slow_port_of_another_kind_is_well(tree: Tree) -> None:
    tree.put_port("mlx5_0/1")
    tree.put_port("mlx5_9/1", rate="25 Gb/sec (1X EDR)", link_layer="Ethernet")
    assert look(tree).status is _OK


def test_the_ports_that_a_site_names_are_those_that_count(tree: Tree) -> None:
    tree.put_port("mlx5_0/1", state="1: DOWN", phys_state="2: Polling")
    tree.put_port("mlx5_1/1", state="1: DOWN", phys_state="2: Polling", link_downed=4)
    report = look(tree, ports=("mlx5_0/1", "mlx5_7/1"))
    assert told(report) == [
        ("mlx5_0/1", "port", _FAIL, Action.CHECK),
        ("mlx5_7/1", "port", _FAIL, Action.CHECK),
    ]


def test_links_that_are_lost_again_and_again(tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hours = iter([0.0, 1.0, 2.0, 2.5, 9.0, 9.5, 10.0])
    monkeypatch.setattr(memory, "now_s", lambda: 1e6 + 3600 * next(hours))
    found = []
    for count in (40, 41, 42, 43, 43, 1, 2):  # the last but one after the driver was loaded anew
        tree.put_port("mlx5_0/1", link_downed=count)
        found.append([one.evidence for one in look(tree, state=str(tmp_path / "state")).findings])
    assert found == [[], [], [], ["lost its link 3 times within 3 h"], [], [], []]


def test_many_lost_links_of_long_ago_are_no_finding(tree: Tree, tmp_path: Path) -> None:
    tree.put_port("mlx5_0/1", link_downed=4000)
    assert look(tree, state=str(tmp_path / "state")).status is _OK
    assert look(tree).status is _OK


def test_what_cannot_be_remembered_is_told(tree: Tree, tmp_path: Path) -> None:
    tree.put_port("mlx5_0/1")
    (tmp_path / "file").touch()
    report = look(tree, state=str(tmp_path / "file/state"))
    assert told(report) == [("", "link-downed", _UNKNOWN, Action.CHECK)]


@pytest.mark.parametrize("kept", ['{"mlx5_0/1": 7}', '{"mlx5_0/1": [[], [1], ["a", "b"], null, [1e99, 3]]}'])
def test_a_damaged_memory_is_none(kept: str, tree: Tree, tmp_path: Path) -> None:
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (tmp_path / "infiniband.json").write_text(f'{{"boot_id": "{boot_id}", "kept": {kept}}}')
    tree.put_port("mlx5_0/1", link_downed=50)
    assert look(tree, state=str(tmp_path)).status is _OK


@pytest.fixture
def efa(tree: Tree) -> Iterator[Tree]:
    for number in range(4):
        tree.put_pci(f"0000:{number}0:1d.0", "0x1d0f", "0xefa1", "0x020000")
        tree.put_port(f"rdmap{number}s29/1", vendor="0x1d0f", link_layer="Unspecified", retrans_pkts=5)
    tree.put_pci("0000:00:05.0", "0x1d0f", "0xec20", "0x020000")  # ENA
    tree.put({"product_name": "p4d.24xlarge"}, "/sys/devices/virtual/dmi/id")
    yield tree


def test_well_efas(efa: Tree) -> None:
    report = look(efa)
    assert (report.status, report.reason) == (_OK, "4 devices, 4 ports, no finding")


def test_an_efa_that_lost_its_link(efa: Tree) -> None:
    efa.put_port("rdmap2s29/1", vendor="0x1d0f", state="1: DOWN", phys_state="2: Polling")
    assert look(efa).status is _WARN
    efa.put({"rx_bytes": 4096}, "/sys/class/infiniband/rdmap2s29/ports/1/hw_counters")
    assert told(look(efa)) == [("rdmap2s29/1", "port", _FAIL, Action.CHECK)]


def test_an_efa_without_its_driver(efa: Tree) -> None:
    efa.put_pci("0000:90:1d.0", "0x1d0f", "0xefa1")
    assert told(look(efa)) == [("", "efa-count", _FAIL, Action.CHECK)]


def test_fewer_efas_than_the_instance_can_have(efa: Tree) -> None:
    efa.put({"product_name": "p5.48xlarge"}, "/sys/devices/virtual/dmi/id")
    report = look(efa)
    assert told(report) == [("", "efa-count", _WARN, Action.CHECK)]
    assert "4 EFAs, p5.48xlarge can have 32" in report.reason


@pytest.mark.parametrize(
    ("sample", "status", "exit_status"),
    [("no-data.txt", _FAIL, 61), ("no-fabric.txt", _WARN, 0), ("efa.txt", _WARN, 0), ("cut.txt", _UNKNOWN, 0)],
)
def test_what_libfabric_sees(
    sample: str, status: Status, exit_status: int, efa: Tree, tools: Callable[[str, str], None]
) -> None:
    tools("fi_info", f"[ \"$*\" = '-p efa' ] && cat {_SAMPLES / sample}; exit {exit_status}")
    report = look(efa)
    assert report.status is status
    assert {one.what for one in report.findings} == {"fi_info"}


def test_libfabric_that_hangs(efa: Tree, tools: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infiniband, "_FI_INFO_S", 0.5)
    tools("fi_info", "exec sleep 1000")
    report = look(efa)
    assert (report.status, report.findings[0].evidence) == (_UNKNOWN, "no answer within 0.5 s")


def test_libfabric_that_prints_without_end(efa: Tree, tools: Callable[[str, str], None]) -> None:
    tools("fi_info", "exec cat /dev/zero")
    report = look(efa)
    assert report.status is _UNKNOWN


def test_hostile_files(tree: Tree) -> None:
    tree.put_port("mlx5_0/1", link_downed="x" * 9000, symbol_error="\x1b[2J")
    tree.put_fifo("/sys/class/infiniband/mlx5_0/ports/1/rate")
    report = look(tree)
    assert told(report) == [("", "not-readable", _UNKNOWN, Action.CHECK)]
    assert report.reason.isprintable()


def test_nothing_here(tree: Tree) -> None:
    assert look(tree).reason == "no InfiniBand device and no EFA here"
    report = probe("infiniband", Settings(root=str(tree)))
    assert (report.status, report.reason, report.values) == (_OK, "no InfiniBand device and no EFA here", {})


def test_in_its_child(tree: Tree) -> None:
    tree.put_port("mlx5_0/1", state="1: DOWN", phys_state="2: Polling", link_downed=1)
    report = probe("infiniband", Settings(root=str(tree), deadline_s=30.0, ports=("mlx5_0/1",)))
    assert told(report) == [("mlx5_0/1", "port", _FAIL, Action.CHECK)]
