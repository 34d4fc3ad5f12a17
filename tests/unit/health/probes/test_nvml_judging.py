# SPDX-License-Identifier: Apache-2.0
"""Each rule by the value that makes it a finding, as NVML has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.gpus import Gpus, uuid
from stepguard.health.model import Action, Status
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import probe
from stepguard.health.tools.nvidia_rules import RULES

_FAIL, _WARN, _UNKNOWN = Status.FAIL, Status.WARN, Status.UNKNOWN

# What the GPU has → what it is, how bad, what to do, and a word of the evidence.
_CASES: list[tuple[dict[str, object], str, Status, Action, str]] = [
    ({"rows.failure": 1}, "row-remap-failure", _FAIL, Action.REPLACE, "row remapping failed"),
    ({"repair.unrepairable_memory": 1}, "unrepairable-memory", _FAIL, Action.REPLACE, "unrepairable"),
    ({"sram.threshold_exceeded": 1}, "sram-threshold", _FAIL, Action.REPLACE, "SRAM"),
    ({"pages.corrected": 20, "pages.uncorrected": 40}, "retired-pages", _FAIL, Action.REPLACE, "60 pages"),
    (
        {"ecc.volatile.uncorrected": 3, "ecc.volatile.uncorrected.sram": 3},
        "ecc-uncorrected",
        _FAIL,
        Action.RESET_GPU,
        "volatile uncorrectable ECC errors: sram 3",
    ),
    (
        {"temperature.margin": -8},
        "shutdown-temperature",
        _FAIL,
        Action.CHECK,
        "-8 °C to its limit, shuts down at -8 °C",
    ),
    ({"fabric.summary": 2}, "fabric", _FAIL, Action.CHECK, "unhealthy"),
    ({"fabric.status": 15}, "fabric", _FAIL, Action.CHECK, "NVML error 15"),
    ({"fabric.state": 1}, "fabric-state", _WARN, Action.CHECK, "not started"),
    ({"fabric.state": 2}, "fabric-state", _WARN, Action.CHECK, "in progress"),
    ({"fabric.health_mask": 0x1A9}, "fabric-health", _WARN, Action.CHECK, "bandwidth degraded"),
    ({"fabric.health_mask": 0x5AA}, "fabric-health", _WARN, Action.CHECK, "incorrect configuration: 5"),
    ({"fabric.summary": 3}, "fabric-health", _WARN, Action.CHECK, "limited capacity"),
    ({"rows.pending": 1}, "row-remap-pending", _WARN, Action.RESET_GPU, "row remap pending"),
    ({"pages.pending": 1}, "retirement-pending", _WARN, Action.RESET_GPU, "page retirement pending"),
    ({"rows.histogram": "6000 0 0 0 2"}, "no-spare-rows", _WARN, Action.CHECK, "2 memory banks"),
    ({"repair.tpc_pending": 1}, "repair-pending", _WARN, Action.RESET_GPU, "TPC"),
    ({"clocks.reasons": "0x48"}, "clocks-slowed", _WARN, Action.CHECK, "hardware slowdown, hardware thermal slowdown"),
    ({"temperature.margin": -2}, "slowdown-temperature", _WARN, Action.CHECK, "-2 °C to its limit"),
    ({"pcie.width": 8}, "pcie-width", _WARN, Action.CHECK, "8x wide of 16x"),
    ({"link.4": 0, "link.17": 0}, "nvlink-down", _WARN, Action.CHECK, "NVLink 4, 17 of 18 down"),
    ({"ecc.pending": 0}, "ecc-mode-pending", _WARN, Action.RESET_GPU, "ECC will be off"),
    ({"mig.pending": 1}, "mig-mode-pending", _WARN, Action.RESET_GPU, "MIG will be on"),
    ({"field.230": "1 u"}, "recovery-action", _FAIL, Action.RESET_GPU, "gpu reset"),
    ({"field.230": "2 u"}, "recovery-action", _FAIL, Action.REBOOT, "node reboot"),
    ({"field.230": "3 u"}, "recovery-action", _WARN, Action.CHECK, "drain p2p"),
    ({"field.230": "4 u"}, "recovery-action", _FAIL, Action.RESET_GPU, "drain and reset"),
    ({"field.230": "5 u"}, "recovery-action", _WARN, Action.CHECK, "imex"),
    ({"field.230": "6 u"}, "recovery-action", _FAIL, Action.RESET_GPU, "bus"),
    ({"field.230": "7 u"}, "recovery-action", _FAIL, Action.REBOOT, "system reboot"),
    ({"field.230": "99 u"}, "recovery-action", _UNKNOWN, Action.CHECK, "recovery action 99: not known here"),
]
# Values that are no finding, though they are not as they usually are.
_WELL: list[dict[str, object]] = [
    {"clocks.reasons": "0x7"},  # idle, application clocks, power cap
    {"clocks.reasons": "0x100"},
    {"pcie.generation": 1},
    {"rows.corrected": 5, "rows.uncorrected": 1, "rows.histogram": "6000 100 4 1 0"},
    {"ecc.aggregate.uncorrected": 4, "ecc.volatile.corrected": 900},
    {f"link.{link}": 0 for link in range(18)},
    {"pages.corrected": 59, "pages.uncorrected": 0, "pages.pending": 0},
    {"temperature.gpu": 80, "temperature.margin": 5},
    {"fabric.health_mask": 0},
]


@pytest.fixture
def one(tmp_path: Path, nvml_library: Path, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    gpus = Gpus(tmp_path, 1, nvml_library)
    for name, value in gpus.environment.items():
        monkeypatch.setenv(name, value)
    return gpus


@pytest.mark.parametrize(("values", "what", "status", "action", "evidence"), _CASES)
def test_a_value_is_a_finding(
    values: dict[str, object], what: str, status: Status, action: Action, evidence: str, one: Gpus
) -> None:
    one.update({f"gpu0.{key}": value for key, value in values.items()})
    report = probe("nvml", Settings(dev="/nonexistent"))
    assert [(found.device, found.what, found.status, found.action) for found in report.findings] == [
        (uuid(0), what, status, action)
    ]
    assert evidence in report.findings[0].evidence
    assert report.status is status


@pytest.mark.parametrize("values", _WELL)
def test_a_value_is_none(values: dict[str, object], one: Gpus) -> None:
    one.update({f"gpu0.{key}": value for key, value in values.items()})
    report = probe("nvml", Settings(dev="/nonexistent"))
    assert (report.status, report.findings) == (Status.OK, [])


def test_thresholds_before_hopper_are_temperatures(one: Gpus) -> None:
    del one["gpu0.temperature.margin"]
    one.update({"gpu0.temperature.gpu": 93, "gpu0.temperature.slowdown": 92, "gpu0.temperature.shutdown": 97})
    report = probe("nvml", Settings(dev="/nonexistent"))
    assert [found.what for found in report.findings] == ["slowdown-temperature"]
    assert report.findings[0].evidence == "93 °C, slows down at 92 °C"


def test_every_rule_that_nvml_can_tell_of_has_a_case() -> None:
    of_tools = {"not-readable", "reset-required", "drain-and-reset", "memory-temperature"}
    assert {rule.what for rule in RULES} - of_tools == {what for _, what, *_ in _CASES}
