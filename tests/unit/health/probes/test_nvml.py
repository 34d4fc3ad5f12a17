# SPDX-License-Identifier: Apache-2.0
"""The NVML probe in its child, through pynvml, on the lab's GPUs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.gpus import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    NO_PERMISSION,
    UNKNOWN_ERROR,
    VERSION_MISMATCH,
    Gpus,
    uuid,
)
from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import probe

_DEADLINE_S = 20.0


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    """A /dev with eight GPUs, and what else NVIDIA's driver has there."""
    directory = tmp_path / "dev"
    directory.mkdir()
    for name in (*(f"nvidia{number}" for number in range(8)), "nvidiactl", "nvidia-uvm", "nvidia-caps", "nvidia0x"):
        (directory / name).touch()
    return directory


@pytest.fixture
def look(dev: Path) -> Callable[..., Report]:
    def look(**settings: Any) -> Report:
        return probe("nvml", Settings(**{"deadline_s": _DEADLINE_S, "dev": str(dev), **settings}))

    return look


def _told(report: Report) -> list[tuple[str, str, Status, Action]]:
    return [(one.device, one.what, one.status, one.action) for one in report.findings]


def _gpus(report: Report) -> dict[str, Any]:
    gpus = report.values["gpus"]
    assert isinstance(gpus, dict)
    return gpus


