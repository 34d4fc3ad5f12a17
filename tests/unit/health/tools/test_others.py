# SPDX-License-Identifier: Apache-2.0
"""DCGM, libfabric, InfiniBand and Neuron: the reasons, and what is particular to each."""

from __future__ import annotations

import json

import pytest

from stepguard.health.model import Status
from stepguard.health.tools.json_text import first_document, whole_number
from unit.health.tools.samples import judgement, kind_of, text_of


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "dcgmi-diag/v3-fail.txt",
            "GPU 1: GPU Memory: Fail: GPU 1 Memory test failed: 4 uncorrectable errors. Run a field",
        ),
        ("dcgmi-diag/v4-fail.json", "GPU 1: memory: Fail: GPU 1 has faulty memory. (DCGM error 52)"),
        ("dcgmi-diag/v4-error-inside-pass.json", "GPU 0: memory: Pass: GPU 0 memory could not be allocated."),
        ("dcgmi-diag/v4-runtime-error.json", "did not run: The requested tests were not found: pulse_test"),
        ("dcgmi-diag/unknown-root.json", "a shape that is not known"),
        ("dcgmi-diag/v3-skipped.txt", "all tests were skipped"),
        ("dcgmi-health/failure.txt", "Memory system: Failure: A DBE was found in the memory of GPU 3."),
        ("dcgmi-health/no-watches.txt", "Health watches not enabled"),
        ("fi_info/no-data.txt", "fi_getinfo: -61 (No data available)"),
        ("fi_info/no-fabric.txt", "traffic would go over shm, tcp"),
        ("ibstat/down.txt", "mlx5_1/1: state Down, physical state Polling: no link"),
        ("ibstat/slow.txt", "mlx5_1/1: rate 100 Gb/s, others of its kind 400 Gb/s"),
        ("neuron-ls/missing.txt", "neuron4: connected to device 5, which is not there"),
        ("neuron-ls/too-few.txt", "12 Neuron devices, trn1.32xlarge has 16"),
        ("neuron-monitor/ecc.jsonl", "neuron1: mem_ecc_uncorrected 2"),
        ("neuron-monitor/hardware-error.jsonl", "pid 4711: hardware errors 4"),
    ],
)
def test_reasons(name: str, reason: str) -> None:
    assert reason in judgement(name).reason


def test_a_note_of_dcgm_is_put_together_from_its_lines() -> None:
    reasons = {one.device: one.reason for one in judgement("dcgmi-health/failure.txt").devices}
    assert reasons["GPU 0"] == (
        "PCIe system: Warning: Detected more than 8 PCIe replays per minute for GPU 0 : 31 Reconnect PCIe card. "
        "Run system side PCIE diagnostics."
    )


@pytest.mark.parametrize("name", ["v3-healthy.txt", "v4-healthy.txt", "v3-healthy.json", "v4-healthy.json"])
def test_dcgmi_that_failed_with_all_tests_passed_is_a_warning(name: str) -> None:
    assert judgement(f"dcgmi-diag/{name}", 205).status is Status.WARN


@pytest.mark.parametrize("name", ["GPU Memory", "PCIe      "])
def test_a_test_that_dcgm_left_out_is_unknown(name: str) -> None:
    passed = f"| {name:<25} | Pass - All"
    text = text_of("dcgmi-diag/v3-healthy.txt")
    assert passed in text
    one = kind_of("dcgmi-diag").read(text.replace(passed, passed.replace("Pass", "Skip")), 0)
    assert (one.status, one.reason) == (Status.UNKNOWN, f"{name.strip()} was skipped, though others ran")


