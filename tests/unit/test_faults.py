# SPDX-License-Identifier: Apache-2.0
"""What may stand in a fault file."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepguard.faults import local_faults


@pytest.mark.parametrize(
    ("content", "action", "text"),
    [
        (b"replace: XID 79, GPU has fallen off the bus\n", "replace", "XID 79, GPU has fallen off the bus"),
        (b"Reboot : GSP timeout", "reboot", "GSP timeout"),
        (b"check: fans", "check", "fans"),
        (b"gpu 3 is gone\nsecond line\n", "replace", "gpu 3 is gone"),
        (b"XID: 79", "replace", "XID: 79"),
    ],
)
def test_content(tmp_path: Path, content: bytes, action: str, text: str) -> None:
    path = tmp_path / "fault"
    path.write_bytes(content)
    assert local_faults(path) == [("fault-file", action, text)]


@pytest.mark.parametrize("content", [b"", b"\n\n", b"replace:"])
def test_a_file_without_a_reason_is_a_fault(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "fault"
    path.write_bytes(content)
    assert local_faults(path) == [("fault-file", "replace", str(path))]


def test_no_file_is_no_fault(tmp_path: Path) -> None:
    assert local_faults(tmp_path / "fault") == []


def test_binary_and_huge_content_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "fault"
    path.write_bytes(b"\xff" * (1 << 20))
    ((_, action, text),) = local_faults(path)
    assert action == "replace"
    assert len(text) <= 4096


def test_a_directory_in_its_place_asks_for_a_check(tmp_path: Path) -> None:
    ((source, action, _),) = local_faults(tmp_path)
    assert (source, action) == ("fault-file", "check")
