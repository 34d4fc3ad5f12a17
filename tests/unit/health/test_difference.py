# SPDX-License-Identifier: Apache-2.0
"""What moved between two snapshots: all through the lab's GPUs, as prolog and epilog take them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.gpus import DRIVER_NOT_LOADED, GPU_IS_LOST, Gpus, uuid
from stepguard.health.difference import Change, Difference, Kind, compare
from stepguard.health.difference_table import COUNTERS, PARTS, STATES
from stepguard.health.model import Action, Report, Status
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import probe
from stepguard.health.snapshot import Snapshot, build, same_gpus
from unit.health.probes.trees import Tree

Look = Callable[..., Snapshot]

_OK, _WARN, _FAIL, _UNKNOWN = Status.OK, Status.WARN, Status.FAIL, Status.UNKNOWN


def _look(at_s: float = 100.0, only: tuple[str, ...] | None = None, boot_id: str = "one") -> Snapshot:
    report = probe("nvml", Settings(dev="/nonexistent", deadline_s=20.0))
    return build([report], only, at_s, at_s, boot_id)


def _around(change: Callable[[], object], only: tuple[str, ...] | None = None) -> Difference:
    """What happens when that is done in between, as agents look: the second time at the GPUs of the first."""
    before = _look(100.0, only)
    change()
    return compare(before, _look(160.0, same_gpus(before) if only else None))


def _set(gpus: Gpus, values: dict[str, object]) -> Difference:
    return _around(lambda: gpus.update({f"gpu2.{key}": value for key, value in values.items()}))


def test_nothing_moved(gpus: Gpus) -> None:
    gpus["gpu1.clocks.reasons"] = 4
    difference = _around(lambda: gpus.update({"gpu1.temperature.gpu": 70, "gpu1.power.usage_mw": 650_000}))
    assert (difference.changes, difference.appeared, difference.not_known) == ([], [], {})
    assert (difference.gpus, difference.seconds, difference.status) == (8, 60.0, _OK)


@pytest.mark.parametrize(
    ("values", "what", "by", "status"),
    [
        ({"ecc.volatile.corrected": 5}, "ecc.volatile_corrected", 5, _OK),
        ({"ecc.volatile.uncorrected": 2}, "ecc.volatile_uncorrected", 2, _FAIL),
        ({"ecc.aggregate.uncorrected": 1 << 33}, "ecc.aggregate_uncorrected", 1 << 33, _FAIL),
        ({"rows.corrected": 1}, "rows.corrected", 1, _WARN),
        ({"pcie.replays": 12}, "pcie.replays", 12, _OK),
        ({"field.180": "1 u"}, "pcie.fatal_errors", 1, _FAIL),
        ({"field.162.3": 2}, "nvlink.link_recoveries.3", 2, _WARN),
    ],
)
def test_a_counter_moved(values: dict[str, object], what: str, by: int, status: Status, gpus: Gpus) -> None:
    difference = _set(gpus, values)
    assert difference.changes == [Change(Kind.MOVED, uuid(2), what, 0, by, by, status)]
    assert difference.status is status


@pytest.mark.parametrize(
    ("values", "what", "before", "after", "appeared"),
    [
        ({"rows.failure": 1}, "rows.failure", 0, 1, "row-remap-failure"),
        ({"rows.pending": 1}, "rows.pending", 0, 1, "row-remap-pending"),
        ({"field.230": "2 u"}, "recovery_action", 0, 2, "recovery-action"),
        ({"pcie.width": 8}, "pcie.width", 16, 8, "pcie-width"),
        ({"link.3": 0}, "nvlink.states", [1] * 18, [1] * 3 + [0] + [1] * 14, "nvlink-down"),
        ({"fabric.summary": 2}, "fabric.health_summary", 1, 2, "fabric"),
        ({"ecc.mode": 0}, "ecc.mode", 1, 0, "ecc-mode-pending"),
        ({"vbios": "97"}, "vbios", "96.00.BC.00.02", "97", ""),
        ({"power.limit_mw": 500_000}, "power.limit_mw", 700_000, 500_000, ""),
    ],
)
def test_a_state_changed(
    values: dict[str, object], what: str, before: object, after: object, appeared: str, gpus: Gpus
) -> None:
    difference = _set(gpus, values)
    assert difference.changes == [Change(Kind.CHANGED, uuid(2), what, before, after)]
    assert [(one.device, one.what) for one in difference.appeared] == ([(uuid(2), appeared)] if appeared else [])


def test_a_finding_that_was_there_before_did_not_appear(gpus: Gpus) -> None:
    gpus["gpu2.rows.failure"] = 1
    difference = _set(gpus, {"rows.pending": 1})
    assert [one.what for one in difference.appeared] == ["row-remap-pending"]
    assert difference.status is _WARN


def test_a_reset_in_between(gpus: Gpus) -> None:
    gpus.update({"gpu2.ecc.volatile.corrected": 9, "gpu2.ecc.aggregate.corrected": 20, "gpu2.pcie.replays": 4})
    difference = _set(
        gpus,
        {"ecc.volatile.corrected": 2, "ecc.aggregate.corrected": 22, "pcie.replays": 0, "power.energy_mj": 5_000},
    )
    assert difference.changes == [
        Change(Kind.RESET, uuid(2), "ecc.volatile_corrected", 9, 2),
        Change(Kind.MOVED, uuid(2), "ecc.volatile_corrected", 9, 2, 2),
        Change(Kind.MOVED, uuid(2), "ecc.aggregate_corrected", 20, 22, 2),
        Change(Kind.RESET, uuid(2), "pcie.replays", 4, 0),
        Change(Kind.RESET, uuid(2), "power.energy_mj", 4_000_000_000, 5_000),
    ]
    assert difference.energy_j[uuid(2)] == 5.0


def test_energy_and_throttling(gpus: Gpus) -> None:
    difference = _set(gpus, {"power.energy_mj": 4_000_042_000, "field.74": 1_500_000_000, "field.270": 2_000_000})
    assert difference.changes == []
    assert difference.energy_j == {**{uuid(number): 0.0 for number in range(8)}, uuid(2): 42.0}
    assert difference.throttled_ms == {uuid(2): {"power_cap": 1500.0, "hardware_thermal": 2.0}}


def test_what_is_not_told_any_longer_is_no_change_to_zero(gpus: Gpus) -> None:
    gpus.update({"gpu2.ecc.volatile.uncorrected": 3, "gpu2.rows.failure": 1})

    def lose_values() -> None:
        del gpus["gpu2.ecc.volatile.uncorrected"]
        del gpus["gpu2.rows"]
        del gpus["gpu2.power.energy_mj"]

    difference = _around(lose_values)
    assert difference.changes == []
    assert difference.not_known == {
        uuid(2): [
            "ecc.volatile_uncorrected",
            *(f"rows.{what}" for what in ("corrected", "uncorrected", "pending", "failure")),
            "power.energy_mj",
        ]
    }
    assert difference.energy_j[uuid(2)] is None


@pytest.mark.parametrize("only", [None, ("2", "3")])
def test_a_gpu_is_lost(only: tuple[str, ...] | None, gpus: Gpus) -> None:
    difference = _around(lambda: gpus.lose(2), only)
    assert difference.changes == [Change(Kind.UNREAD, uuid(2), "gpu", "0000:2f:00", "handle: GPU is lost", None, _FAIL)]
    assert difference.gpus == (1 if only else 7)
    assert [one.what for one in difference.appeared] == ["gpu-lost"]


def test_a_gpu_is_lost_while_it_is_read(gpus: Gpus) -> None:
    difference = _set(gpus, {"fails.nvmlDeviceGetRemappedRows": GPU_IS_LOST})
    assert [(one.kind, one.device, one.after) for one in difference.changes] == [
        (Kind.UNREAD, uuid(2), "rows: GPU is lost")
    ]


def test_a_gpu_vanishes(gpus: Gpus) -> None:
    difference = _around(lambda: gpus.vanish(2))
    assert difference.changes == [
        Change(Kind.CHANGED, "", "nvml.count", 8, 7),
        Change(Kind.VANISHED, uuid(2), "gpu", "0000:2f:00", None, None, _FAIL),
    ]
    assert difference.gpus == 7
    assert [(one.what, one.action) for one in difference.findings()] == [("vanished: gpu", Action.REBOOT)]


def test_a_gpu_of_a_job_vanishes_and_the_indices_of_the_others_move(gpus: Gpus) -> None:
    difference = _around(lambda: gpus.vanish(2), ("2", "3"))
    assert [(one.kind, one.device) for one in difference.changes] == [(Kind.CHANGED, ""), (Kind.VANISHED, uuid(2))]
    assert difference.gpus == 1


def test_a_new_gpu(gpus: Gpus) -> None:
    difference = _around(lambda: gpus.add(9))
    assert difference.changes[1:] == [Change(Kind.NEW, uuid(9), "gpu", None, "0000:9f:00")]


def test_another_gpu_in_its_place(gpus: Gpus) -> None:
    difference = _set(gpus, {"uuid": "GPU-another", "serial": "2", "ecc.volatile.corrected": 7})
    assert difference.changes == [Change(Kind.SWAPPED, uuid(2), "0000:2f:00", uuid(2), "GPU-another", None, _WARN)]


def test_a_gpu_that_answers_again(gpus: Gpus) -> None:
    gpus.lose(2)
    difference = _around(lambda: gpus.__delitem__("gpu2.fails"))
    assert difference.changes == []
    assert difference.not_known == {uuid(2): ["gpu"]}


def test_mig_devices_come_and_go(gpus: Gpus) -> None:
    gpus.make_mig(2, 2)
    gone, new = "MIG-00000002-0000-5b1d-8c5e-6f0a1d2e3c4b", "MIG-00000002-0000-new"
    difference = _set(gpus, {"mig0.uuid": new})
    at = {"gpu_instance": 7, "compute_instance": 0}
    assert difference.changes == [
        Change(Kind.MIG_VANISHED, uuid(2), gone, at, None, None, _WARN),
        Change(Kind.MIG_NEW, uuid(2), new, None, at),
    ]


def test_the_driver_was_updated(gpus: Gpus) -> None:
    difference = _around(lambda: gpus.update({"driver.version": "590.1", "driver.cuda_version": 13010}))
    assert [(one.device, one.what, one.after) for one in difference.changes] == [
        ("", "nvml.driver.version", "590.1"),
        ("", "nvml.driver.cuda_version", 13010),
    ]


def test_a_reboot_in_between(gpus: Gpus) -> None:
    before = _look(1000.0)
    after = {**_look(10.0, boot_id="two"), "at_s": 1300.0}
    difference = compare(before, after)
    assert difference.changes == [Change(Kind.REBOOTED, "", "boot_id", "one", "two", None, _WARN)]
    assert difference.seconds == 300.0


def test_gpus_that_are_not_known_on_one_side(gpus: Gpus) -> None:
    difference = _around(lambda: gpus.update({"driver.fails": DRIVER_NOT_LOADED}))
    assert difference.changes == []
    assert "gpus" in difference.not_known[""]
    assert (difference.status, difference.gpus) == (_UNKNOWN, 0)


def test_it_is_json(gpus: Gpus) -> None:
    document = _set(gpus, {"rows.failure": 1}).to_document()
    assert json.loads(json.dumps(document)) == document
    assert (document["schema"], document["status"]) == (1, "fail")
    assert document["appeared"][0]["what"] == "row-remap-failure"


def test_all_that_is_compared_is_there(gpus: Gpus) -> None:
    gpus.make_blackwell(1)
    gpu_values: list[dict[str, Any]] = list(copy.deepcopy(_look())["gpus"].values())
    for path in [*(counter.path for counter in COUNTERS), *STATES]:
        part, _, name = path.partition(".")
        assert any(part in values and (not name or name in values[part]) for values in gpu_values), path


@pytest.mark.parametrize("count", [0, 1, 16])
def test_any_number_of_gpus(count: int, make_gpus: Callable[[int], Gpus]) -> None:
    make_gpus(count)
    difference = compare(_look(), _look())
    assert (difference.gpus, difference.changes) == (count, [])


def _shared(probe_name: str, part: str, devices: dict[str, object] | None, at_s: float = 0.0) -> Snapshot:
    """A node without NVIDIA's GPUs, of which a probe tells these devices; None: it could not look."""
    values: dict[str, object] = {} if devices is None else {part: devices}
    reports = [Report("nvml", _OK, "no NVIDIA GPU here"), Report(probe_name, _OK, values=values)]
    return build(reports, None, at_s, at_s, "one")