def test_eight_well_gpus(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["gpu1.processes.compute"] = "4711:1073741824 12"
    report = look(gpus_expected=8)
    assert (report.status, report.reason, report.findings) == (Status.OK, "8 GPUs, no finding", [])
    assert list(_gpus(report)) == [uuid(number) for number in range(8)]
    assert report.values["driver"] == {"version": "580.95.05", "nvml_version": "13.580.95.05", "cuda_version": 13000}
    assert (report.values["count"], report.values["expected"]) == (8, {"devices": 8, "gres": 8})
    gpu = _gpus(report)[uuid(1)]
    assert (gpu["index"], gpu["minor"], gpu["pci"]) == (1, 1, "0000:1f:00")
    assert (gpu["name"], gpu["serial"], gpu["vbios"]) == ("NVIDIA H200", "1654223000001", "96.00.BC.00.02")
    assert gpu["ecc"]["mode"] == 1 and gpu["ecc"]["volatile_uncorrected_by_location"] == {"dram": 0, "sram": 0}
    assert gpu["rows"]["banks_by_spare_rows"] == {"max": 6144, "high": 0, "partial": 0, "low": 0, "none": 0}
    assert gpu["power"] == {"usage_mw": 76_000, "limit_mw": 700_000, "energy_mj": 4_000_000_000}
    assert (gpu["temperature"]["gpu"], gpu["temperature"]["memory"], gpu["temperature"]["margin"]) == (33, 44, 52)
    assert gpu["temperature"]["slowdown_margin"] == -2
    assert (gpu["pcie"]["width"], gpu["pcie"]["width_max"], gpu["recovery_action"]) == (16, 16, 0)
    assert gpu["nvlink"]["states"] == [1] * 18 and gpu["nvlink"]["link_replays"] == [0] * 18
    assert gpu["fabric"]["state"] == 3 and gpu["fabric"]["health_summary"] == 1
    assert gpu["processes"] == {"4711": 1 << 30, "12": None}
    assert gpu["mig"] == {"mode": 0, "pending_mode": 0, "devices": {}}
    assert gpu["errors"] == {}


def test_what_is_not_supported_is_null_and_no_finding(gpus: Gpus, look: Callable[..., Report]) -> None:
    for part in ("ecc", "sram", "rows", "repair", "clocks", "temperature", "power", "pcie", "mig", "fabric", "field"):
        del gpus[f"gpu0.{part}"]
    report = look()
    gpu = _gpus(report)[uuid(0)]
    assert report.status is Status.OK
    assert gpu["pages"] == {"corrected": None, "uncorrected": None, "pending": None}  # on Hopper they never are
    assert gpu["ecc"]["volatile_uncorrected"] is None and gpu["rows"]["failure"] is None
    assert gpu["power"]["energy_mj"] is None and gpu["recovery_action"] is None and gpu["fabric"] is None
    assert gpu["nvlink"]["states"] is None and gpu["errors"] == {}


def test_blackwell_has_other_counters_of_links(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus.make_blackwell(0)
    gpus["gpu0.field.208.5"] = 7
    nvlink = _gpus(look())[uuid(0)]["nvlink"]
    assert "link_replays" not in nvlink
    assert nvlink["receive_errors"] == [0] * 5 + [7] + [0] * 12
    assert nvlink["recoveries_failed"] == [0] * 18


def test_an_older_driver_has_an_older_fabric_structure(gpus: Gpus, look: Callable[..., Report]) -> None:
    del gpus["gpu0.fabric.summary"]
    fabric = _gpus(look())[uuid(0)]["fabric"]
    assert (fabric["state"], fabric["health_mask"], fabric["health_summary"]) == (3, 0x1AA, None)


def test_a_mig_gpu_tells_its_devices(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus.make_mig(0, 2)
    report = look()
    gpu = _gpus(report)[uuid(0)]
    assert report.status is Status.OK
    assert gpu["rows"]["failure"] is None
    assert list(gpu["mig"]["devices"].values()) == [
        {"gpu_instance": 7, "compute_instance": 0},
        {"gpu_instance": 8, "compute_instance": 0},
    ]


def test_a_lost_gpu_is_a_finding_and_the_others_are_read(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus.lose(3)
    report = look()
    assert _told(report) == [("GPU 3", "gpu-lost", Status.FAIL, Action.REBOOT)]
    assert len(_gpus(report)) == 7
    assert report.values["unread"] == [{"device": "GPU 3", "index": 3, "status": "fail", "why": "handle: GPU is lost"}]


def test_a_lost_gpu_is_named_by_its_address_where_the_driver_has_it(
    gpus: Gpus, look: Callable[..., Report], tmp_path: Path
) -> None:
    for bus in range(8):
        (tmp_path / "driver" / f"0000:{0x0F + 0x10 * bus:02x}:00.0").mkdir(parents=True)
    gpus.lose(3)
    report = look(driver_gpus=str(tmp_path / "driver"))
    assert _told(report) == [("0000:3f:00", "gpu-lost", Status.FAIL, Action.REBOOT)]
    assert report.values["unread"] == [
        {"device": "0000:3f:00", "pci": "0000:3f:00", "index": 3, "status": "fail", "why": "handle: GPU is lost"}
    ]
    (tmp_path / "driver/0000:0f:00.0").rmdir()
    assert _told(look(driver_gpus=str(tmp_path / "driver")))[0][0] == "GPU 3"


def test_a_gpu_that_is_lost_in_the_middle_keeps_its_name(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["gpu3.fails.nvmlDeviceGetRemappedRows"] = GPU_IS_LOST
    report = look()
    assert _told(report) == [(uuid(3), "gpu-lost", Status.FAIL, Action.REBOOT)]
    assert report.findings[0].evidence == "rows: GPU is lost"


def test_a_gpu_whose_handle_is_an_unknown_error(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["gpu3.fails"] = UNKNOWN_ERROR
    report = look()
    assert _told(report) == [("GPU 3", "gpu-lost", Status.FAIL, Action.REBOOT)]
    assert len(_gpus(report)) == 7


def test_one_value_that_is_an_unknown_error_is_not_ok(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["gpu3.fails.nvmlDeviceGetRemappedRows"] = UNKNOWN_ERROR
    report = look()
    assert report.status is Status.UNKNOWN
    assert report.findings == [
        Finding(
            Status.UNKNOWN,
            uuid(3),
            "not-readable",
            Action.CHECK,
            "cannot tell nvmlDeviceGetRemappedRows: Unknown Error",
        )
    ]
    assert _gpus(report)[uuid(3)]["rows"]["failure"] is None and _gpus(report)[uuid(3)]["power"]["usage_mw"] == 76_000


def test_a_gpu_that_hangs_is_named_and_the_others_are_read(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["gpu3.hangs"] = "nvmlDeviceGetRemappedRows"
    report = look(deadline_s=10.0)
    assert report.findings == [
        Finding(Status.UNKNOWN, uuid(3), "gpu-hangs", Action.CHECK, "no answer, asked for: rows")
    ]
    assert len(_gpus(report)) == 7


def test_nvml_that_hangs_altogether(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["driver.hangs"] = "nvmlInitWithFlags"
    report = look(deadline_s=8.0)
    assert (report.status, report.reason) == (Status.UNKNOWN, "no answer within 8 s: nvmlInit was called")


@pytest.mark.parametrize("count", [0, 1, 7, 16])
def test_as_many_gpus_as_there_are(count: int, make_gpus: Callable[[int], Gpus], look: Callable[..., Report]) -> None:
    make_gpus(count)
    report = look(dev="/nonexistent")
    assert report.status is Status.OK
    assert len(_gpus(report)) == count
    assert report.reason == {0: "no NVIDIA GPU here", 1: "1 GPU, no finding"}.get(count, f"{count} GPUs, no finding")


@pytest.mark.parametrize(("gone", "gres"), [(1, None), (8, None), (0, 9), (8, 8)])
def test_fewer_gpus_than_expected(gone: int, gres: int | None, gpus: Gpus, look: Callable[..., Report]) -> None:
    for number in range(gone):
        gpus.vanish(number)
    report = look(gpus_expected=gres)
    assert _told(report) == [("", "gpu-count", Status.FAIL, Action.REBOOT)]
    assert f"NVML finds {8 - gone}" in report.reason


def test_more_gpus_than_gres_conf_says(gpus: Gpus, look: Callable[..., Report]) -> None:
    assert _told(look(gpus_expected=4)) == [("", "gpu-count", Status.WARN, Action.CHECK)]


def test_with_mig_slurm_does_not_count_gpus(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus.make_mig(0, 7)
    report = look(gpus_expected=14)
    assert (report.status, report.values["expected"]) == (Status.OK, {"devices": 8, "gres": None})


def test_persistence_mode(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["gpu1.persistence"] = 0
    del gpus["gpu2.persistence"]
    told = _gpus(look())
    assert [told[uuid(number)]["persistence"] for number in range(3)] == [1, 0, None]


def test_a_driver_of_another_version(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["driver.fails"] = VERSION_MISMATCH
    report = look()
    assert _told(report) == [("", "driver-mismatch", Status.FAIL, Action.REBOOT)]
    assert "version mismatch" in report.reason


def test_no_driver(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["driver.fails"] = DRIVER_NOT_LOADED
    without = look(dev="/nonexistent")
    assert (without.status, without.reason) == (Status.OK, "no NVIDIA GPU here: the driver is not loaded")
    assert _told(look()) == [("", "driver", Status.FAIL, Action.CHECK)]
    assert _told(look(dev="/nonexistent", gpus_expected=2)) == [("", "driver", Status.FAIL, Action.CHECK)]


def test_an_error_that_says_nothing(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["driver.fails"] = UNKNOWN_ERROR
    report = look(dev="/nonexistent")
    assert (report.status, report.reason) == (Status.UNKNOWN, "NVML does not start: Unknown Error")


def test_no_library(look: Callable[..., Report], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    without = look(dev="/nonexistent", root=str(tmp_path))
    assert (without.status, without.reason) == (Status.OK, "no NVIDIA GPU here")
    for settings in ({}, {"dev": "/nonexistent", "gpus_expected": 8}):
        report = look(root=str(tmp_path), **settings)
        assert _told(report) == [("", "driver", Status.FAIL, Action.CHECK)]
        assert report.reason == "the driver's library libnvidia-ml.so.1 is not installed; 8 GPUs are expected"


def test_only_the_gpus_that_are_asked_for_are_touched(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["gpu3.hangs"] = "*"
    report = look(gpus=("1", uuid(2)))
    assert report.status is Status.OK
    assert list(_gpus(report)) == [uuid(1), uuid(2)]


def test_a_gpu_that_was_asked_for_by_its_uuid_and_is_gone(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus.vanish(2)
    report = look(gpus=(uuid(2), uuid(4)), dev="/nonexistent")
    assert _told(report) == [(uuid(2), "gpu-lost", Status.FAIL, Action.REBOOT)]
    assert _gpus(report)[uuid(4)]["index"] == 3


def test_with_mig_the_indices_of_slurm_are_not_those_of_gpus(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus.make_mig(0, 2)
    assert len(_gpus(look(gpus=("0",)))) == 8


def test_a_gpu_that_one_must_not_ask(gpus: Gpus, look: Callable[..., Report]) -> None:
    gpus["gpu3.fails"] = NO_PERMISSION
    assert _told(look()) == [("GPU 3", "not-readable", Status.UNKNOWN, Action.CHECK)]
    gpus["gpu3.fails"] = 0
    gpus["gpu3.fails.nvmlDeviceGetVbiosVersion"] = NO_PERMISSION
    report = look()
    assert report.status is Status.OK and _gpus(report)[uuid(3)]["vbios"] is None


def test_within_a_job_nvml_tells_only_the_jobs_gpus(
    make_gpus: Callable[[int], Gpus], look: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_gpus(2)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert (look().status, look().reason) == (Status.OK, "2 GPUs, no finding")
