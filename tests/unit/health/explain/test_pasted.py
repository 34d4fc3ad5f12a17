# SPDX-License-Identifier: Apache-2.0
"""What a log goes through on its way into a ticket hides nothing of it."""

from __future__ import annotations

import json

import pytest

from stepguard.health.explain import Explained, explain
from stepguard.health.model import Status

GONE = "NVRM: Xid (PCI:0000:0f:00): 79, pid=4711, name=python, GPU has fallen off the bus."
AMD, PCIE, C3, PORT = "amdgpu 0000:c3:00.0: ", "pcieport 0000:00:01.0: ", "0000:c3:00", "0000:00:01"
UNCORRECTED = "uncorrected"
DPC = PCIE + "DPC: containment event, status:"
QUIET = "NVRM: loading NVIDIA UNIX Open Kernel Module"
LOG = f"[   11.345678] {QUIET}\n[   12.345678] {GONE}\n[   13.345678] usb 1-1: new device\n"


def told(one: Explained) -> list[tuple[object, ...]]:
    return [(event.code, event.device, event.trusted) for event in one.judgement.events]


def test_a_gpu_is_gone(content: bytes = LOG.encode()) -> None:
    one = explain(content)
    assert (one.kind, one.judgement.status) == ("kernel-log", Status.FAIL)
    assert told(one) == [(79, "0000:0f:00", True)]


@pytest.mark.parametrize(
    "content",
    [
        LOG.encode("utf-8-sig"),
        LOG.encode("utf-16"),
        LOG.encode("utf-16-le"),
        LOG.encode("utf-16-be"),
        ("\ufeff" + LOG).encode("utf-16-be"),
        "".join(f"> {line}\n" for line in LOG.splitlines()).encode(),
        "".join(f"    {line}\n" for line in LOG.splitlines()).encode(),
        f"6,1,2,-;{QUIET}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:0f:00.0\n3,2,3,-;{GONE}\n SUBSYSTEM=pci\n"
        " DEVICE=+pci:0000:0f:00.0\n".encode(),
    ],
    ids=["bom", "utf-16", "utf-16-le", "utf-16-be", "utf-16-be with a bom", "quoted", "indented", "kmsg"],
)
def test_the_same_in_another_dress(content: bytes) -> None:
    test_a_gpu_is_gone(content)


RECORDS = {"dmesg": [{"pri": 6, "time": 11.345678, "msg": QUIET}, {"pri": 3, "time": 12.345678, "msg": GONE}]}
LAID_OUT = """{
   "dmesg": [
      {
         "pri": 6,
         "time":    11.345678,
         "msg": "quiet"
      },{
         "pri": 3,
         "time":    12.345678,
         "caller": "T1",
         "msg": "%s"
      }
   ]
}
"""


@pytest.mark.parametrize("text", [json.dumps(RECORDS), json.dumps(RECORDS, indent=3), LAID_OUT % GONE])
def test_dmesg_json(text: str) -> None:
    test_a_gpu_is_gone(text.encode())


def test_what_a_program_wrote_is_not_trusted_in_json() -> None:
    one = explain((LAID_OUT % GONE).replace('"pri": 3', '"pri": 11').encode())
    assert told(one) == [(79, "0000:0f:00", False)]
    assert one.judgement.status is Status.OK


def test_a_part_of_json_is_read() -> None:
    text = LAID_OUT % GONE
    test_a_gpu_is_gone(text[: text.index("GPU has fallen") + len("GPU has fallen off the bus.") + 3].encode())
    assert explain(b'{"dmesg": [').judgement.status is Status.UNKNOWN
    assert explain(b'{"dmesg": 3}').judgement.status is Status.UNKNOWN
    assert explain(b'{"dmesg": [3, null, {"msg": 4}]}').judgement.status is Status.UNKNOWN


