# SPDX-License-Identifier: Apache-2.0
"""AMD's accelerators through a module that answers as amdsmi 7.0 does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from stepguard.health.model import Action, Report, Status
from stepguard.health.probes import amd
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import probe
from unit.health.probes.trees import Tree, told

_OK, _WARN, _FAIL, _UNKNOWN = Status.OK, Status.WARN, Status.FAIL, Status.UNKNOWN

# `told`: call → what it returns, or the code of the error that it raises, of the second GPU.
_MODULE = """
told = {}
started = True

class AmdSmiException(Exception):
    pass

class AmdSmiLibraryException(AmdSmiException):
    def __init__(self, code):
        self.err_code = code

    def __str__(self):
        return f"Error code:\\n\\t{self.err_code} | AMDSMI_STATUS"

well = {
    "amdsmi_get_gpu_total_ecc_count": {"correctable_count": 5, "uncorrectable_count": 0, "deferred_count": 0},
    "amdsmi_get_gpu_bad_page_info": [],
    "amdsmi_get_gpu_bad_page_threshold": 256,
    "amdsmi_get_violation_status": {"active_hbm_thrm": False, "active_ppt_pwr": True, "active_vr_thrm": "N/A"},
    "amdsmi_get_gpu_xgmi_link_status": {"status": ["U", "U", "X", "U"], "total_links": 4},
    "amdsmi_gpu_xgmi_error_status": 0,
}

def amdsmi_init():
    if not started:
        raise AmdSmiLibraryException(34)

def amdsmi_get_processor_handles():
    return told.get("handles", [0, 1])

def amdsmi_get_gpu_device_bdf(handle):
    return f"0000:{handle}c:00.0"

def amdsmi_get_gpu_device_uuid(handle):
    return f"uuid-{handle}"

def _call(name):
    def call(handle):
        value = told.get(name, well[name]) if handle == 1 else well[name]
        if isinstance(value, int) and name in told and value < 0:
            raise AmdSmiLibraryException(-value)
        return value
    return call

for name in well:
    globals()[name] = _call(name)
"""


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    place = tmp_path / "modules"
    place.mkdir()
    (place / "amdsmi.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(str(place))
    import amdsmi  # type: ignore[import-not-found,unused-ignore]

    yield amdsmi
    del sys.modules["amdsmi"]


@pytest.fixture
def two(tree: Tree) -> Tree:
    tree.put_pci("0000:0c:00.0", "0x1002", "0x74a1", "0x120000")
    tree.put_pci("0000:1c:00.0", "0x1002", "0x740f", "0x038000")
    return tree


def look(tree: Tree) -> Report:
    return amd.run(Settings(root=str(tree)))


def test_well_gpus(two: Tree, smi: Any) -> None:
    report = look(two)
    assert (report.status, report.reason) == (_OK, "2 GPUs, no finding")
    devices: Any = report.values["devices"]
    assert devices["0000:1c:00"] == {
        "uuid": "uuid-1",
        "ecc": {"correctable": 5, "uncorrectable": 0, "deferred": 0},
        "bad_pages": 0,
        "bad_pages_limit": 256,
        "held_down": [],
        "xgmi_links": ["U", "U", "X", "U"],
        "xgmi_error": "NO_ERRORS",
        "errors": {},
    }


@pytest.mark.parametrize(
    ("call", "value", "what", "status", "action", "evidence"),
    [
        ("get_gpu_total_ecc_count", {"uncorrectable_count": 2}, "ecc-uncorrected", _FAIL, Action.RESET_GPU, "2 unc"),
        ("get_gpu_bad_page_info", [{}] * 256, "retired-pages", _FAIL, Action.REPLACE, "256 pages retired, 256 may"),
        ("get_gpu_xgmi_link_status", {"status": ["U", "D"]}, "xgmi-down", _WARN, Action.CHECK, "link 1 of 2"),
        ("gpu_xgmi_error_status", 2, "xgmi-errors", _WARN, Action.CHECK, "XGMI: 2"),
        ("get_violation_status", {"active_hbm_thrm": True}, "clocks-slowed", _WARN, Action.CHECK, "memory temperature"),
        ("get_gpu_total_ecc_count", -43, "not-readable", _UNKNOWN, Action.CHECK, "Error code"),
    ],
)
def test_a_finding(
    call: str, value: object, what: str, status: Status, action: Action, evidence: str, two: Tree, smi: Any
) -> None:
    smi.told[f"amdsmi_{call}"] = value
    report = look(two)
    assert told(report) == [("0000:1c:00", what, status, action)]
    assert evidence in report.findings[0].evidence
    assert report.reason.isprintable()


def test_what_a_guest_is_not_told_is_none(two: Tree, smi: Any) -> None:
    for name in smi.well:
        smi.told[name] = -2
    report = look(two)
    assert (report.status, report.findings) == (_OK, [])
    devices: Any = report.values["devices"]
    assert devices["0000:1c:00"]["ecc"] == {"correctable": None, "uncorrectable": None, "deferred": None}


def test_a_gpu_is_missing(two: Tree, smi: Any) -> None:
    smi.told["handles"] = [0]
    assert told(look(two)) == [("", "gpu-count", _FAIL, Action.REBOOT)]


def test_no_driver(two: Tree, smi: Any) -> None:
    smi.started = False
    report = look(two)
    assert told(report) == [("", "driver", _UNKNOWN, Action.CHECK)]
    assert "amdsmi does not start" in report.reason


@pytest.mark.parametrize(
    "fault", ["raise KeyError('libamd_smi.so')", "raise OSError('no library')", "import nothing_of_it"]
)
def test_amdsmi_cannot_be_imported(fault: str, two: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "amdsmi.py").write_text(fault)
    monkeypatch.syspath_prepend(str(tmp_path))
    report = look(two)
    assert told(report) == [("", "driver", _UNKNOWN, Action.CHECK)]
    assert "2 AMD GPUs on the PCI bus, and amdsmi cannot be imported" in report.reason


def test_amdsmi_is_not_installed(two: Tree) -> None:
    report = probe("amd", Settings(root=str(two), deadline_s=30.0))
    assert told(report) == [("", "driver", _UNKNOWN, Action.CHECK)]


def test_the_graphics_of_a_cpu_is_no_accelerator(tree: Tree) -> None:
    tree.put_pci("0000:04:00.0", "0x1002", "0x1638", "0x030000")
    assert (look(tree).status, look(tree).reason) == (_OK, "no AMD GPU here")
