# SPDX-License-Identifier: Apache-2.0
"""The judge of a GPU, the values, and the reasons that the forms of nvidia-smi come to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepguard.health.model import Status
from stepguard.health.tools.nvidia_gpu import Gpu
from stepguard.health.tools.nvidia_readings import gpu_of
from stepguard.health.tools.nvidia_rules import RULES, judge
from stepguard.health.tools.values import bus_id, flag, is_fault, is_told, number
from unit.health.tools.samples import judgement, kind_of, text_of

WELL = Gpu("0000:0f:00", told=1)


@pytest.mark.parametrize(
    ("changed", "status", "reason"),
    [
        (WELL, "ok", "no finding"),
        (Gpu("0000:0f:00"), "unknown", "nothing is told"),
        (replace(WELL, cut=True), "unknown", "the text ends"),
        (replace(WELL, unread={"x": "seven"}), "unknown", "cannot tell x: seven"),
        (replace(WELL, cut=True, remap_failure=True), "fail", "row remapping failed: replace"),
        (replace(WELL, faults={"power draw": "ERR!"}), "fail", "power draw: ERR!"),
        (replace(WELL, ecc_uncorrected={"DRAM": 2, "SRAM": 0}), "fail", "ECC errors: DRAM 2: reset the GPU"),
        (replace(WELL, ecc_uncorrected={"DRAM": 0}), "ok", "no finding"),
        (replace(WELL, recovery_action="None"), "ok", "no finding"),
        (replace(WELL, recovery_action="Reset"), "fail", "reset: reset the GPU"),
        (replace(WELL, recovery_action="NODE_REBOOT"), "fail", "reboot the node"),
        (replace(WELL, recovery_action="Drain P2P"), "warn", "recovery action drain p2p"),
        (replace(WELL, recovery_action="Drain and Reset"), "fail", "drain and reset: reset the GPU"),
        (replace(WELL, recovery_action="Something New"), "unknown", "something new: not known here"),
        (replace(WELL, reset_required=True), "fail", "reset required"),
        (replace(WELL, remap_pending=True), "warn", "row remap pending"),
        (replace(WELL, retired_pages_pending=True), "warn", "page retirement pending"),
        (replace(WELL, retired_pages={"double bit": 40, "single bit": 19}), "ok", "no finding"),
        (replace(WELL, retired_pages={"double bit": 40, "single bit": 20}), "fail", "60 pages retired"),
        (
            replace(WELL, slowdowns={"power brake": True, "hardware slowdown": False}),
            "warn",
            "slowed down: power brake",
        ),
        (replace(WELL, temperature_c=93), "ok", "no finding"),
        (replace(WELL, temperature_c=94), "warn", "94 °C"),
        (replace(WELL, temperature_c=94, slowdown_at_c=95), "ok", "no finding"),
        (replace(WELL, temperature_c=95, slowdown_at_c=95), "warn", "95 °C, slows down at 95 °C"),
        (replace(WELL, temperature_c=99, slowdown_at_c=95, shutdown_at_c=99), "fail", "shuts down at 99 °C"),
        (replace(WELL, margin_c=-1, slowdown_margin_c=-2, shutdown_margin_c=-8), "ok", "no finding"),
        (replace(WELL, margin_c=-2, slowdown_margin_c=-2, shutdown_margin_c=-8), "warn", "slows down at -2 °C"),
        (replace(WELL, margin_c=-8, slowdown_margin_c=-2, shutdown_margin_c=-8), "fail", "shuts down at -8 °C"),
        (replace(WELL, pcie_width=8, pcie_width_max=16), "warn", "PCIe link 8x wide of 16x"),
        (replace(WELL, pcie_width=16, pcie_width_max=16), "ok", "no finding"),
        (replace(WELL, links=[True, False, True]), "warn", "NVLink 1 of 3 down"),
        (replace(WELL, links=[False, False]), "ok", "no finding"),
        (replace(WELL, ecc=True, ecc_pending=False), "warn", "ECC will be off after a reset: reset the GPU when"),
        (replace(WELL, mig=False, mig_pending=True), "warn", "MIG will be on after a reset"),
        (replace(WELL, mig=True, mig_pending=True, ecc=True), "ok", "no finding"),
        (replace(WELL, fabric={"state": "completed", "status": "success"}), "ok", "no finding"),
        (replace(WELL, fabric={"state": "not started"}), "warn", "state not started"),
        (replace(WELL, fabric={"state": "completed", "summary": "unhealthy"}), "fail", "unhealthy"),
        (replace(WELL, fabric={"state": "completed", "bandwidth": "degraded"}), "warn", "bandwidth degraded"),
    ],
)
def test_judge(changed: Gpu, status: str, reason: str) -> None:
    said = judge(changed)
    assert said.status is Status(status)
    assert reason in said.reason


def test_the_worst_finding_comes_first() -> None:
    said = judge(replace(WELL, remap_pending=True, remap_failure=True))
    assert said.reason == "row remapping failed: replace; row remap pending: reset the GPU when convenient"


@pytest.mark.parametrize(
    "names",
    [
        ("ecc_mode/current", "ecc_mode/pending"),
        ("ecc_mode/current_ecc", "ecc_mode/pending_ecc"),
        ("ecc.mode.current", "ecc.mode.pending"),
    ],
)
def test_a_pending_mode_is_found_in_all_forms(names: tuple[str, str]) -> None:
    gpu = gpu_of("g", list(zip(names, ("Disabled", "Enabled"), strict=True)))
    assert judge(gpu).status is Status.WARN
    assert judge(gpu_of("g", [(name, "Enabled") for name in names])).reason == "nothing is told of its health"
    assert judge(gpu_of("g", [(names[1], "Enabled")])).status is Status.UNKNOWN


def test_every_rule_names_its_source() -> None:
    assert all(rule.source for rule in RULES)


@pytest.mark.parametrize("value", ["N/A", "[N/A]", "[Not Supported]", "Insufficient Permissions", "", "Not Found"])
def test_what_tells_nothing(value: str) -> None:
    assert not is_told(value)
    assert not is_fault(value)
    gpu = gpu_of("g", [("temperature.gpu", value), ("remapped_rows.failure", value), ("gpu_recovery_action", value)])
    assert judge(gpu).status is Status.UNKNOWN


@pytest.mark.parametrize("value", ["ERR!", "[Unknown Error]", "Unknown Error", "[GPU is lost]", "GPU requires reset"])
def test_what_is_an_error(value: str) -> None:
    assert is_fault(value)
    assert judge(gpu_of("g", [("power.draw", value)])).status is Status.FAIL


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:0F:00.0", "0000:0f:00"),
        ("GPU0000:20:00.0", "0000:20:00"),
        ("GPU3: 0000:AB:1c.7: Unknown Error", "0000:ab:1c"),
        ("00010000:0F:00.0", "10000:0f:00"),
        ("12:30:59", None),
        ("0F:00.0", None),
    ],
)
def test_bus_id(text: str, expected: str | None) -> None:
    assert bus_id(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("34 C", 34),
        ("16x", 16),
        ("76.60 W", 76.6),
        ("-8 C", -8),
        ("2560 bank(s)", 2560),
        ("0x1f", None),
        ("a", None),
        ("12ab", None),
    ],
)
def test_number(value: str, expected: float | None) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(("value", "expected"), [("Yes", True), ("Not Active", False), ("1", True), ("maybe", None)])
def test_flag(value: str, expected: bool | None) -> None:
    assert flag(value) is expected


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nvidia-smi/v550-err.txt", "0000:43:00: ECC errors: ERR!"),
        ("nvidia-smi/mismatch.txt", "Driver/library version mismatch"),
        ("nvidia-smi/handle-lost.txt", "0000:9d:00: does not answer: GPU is lost."),
        ("nvidia-smi/cut-at-80-columns.txt", "the text ends before all is told"),
        ("nvidia-smi-query/ecc.txt", "0000:43:00: volatile uncorrectable ECC errors: SRAM parity 1, DRAM 2"),
        ("nvidia-smi-query/missing-gpus.txt", "2 of 8 attached GPUs are told"),
        ("nvidia-smi-xml/ecc.xml", "0000:43:00: volatile uncorrectable ECC errors: DRAM 6"),
        ("nvidia-smi-csv/unknown-error.csv", "GPU 1: clocks.current.sm: Unknown Error"),
        ("nvidia-smi-csv/noheader.csv", "its columns are not named"),
        ("nvidia-smi-query/healthy.txt", "2 devices without a finding"),
    ],
)
def test_reasons(name: str, reason: str) -> None:
    assert reason in judgement(name).reason


@pytest.mark.parametrize(
    ("exit_status", "status"),
    [
        (0, "ok"),
        (None, "ok"),
        (6, "unknown"),
        (9, "fail"),
        (14, "warn"),
        (15, "fail"),
        (124, "unknown"),
        (255, "unknown"),
    ],
)
def test_what_nvidia_smi_ends_with_counts(exit_status: int | None, status: str) -> None:
    for name in ("nvidia-smi/v580-healthy.txt", "nvidia-smi-query/healthy.txt", "nvidia-smi-xml/v13-healthy.xml"):
        assert judgement(name, exit_status).status is Status(status)


TABLES = ["v418-healthy", "v450-healthy", "v470-geforce", "v565-mig", "v580-healthy"]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_that_does_not_end_may_lack_gpus(name: str) -> None:
    """A table does not say how many GPUs there are; behind each stands the rule that may be the last."""
    lines = text_of(f"nvidia-smi/{name}.txt").splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines) if "Processes:" in line)
    for count in range(3, end):
        text = "".join(lines[:count])
        for cut in (text, text.rstrip(), text + "[ops@gn041 ~]$\n", text + "".join(lines)):
            said = kind_of("nvidia-smi").read(cut, 0)
            assert said.status is Status.UNKNOWN, text
            assert "ends before" in said.reason
    assert kind_of("nvidia-smi").read("".join(lines[: end + 1]), 0).status is Status.OK


def test_a_hung_command_is_named() -> None:
    assert (
        judgement("nvidia-smi/v580-healthy.txt", 124).reason == "the command ended with 124: it did not answer in time"
    )


def test_the_three_forms_agree() -> None:
    for healthy in ("nvidia-smi-query/healthy.txt", "nvidia-smi-xml/v13-healthy.xml", "nvidia-smi-csv/healthy.csv"):
        assert [one.device for one in judgement(healthy).devices] == ["0000:1b:00", "0000:43:00"]


@pytest.mark.parametrize(
    "text",
    [
        "[  12.3] NVRM: Xid (PCI:0000:0f:00): 79, GPU has fallen off the bus.\n",
        "loss 0.31 Unable to determine what to do\n",
        "a, b, c\n1, 2, 3\n",
        "RuntimeError: No CUDA GPUs are available\n",
        "<xml><gpu>1</gpu></xml>\n",
        "GPU 0: done\n",
    ],
)
def test_what_is_not_from_nvidia_smi(text: str) -> None:
    for kind in ("nvidia-smi", "nvidia-smi-query", "nvidia-smi-xml", "nvidia-smi-csv"):
        assert not kind_of(kind).recognizes(text)
