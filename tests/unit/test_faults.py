# SPDX-License-Identifier: Apache-2.0
"""What may stand in a fault file."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepguard.faults import local_faults


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fault"


@pytest.mark.parametrize(
    ("content", "action", "text"),
    [
        (b"replace: XID 79, GPU has fallen off the bus\n", "replace", "XID 79, GPU has fallen off the bus"),
        (b"Reboot : GSP timeout", "reboot", "GSP timeout"),
        (b"check: fans\r\n", "check", "fans"),
        (b"\n  # since monday\n replace: \x1b[31mred", "replace", "[31mred"),
    ],
)
def test_content(path: Path, content: bytes, action: str, text: str) -> None:
    path.write_bytes(content)
    assert local_faults(path) == [("fault-file", action, text)]


def test_a_fault_without_a_reason_is_one(path: Path) -> None:
    path.write_bytes(b"replace:")
    assert local_faults(path) == [("fault-file", "replace", str(path))]


@pytest.mark.parametrize("content", [b"", b"\n", b" \r\n\t\n", b"# replace: x\n", b"  #\n\n"])
def test_a_file_that_says_nothing_is_no_fault(path: Path, content: bytes) -> None:
    """A checker empties it before it writes, or prints nothing where all is well."""
    path.write_bytes(content)
    assert local_faults(path) == []


@pytest.mark.parametrize("content", ["ok", "replace", "gpu 3 is gone", "XID: 79", "replaced: n2", "\0replace: x"])
def test_what_is_not_understood_is_told_and_ends_nothing(path: Path, content: str) -> None:
    path.write_text(content)
    said = content.replace("\0", " ")
    assert local_faults(path) == [("fault-file", "check", f"{path} is not understood: {said}")]


def test_each_line_is_judged_the_gravest_first_and_each_once(path: Path) -> None:
    path.write_text("check: fans\nok\nreboot: GSP\nreplace: XID 79\nreboot: GSP\n")
    assert [fault[1:] for fault in local_faults(path)] == [
        ("replace", "XID 79"),
        ("reboot", "GSP"),
        ("check", "fans"),
        ("check", f"{path} is not understood: ok"),
    ]


def test_no_file_is_no_fault(path: Path) -> None:
    assert local_faults(path) == []


@pytest.mark.parametrize("content", [b"\xff" * (1 << 20), bytes(range(256)) * 4096, b"replace: " + b"x" * 9999])
def test_binary_and_huge_content_is_bounded(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    faults = local_faults(path)
    assert {action for _, action, _ in faults} == {"replace" if content.startswith(b"replace") else "check"}
    assert len(faults) <= 8
    assert all(text.isprintable() and len(text) <= 300 for _, _, text in faults)


def test_many_lines_do_not_hide_the_gravest(path: Path) -> None:
    path.write_text("".join(f"line {number}\n" for number in range(99)) + "replace: XID 79\n")
    assert local_faults(path)[0] == ("fault-file", "replace", "XID 79")


def test_a_directory_in_its_place_asks_for_a_check(tmp_path: Path) -> None:
    ((source, action, _),) = local_faults(tmp_path)
    assert (source, action) == ("fault-file", "check")