def _devices(probe_name: str, part: str, before: dict[str, Any], after: dict[str, Any] | None) -> Difference:
    return compare(_shared(probe_name, part, before), _shared(probe_name, part, after, 60.0))


_PORT = {"state": "active", "rate_gbps": 400, "counters": {"link_downed": 4, "symbol_error": 1}, "hw_counters": {}}


def test_ports_whose_counters_moved() -> None:
    after = {**_PORT, "rate_gbps": 200, "counters": {"link_downed": 6, "symbol_error": 2, "port_rcv_data": 9}}
    difference = _devices("infiniband", "ports", {"mlx5_0/1": _PORT, "mlx5_1/1": _PORT}, {"mlx5_0/1": after, "x/1": {}})
    assert difference.changes == [
        Change(Kind.MOVED, "mlx5_0/1", "counters.link_downed", 4, 6, 2, _WARN),
        Change(Kind.MOVED, "mlx5_0/1", "counters.symbol_error", 1, 2, 1, _OK),
        Change(Kind.CHANGED, "mlx5_0/1", "rate_gbps", 400, 200),
        Change(Kind.DEVICE_GONE, "mlx5_1/1", "infiniband.ports", "mlx5_1/1", None, None, _WARN),
        Change(Kind.DEVICE_NEW, "x/1", "infiniband.ports", None, "x/1"),
    ]
    assert difference.status is _WARN
    assert [one.what for one in difference.findings()] == [
        "moved: counters.link_downed",
        "device-gone: infiniband.ports",
    ]