@pytest.mark.parametrize("start", ["[   12.345678] ", "Jun  1 12:00:00 n1 kernel: ", ""])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("NVRM: Xid", "(PCI:0000:0f:00): 79, pid=4711"),
        ("NVRM: Xid (PCI:", "0000:0f:00): 79, pid=4711"),
        ("NVRM: Xid (PCI:0000:0f", ":00): 79, pid=4711"),
        ("NVRM: Xid (PCI:0000:0f:00):", "79, pid=4711"),
        ("NVRM: Xid (PCI:0000:0f:00): ", "79, pid=4711"),
        ("NVRM: Xid (PCI:0000:0f:00): 7", "9, pid=4711"),
        ("NVRM: Xid (PCI:0000:0f:00): 79", ", pid=4711"),
        ("NVRM:", "Xid (PCI:0000:0f:00): 79, pid=4711"),
        ("NVRM: Xid (P", "CI:0000:0f:00): 79, pid=4711"),
        ("NVRM: Xid (PCI:0000:", "0f:00):\n79, pid=4711"),
    ],
)
def test_a_line_that_a_narrow_window_broke(start: str, before: str, after: str) -> None:
    one = explain(f"{start}{QUIET}\n{start}{before}\n{after}\n{start}{QUIET}\n".encode())
    assert told(one) == [(79, "0000:0f:00", True)]


def test_what_is_no_rest_is_left_alone() -> None:
    one = explain(b"[    1.0] x\n[   12.345678] NVRM: Xid (PCI:0000:0f:00): 48\n[   13.345678] 9 lives\n")
    assert [event.code for event in one.judgement.events] == [48]


@pytest.mark.parametrize(
    ("line", "source", "code", "device", "status"),
    [
        ("NVRM: The NVIDIA probe routine failed for 1 device(s).", "xid", "probe-failed", "", "fail"),
        ("NVRM: None of the NVIDIA devices were initialized.", "xid", "probe-failed", "", "fail"),
        ("NVRM: No NVIDIA GPU found.", "xid", "none-found", "", "unknown"),
        ("NVRM: No NVIDIA devices probed.", "xid", "none-found", "", "unknown"),
        (AMD + "amdgpu: 2 uncorrectable hardware errors detected in umc block", "amdgpu", UNCORRECTED, C3, "fail"),
        (AMD + "uncorrectable hardware errors detected in umc block", "amdgpu", UNCORRECTED, C3, "fail"),
        (AMD + "{1}uncorrectable hardware error(ERREVENT_X) detected!", "amdgpu", UNCORRECTED, C3, "fail"),
        (AMD + "amdgpu: GPU reset begin!", "amdgpu", "reset", C3, "warn"),
        ("amdgpu: GPU reset(2) failed", "amdgpu", "reset-failed", "", "fail"),
        (AMD + "amdgpu: GPU reset end with ret = -62", "amdgpu", "reset-failed", C3, "fail"),
        (DPC + "0x1f01 source:0x0000", "aer", "contained", PORT, "fail"),
        (DPC + "0x200d, ERR_FATAL received from 0000:0f:00.0", "aer", "contained", "0000:0f:00", "fail"),
        (PCIE + "pciehp: Slot(8): Link Down", "aer", "card-gone", PORT, "fail"),
        (PCIE + "pciehp: Slot(8): Card not present", "aer", "card-gone", PORT, "fail"),
        ("nfs: server nas01 not responding, still trying", "nfs", "not-responding", "nas01", "warn"),
        ("nfs: server nas01 not responding, timed out", "nfs", "not-responding", "nas01", "warn"),
        ("nfs: server nas01 OK", "nfs", "responding", "nas01", "ok"),
    ],
)  # fmt: skip
def test_what_the_kernel_says_besides(line: str, source: str, code: str, device: str, status: str) -> None:
    one = explain(f"[   12.345678] {line}\n".encode())
    assert [(event.source, event.code, event.device) for event in one.judgement.events] == [(source, code, device)]
    assert one.judgement.status == status


@pytest.mark.parametrize(
    "line",
    [
        "amdgpu 0000:c3:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",
        "amdgpu 0000:c3:00.0: amdgpu: no uncorrectable hardware errors detected in umc block",
        "amdgpu 0000:c3:00.0: amdgpu: 3 correctable hardware errors detected in umc block",
        "amdgpu 0000:c3:00.0: amdgpu: GPU reset(2) succeeded!",
        "pcieport 0015:00:00.0: pciehp: Slot(21): Link Down/Up ignored",
        "pcieport 0000:00:01.0: pciehp: Slot(8): Card present",
    ],
)
def test_what_is_well(line: str) -> None:
    one = explain(f"[   12.345678] {line}\n".encode())
    assert (one.judgement.events, one.judgement.status) == ([], Status.OK)
