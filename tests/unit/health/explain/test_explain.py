# SPDX-License-Identifier: Apache-2.0
"""What a pasted text is, and what it says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from stepguard.health.explain import explain
from stepguard.health.explain.explained import MAX_BYTES
from stepguard.health.model import Judgement, Status
from stepguard.health.tools.kind import Kind
from stepguard.health.tools.kinds import KINDS

CORPUS = Path(__file__).parents[3] / "data/health/kernel"
LOGS: dict[str, dict[str, Any]] = tomllib.loads((CORPUS / "logs/logs.toml").read_text())
TOOLS = CORPUS.parent / "tools"
TABLE = (TOOLS / "nvidia-smi/v580-healthy.txt").read_text()
XID = "[   12.345678] NVRM: Xid (PCI:0000:0f:00): {}, pid=4711, name=python, text\n"
QUIET = "[   11.345678] NVRM: loading NVIDIA UNIX Open Kernel Module\n"


def verdict(text: str) -> tuple[str, Status]:
    one = explain(text.encode())
    return one.kind, one.judgement.status


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("", "empty", "unknown"),
        (" \n\t\r\n", "empty", "unknown"),
        ("\x00\x01\x02", "unknown", "unknown"),
        ("hello\nworld\n", "unknown", "unknown"),
        ("NVIDIA-SMI has a bad day\n", "unknown", "unknown"),
        (QUIET, "kernel-log", "ok"),
        (QUIET + XID.format(79), "kernel-log", "fail"),
        (XID.format(48), "kernel-log", "fail"),
        (XID.format(43), "kernel-log", "warn"),
        (XID.format(94), "kernel-log", "warn"),
        (XID.format(63), "kernel-log", "ok"),
        (XID.format(999), "kernel-log", "unknown"),
        (XID.format(13), "kernel-log", "warn"),
        (XID.format(13) * 5, "kernel-log", "warn"),
        ("".join(XID.replace("12.3", f"{n}2.3").format(13) for n in range(1, 6)), "kernel-log", "warn"),
        (
            "".join(XID.replace("12.3", f"{n}2.3").replace("4711", f"{n}").format(13) for n in range(1, 6)),
            "kernel-log",
            "fail",
        ),
        ("Jun  1 12:00:00 n1 root: NVRM: Xid (PCI:0000:0f:00): 79, x\n", "kernel-log", "unknown"),
        ("Jun  1 12:00:00 n1 sshd[1]: Accepted publickey for root\n", "kernel-log", "unknown"),
        (QUIET + "Jun  1 12:00:00 n1 root: NVRM: Xid (PCI:0000:0f:00): 79, x\n", "kernel-log", "ok"),
        ("a\nb\n" + XID.format(79), "unknown", "unknown"),
        ("[ 8341.000000] mlx5_core 0000:a1:00.0 ens1f0np0: Link down\n", "kernel-log", "warn"),
        ("[    1.000000] mlx5_core 0000:a1:00.0 ens1f0np0: Link up\n", "kernel-log", "ok"),
        ("[    1.000000] EXT4-fs (nvme0n1p2): Remounting filesystem read-only\n", "kernel-log", "fail"),
    ],
)
def test_kind_and_verdict(text: str, kind: str, status: str) -> None:
    assert verdict(text) == (kind, Status(status))


def test_events_are_shown_though_they_decide_nothing() -> None:
    one = explain(("loss 1.0\nloss 0.9\n" + XID.format(79)).encode())
    assert [(event.line, event.code, event.trusted) for event in one.judgement.events] == [(3, 79, False)]
    assert "prove nothing" in one.judgement.reason


@pytest.mark.parametrize("exit_status", [1, 9, 124, -9])
@pytest.mark.parametrize("text", [QUIET, QUIET + XID.format(63), TABLE], ids=["quiet", "harmless", "nvidia-smi"])
def test_what_a_failed_command_printed_is_never_ok(text: str, exit_status: int) -> None:
    plain, one = (explain(text.encode(), status).judgement for status in (0, exit_status))
    assert plain.status is Status.OK
    assert one.status is not Status.OK
    assert f"ended with {exit_status}" in one.reason
    assert one.events == plain.events


def test_what_a_failed_command_told_counts() -> None:
    assert explain((QUIET + XID.format(79)).encode(), 1).judgement.status is Status.FAIL


def test_a_tool_that_recognizes_a_text_reads_it() -> None:
    seen: list[tuple[str, int | None]] = []

    def read(text: str, exit_status: int | None) -> Judgement:
        seen.append((text, exit_status))
        return Judgement(Status.WARN, "so it says")

    kinds = [
        Kind("other", lambda text: False, read),
        Kind("tool", lambda text: "TOOL" in text, read),
        Kind("later", lambda text: False, read),
    ]
    one = explain("TOOL \xff\n".encode("latin-1"), 3, kinds=kinds)
    assert (one.kind, one.judgement.reason) == ("tool", "so it says")
    assert seen == [("TOOL \ufffd\n", 3)]


def test_the_tools_are_known() -> None:
    smi = (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
        "NVIDIA driver is installed and running.\n"
    )
    one = explain(smi.encode(), 9)
    assert one.kind.startswith("nvidia-smi")
    assert one.judgement.status is not Status.OK


@pytest.mark.parametrize(
    ("codes", "status", "reason"),
    [
        ([157], "unknown", "no catalogue tells whether this is a fault: xid 157"),
        ([61, 999], "unknown", "no catalogue tells whether this is a fault: xid 61, xid 999"),
        ([157, 157, 61, 65, 999], "unknown", "no catalogue tells whether this is a fault: xid 157, xid 61, xid 65, …"),
        ([157, 63], "unknown", "no catalogue tells whether this is a fault: xid 157"),
        ([157, 79], "fail", ""),
    ],
)
def test_an_unknown_verdict_says_of_what(codes: list[int], status: str, reason: str) -> None:
    judgement = explain("".join(XID.format(code) for code in codes).encode()).judgement
    assert (judgement.status, judgement.reason) == (status, reason)


NON_FATAL = (
    "[    1.000000] pcieport 0000:2a:02.0: AER: Uncorrected (Non-Fatal) error received: 0000:2b:00.0\n"
    "[    1.100000] nvme 0000:2b:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer\n"
)
FIRST_BY_FIRMWARE = (
    "[    1.000000] {1}[Hardware Error]: event severity: recoverable\n"
    "[    1.100000] {1}[Hardware Error]:  Error 0, type: recoverable\n"
    "[    1.200000] {1}[Hardware Error]:   section_type: PCIe error\n"
    "[    1.300000] {1}[Hardware Error]:   device_id: 0000:2b:00.0\n"
)


@pytest.mark.parametrize("reported", [NON_FATAL, FIRST_BY_FIRMWARE])
@pytest.mark.parametrize(
    ("end", "status", "action"),
    [
        ("", "warn", "none"),
        ("[    2.000000] pcieport 0000:2a:02.0: AER: device recovery successful\n", "warn", "none"),
        ("[    2.000000] pcieport 0000:2a:02.0: AER: device recovery failed\n", "fail", "reboot"),
        ("[    2.000000] nvme 0000:2b:00.0: AER: can't recover (no error_detected callback)\n", "fail", "reboot"),
    ],
)
def test_a_pcie_error_that_the_kernel_recovers_from_warns(reported: str, end: str, status: str, action: str) -> None:
    judgement = explain((reported + end).encode()).judgement
    assert (judgement.status, judgement.events[-1].action) == (status, action)


def test_what_is_too_large_is_refused() -> None:
    one = explain(b"\n" * (MAX_BYTES + 1))
    assert (one.kind, one.judgement.status) == ("too-large", Status.UNKNOWN)
    assert "256 MiB" in one.judgement.reason


@pytest.mark.parametrize("name", sorted(LOGS))
def test_a_whole_log(name: str) -> None:
    expected = LOGS[name]
    one = explain((CORPUS / f"logs/{name}.log").read_bytes())
    assert (one.kind, one.judgement.status) == (expected["kind"], expected["verdict"])
    found = [
        [e.line, e.source, "" if e.code is None else e.code, e.device, e.fault_class, e.action, e.count, e.trusted]
        for e in one.judgement.events
    ]
    assert found == expected["events"]


def test_no_tool_takes_a_kernels_log_for_its_own() -> None:
    texts = [case["text"] for case in tomllib.loads((CORPUS / "lines.toml").read_text())["case"]]
    forms = [form["line"] for form in tomllib.loads((CORPUS / "formats.toml").read_text())["format"]]
    pastes = [form.replace("{}", text) for form in forms for text in texts]
    assert [(kind.name, paste) for kind in KINDS for paste in pastes if kind.recognizes(paste)] == []


def test_lines_of_a_log_beside_a_tools_output_make_no_ok() -> None:
    assert verdict(TABLE) == ("nvidia-smi", Status.OK)
    found = explain((TABLE + QUIET + XID.format(79)).encode())
    assert (found.kind, found.judgement.status) == ("nvidia-smi", Status.UNKNOWN)
    assert [(event.code, event.trusted, event.line) for event in found.judgement.events] == [
        (79, False, TABLE.count("\n") + 2)
    ]
    assert verdict(TABLE + QUIET + XID.format(63)) == ("nvidia-smi", Status.OK)


def test_of_several_tools_outputs_the_worst_counts() -> None:
    failed = (TOOLS / "dcgmi-diag/v3-fail.txt").read_text()
    assert verdict(TABLE + failed) == ("nvidia-smi+dcgmi-diag", Status.FAIL)
