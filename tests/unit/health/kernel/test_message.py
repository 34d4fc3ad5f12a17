# SPDX-License-Identifier: Apache-2.0
"""Messages of several lines, as dmesg and journalctl print them."""

from __future__ import annotations

import pytest

from stepguard.health.kernel import LogLine, events
from stepguard.health.kernel.lines import read, whole_shape
from stepguard.health.kernel.shape import Shape

# kernel-open/nvidia/nv.c and nv-pci.c of open-gpu-kernel-modules, src/nvidia/arch/nvalloc/unix/src/osinit.c.
MISMATCH = (
    "NVRM: API mismatch: the client has the version 550.90.12, but",
    "NVRM: this kernel module has the version 550.54.15.  Please",
    "NVRM: make sure that this kernel module and all NVIDIA driver",
    "NVRM: components have the same version.",
)
LOST = (
    "NVRM: The NVIDIA GPU 0000:41:00.0",
    "NVRM: (PCI ID: 10de:20b2) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus."
STAMPS = [
    "[ 1234.100100] ",
    "[Wed Jan  8 09:03:11 2025] ",
    "[  +0.000000] ",
    "2025-01-08T09:03:11,100100+00:00 ",
    "kern  :err   : [ 1234.100100] ",
    "Jan 08 09:03:11 n1 kernel: ",
    "[ 1234.100100] n1 kernel: ",
]


def printed(stamp: str, lines: tuple[str, ...], indent: int = 0) -> str:
    blanks = " " * (indent or len(stamp))
    return stamp + f"\n{blanks}".join(lines) + "\n"


def lines_of(text: str) -> list[LogLine]:
    return list(read(text.encode()))


def told(text: str) -> list[tuple[object, str, bool]]:
    return [(event.row or event.code, event.device, event.trusted) for event in events(read(text.encode()))]


@pytest.mark.parametrize("stamp", STAMPS)
def test_it_is_one_and_the_kernels(stamp: str) -> None:
    text = printed(stamp, MISMATCH) + printed(stamp, (XID,)) + printed(stamp, LOST)
    assert whole_shape(text.encode()) is Shape.LOG
    assert [line.text.count("\n") for line in lines_of(text)] == [3, 0, 2]
    assert told(text) == [("api-mismatch", "", True), (79, "0000:3b:00", True), ("gone", "0000:41:00", True)]


def test_what_dmesg_decodes_is_not_indented_by() -> None:
    assert told(printed(STAMPS[4], LOST, len(STAMPS[0]))) == [("gone", "0000:41:00", True)]


@pytest.mark.parametrize(
    "head",
    [
        "[ 1234.100100] train[4711]: segfault at 0 ip 0000 sp 0000 error 4 in ",
        "[ 1234.100100] NVRM: API mismatch: the client has the version ",
        "Jan 08 09:03:11 n1 train[4711]: a",
    ],
)
def test_words_of_a_user_with_a_line_end_are_no_message_of_the_kernels(head: str) -> None:
    for width in range(4, len(head) + 8):
        for line in (XID, LOST[2]):
            text = f"{head}\n{' ' * width}{line}\n[ 1234.200100] usb 1-1: new device\n"
            assert not any(trusted for code, _, trusted in told(text) if code in (79, "gone"))


def test_it_makes_no_log_of_a_programs_output() -> None:
    rest = printed(STAMPS[0], MISMATCH).partition("\n")[2]
    assert whole_shape(f"epoch 1\n{rest}".encode()) is Shape.OTHER
    assert whole_shape(f"epoch 1\n{printed(STAMPS[0], MISMATCH)}".encode()) is Shape.OTHER
    assert not any(trusted for _, _, trusted in told(f"epoch 1\n{printed(STAMPS[0], LOST)}"))


def test_lines_of_another_width_or_with_a_stamp_are_their_own() -> None:
    head = f"{STAMPS[0]}usb 1-1: new device\n"
    assert len(lines_of(f"{head}    {XID}\n")) == 2
    assert len(lines_of(f"{head}{' ' * 15}[ 1235.100100] {XID}\n")) == 2
    assert len(lines_of(f"{head} SUBSYSTEM=usb\n")) == 1


def test_its_length_is_bounded() -> None:
    found = lines_of(printed(STAMPS[0], ("usb 1-1: new device",) + ("a" * 1000,) * 5000))
    assert [len(line.text) < 10_000 for line in found] == [True]