@pytest.mark.parametrize(
    ("severity", "status"),
    [
        (0, "ok"),
        (1, "warn"),
        (2, "fail"),
        (3, "warn"),
        (4, "warn"),
        (5, "warn"),
        (6, "fail"),
        (None, "warn"),
        (7, "warn"),
    ],
)
def test_an_error_inside_a_pass_counts_by_its_severity(severity: int | None, status: str) -> None:
    result = {
        "entity_group": "GPU",
        "entity_id": 0,
        "status": "Pass",
        "warnings": [{"warning": "w", "error_severity": severity}],
    }
    document = {"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "memory", "results": [result]}]}]}}
    assert kind_of("dcgmi-diag").read(json.dumps(document), 0).status is Status(status)


@pytest.mark.parametrize("width", [45, 46])
def test_a_note_of_a_diagnostic_loses_no_letter(width: int) -> None:
    """dcgmi breaks after 45 characters; the column has 46."""
    said = (
        "Error using CUDA API cuMemAlloc: out of memory for a buffer of 1048576 bytes; 12 blocks were tested before it"
    )
    parts = [said[at : at + width] for at in range(0, len(said), width)]
    rows = "".join(f"| {'Warning' if not at else '':<25} | {part:<46} |\n" for at, part in enumerate(parts))
    table = text_of("dcgmi-diag/v3-fail.txt").replace("| Info ", rows + "| Info ")
    assert said in kind_of("dcgmi-diag").read(table, 0).reason


@pytest.mark.parametrize(("value", "status"), [("", "unknown"), ("Fail - GPU: , ", "fail"), ("Warn - All", "warn")])
def test_a_row_of_a_diagnostic_that_is_damaged_is_not_lost(value: str, status: str) -> None:
    table = text_of("dcgmi-diag/v3-healthy.txt").replace(f"{'Pass - All':<46}", f"{value:<46}", 1)
    note = f"| {'Warning':<25} | {'GPU 0 is slow.':<46} |\n"
    rule = "+-----  Hardware"
    kind = kind_of("dcgmi-diag")
    assert kind.read(table, 0).status is Status(status)
    assert kind.read(table.replace(rule, note + rule), 0).status in (Status(status), Status.WARN)


@pytest.mark.parametrize(
    "document",
    [
        {"DCGM Diagnostic": []},
        {"DCGM Diagnostic": {"test_categories": {"tests": 1}}},
        {"DCGM Diagnostic": {"test_categories": [{"tests": [{"results": [{}]}]}]}},
        {"DCGM Diagnostic": {"test_categories": [None, 3, {"tests": [None, {"results": None}]}]}},
        {"iterations": [None, {"DCGM Diagnostic": None}], "test_categories": 1},
    ],
)
def test_json_of_another_shape_is_unknown(document: object) -> None:
    assert kind_of("dcgmi-diag").read(json.dumps(document), 0).status is Status.UNKNOWN


def test_a_part_of_broken_json_is_no_document() -> None:
    assert first_document('[INFO] hello\n{"a": 1}\n') == {"a": 1}
    assert first_document('{"iterations": [\n{"passed": 1},\n{"failed":\n') is None
    assert first_document('{"iterations": [\n{"passed": 1},\n!]}\n{"b": 2}') == {"b": 2}
    assert first_document("[" * 100_000) is None
    assert first_document("no brace") is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(3, 3), ("4", 4), (5.0, 5), (5.5, None), (True, None), ("x", None), (None, None), ([], None)],
)
def test_whole_number(value: object, expected: int | None) -> None:
    assert whole_number(value) == expected


def test_ports_and_devices_are_named_as_their_tools_name_them() -> None:
    assert [one.device for one in judgement("ibstat/healthy.txt").devices] == ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1"]
    assert [one.device for one in judgement("fi_info/efa.txt").devices] == ["rdmap79s0", "rdmap80s0"]
    assert [one.device for one in judgement("neuron-ls/healthy.json").devices] == [f"neuron{n}" for n in range(4)]


@pytest.mark.parametrize(
    "text",
    [
        "provider: of services\nand more\n",
        "CA certificates are installed\n",
        "hca_id is not set\n",
        '{"neuron": 1}\n',
        "Health Monitor Report - 3 of March\n",
        "| Diagnostic | Result |\n",
        '{"body": {"x": 1}}\n',
    ],
)
def test_what_is_from_none_of_them(text: str) -> None:
    for kind in ("dcgmi-diag", "dcgmi-health", "fi_info", "ibstat", "ibv_devinfo", "neuron-ls", "neuron-monitor"):
        assert not kind_of(kind).recognizes(text), kind