@pytest.mark.parametrize(
    ("probe_name", "part", "before", "after", "what", "status"),
    [
        (
            "neuron",
            "devices",
            {"counters": {"hw_error": [0, 0]}},
            {"counters": {"hw_error": [0, 2]}},
            "hw_error.1",
            _FAIL,
        ),
        ("neuron", "devices", {"counters": {"timeout": [1]}}, {"counters": {"timeout": [2]}}, "timeout.0", _WARN),
        (
            *("neuron", "devices", {"counters": {"sram_ecc_uncorrected": 0}}),
            *({"counters": {"sram_ecc_uncorrected": 1}}, "sram_ecc_uncorrected", _FAIL),
        ),
        ("host", "edac", {"corrected": 3, "uncorrected": 0}, {"corrected": 3, "uncorrected": 1}, "uncorrected", _FAIL),
        ("host", "edac", {"corrected": 3}, {"corrected": 30}, "corrected", _OK),
        ("amd", "devices", {"ecc": {"uncorrectable": 0}}, {"ecc": {"uncorrectable": 4}}, "ecc.uncorrectable", _FAIL),
        ("amd", "devices", {"bad_pages": 1}, {"bad_pages": 2}, "bad_pages", _WARN),
        (
            *("infiniband", "ports", {"hw_counters": {"retrans_timeout_events": 7}}),
            *({"hw_counters": {"retrans_timeout_events": 8}}, "hw_counters.retrans_timeout_events", _WARN),
        ),
    ],
)
def test_counters_of_other_devices(
    probe_name: str, part: str, before: dict[str, Any], after: dict[str, Any], what: str, status: Status
) -> None:
    difference = _devices(probe_name, part, {"one": before}, {"one": after})
    assert [(one.kind, one.device, one.status) for one in difference.changes] == [(Kind.MOVED, "one", status)]
    assert difference.changes[0].what.endswith(what)


