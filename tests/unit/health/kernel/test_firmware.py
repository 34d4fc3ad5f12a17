# SPDX-License-Identifier: Apache-2.0
"""What firmware reports is told by all lines of a record: how grave it is, of which part, of which device."""

from __future__ import annotations

import pytest

from stepguard.health.catalogue import shipped, status_of
from stepguard.health.kernel import LogLine, events
from stepguard.health.kernel.in_context import InContext
from stepguard.health.model import Event

PCIE, MEMORY, CPU = "section_type: PCIe error", "section_type: memory error", "section_type: IA32/X64 processor error"
UNKNOWN = "section type: unknown, 81212a96-09ed-4996-9471-8d729c8e69ed"
DEVICE = [
    "port_type: 4, root port", "version: 3.0", "command: 0x0547, status: 0x4010", "device_id: 0000:3a:01.0", "slot: 5",
    "secondary_bus: 0x3b", "vendor_id: 0x8086, device_id: 0x352a", "class_code: 060400",
]  # fmt: skip


def record(severity: str, *lines: str, number: str = "{1}", section: str = "") -> list[str]:
    """The lines of one record with one section, as the kernel prints them."""
    mark = f"{number}[Hardware Error]: "
    head = [f"{mark}event severity: {severity}", f"{mark} Error 0, type: {section or severity}"]
    return head + [f"{mark}  {line}" for line in lines]


def log(*texts: str, is_kernel: bool = True) -> list[Event]:
    return events(LogLine(n, 1e9 + n, "n1", "kernel", text, is_kernel) for n, text in enumerate(texts, 1))


def brief(found: list[Event]) -> list[tuple[str, object, str, str]]:
    return [(e.source, e.code, e.device, status_of(e.fault_class, e.action)) for e in found]


@pytest.mark.parametrize(
    ("severity", "section", "lines", "told"),
    [
        ("fatal", "", [PCIE, *DEVICE], [("aer", "fatal", "0000:3a:01", "fail")]),
        ("recoverable", "", [PCIE, *DEVICE], [("aer", "recoverable", "0000:3a:01", "warn")]),
        ("corrected", "", [PCIE, *DEVICE], [("aer", "corrected", "0000:3a:01", "ok")]),
        ("fatal", "", [PCIE], [("aer", "fatal", "", "fail")]),
        ("fatal", "recoverable", [PCIE, *DEVICE], [("aer", "recoverable", "0000:3a:01", "warn")]),
        ("fatal", "", [MEMORY], [("mce", "uncorrected", "", "fail")]),
        ("recoverable", "", [MEMORY], [("mce", "recoverable", "", "warn")]),
        ("corrected", "", [MEMORY, " error_type: 2, single-bit ECC"], [("mce", "corrected", "", "warn")]),
        ("info", "fatal", [MEMORY], []),
        ("fatal", "", [CPU], [("mce", "uncorrected", "", "fail")]),
        ("fatal", "", ["section_type: ARM processor error"], [("mce", "uncorrected", "", "fail")]),
        ("fatal", "", ["section_type: CXL Protocol Error"], [("aer", "fatal", "", "fail")]),
        ("fatal", "", [UNKNOWN, "section length: 0x290"], [("mce", "firmware-fatal", "", "fail")]),
        ("recoverable", "", [UNKNOWN], [("mce", "firmware", "", "warn")]),
        ("corrected", "", [UNKNOWN], []),
        ("unknown", "", [MEMORY], []),
        ("fatal", "", [], [("mce", "firmware-fatal", "", "fail")]),
    ],
)  # fmt: skip
def test_a_record(severity: str, section: str, lines: list[str], told: list[tuple[str, object, str, str]]) -> None:
    assert brief(log(*record(severity, *lines, section=section))) == told


@pytest.mark.parametrize(
    ("lines", "source", "device"),
    [([PCIE, *DEVICE], "aer", "0000:3a:01"), ([MEMORY], "mce", ""), ([UNKNOWN], "mce", ""), ([PCIE], "aer", "")],
)
@pytest.mark.parametrize("severity", ["fatal", "recoverable"])
def test_what_the_boot_before_left_decides_nothing(severity: str, lines: list[str], source: str, device: str) -> None:
    texts = ["BERT: Error records from previous boot:", *record(severity, *lines, number="")]
    assert brief(log(*texts)) == [(source, "previous-boot", device, "warn")]


def test_a_record_of_two_sections() -> None:
    mark = "{7}[Hardware Error]: "
    texts = [
        f"{mark}event severity: fatal",
        f"{mark} Error 0, type: fatal", f"{mark}  {PCIE}",
        f"{mark} Error 1, type: recoverable", f"{mark}  {MEMORY}",
    ]  # fmt: skip
    assert brief(log(*texts)) == [("aer", "fatal", "", "fail"), ("mce", "recoverable", "", "warn")]


def test_two_records_whose_lines_came_at_once() -> None:
    one, other = record("fatal", PCIE, *DEVICE), record("corrected", MEMORY, *DEVICE, number="{2}")
    texts = [text for both in zip(one, other, strict=True) for text in both]
    assert brief(log(*texts)) == [("mce", "corrected", "", "warn"), ("aer", "fatal", "0000:3a:01", "fail")]


def test_a_section_whose_head_is_missing_tells_nothing() -> None:
    assert log(f"{{1}}[Hardware Error]:   {MEMORY}") == []
    assert log("{1}[Hardware Error]:   device_id: 0000:3a:01.0") == []


def test_a_program_adds_nothing_to_a_record_of_the_kernels() -> None:
    *head, last = record("fatal", PCIE, DEVICE[3])
    lines = [LogLine(n, None, "", "kernel", text, False) for n, text in enumerate(head)]
    found = events([*lines, LogLine(9, None, "", "kernel", last, True)])
    assert [(event.code, event.device, event.trusted) for event in found] == [("fatal", "", False)]


@pytest.mark.parametrize("end", [": a: potentially unexpected fatal signal 11.", "[1]: segfault at 0 in x[0+1]"])
def test_a_files_name_is_no_record(end: str) -> None:
    assert log(*(text + end for text in record("fatal", MEMORY, UNKNOWN))) == []


def test_records_without_an_end_take_bounded_memory() -> None:
    context = InContext(shipped)
    for number in range(1000):
        context.sightings(
            f"{{{number}}}[Hardware Error]: event severity: fatal", place=LogLine(1, None, "", "", "", True)
        )
    assert len(context.rest()) == 16