def test_a_counter_that_was_cleared_in_between() -> None:
    before, after = [{"one": {"counters": {"hw_error": [count]}}} for count in (9, 1)]
    assert [one.kind for one in _devices("neuron", "devices", before, after).changes] == [Kind.RESET, Kind.MOVED]


def test_a_probe_that_could_not_look_on_one_side() -> None:
    difference = _devices("infiniband", "ports", {"mlx5_0/1": _PORT}, None)
    assert difference.changes == []
    assert difference.not_known == {"": ["infiniband.ports"]}
    assert _devices("infiniband", "ports", {}, None).not_known == {}


def test_a_node_without_gpus_is_no_unknown() -> None:
    difference = _devices("infiniband", "ports", {"mlx5_0/1": _PORT}, {"mlx5_0/1": _PORT})
    assert (difference.status, difference.changes, difference.not_known) == (_OK, [], {})


def test_all_parts_are_read_by_their_probes(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "root")
    tree.put_port("mlx5_0/1")
    tree.put_neuron(0)
    tree.put({"ce_count": 0, "ue_count": 0}, "/sys/devices/system/edac/mc/mc0")
    for part in PARTS:
        if part.probe != "amd":  # its test compares all its values
            values: Any = probe(part.probe, Settings(root=str(tree), deadline_s=30.0)).values
            device = next(iter(values[part.path].values()))
            for path in [*(counter.path for counter in part.counters), *part.states]:
                if not path.startswith(("counters.", "hw_counters.")) or part.probe == "neuron":
                    name, _, rest = path.partition(".")
                    assert name in device and (not rest or rest in device[name]), (part.probe, path)
