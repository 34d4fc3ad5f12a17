# SPDX-License-Identifier: Apache-2.0
"""Files that are not what they should be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepguard.health.probes import memory
from stepguard.health.probes.files import ATTRIBUTE_BYTES
from stepguard.health.probes.files import Tree as Files
from unit.health.probes.trees import Tree


def test_what_stands_there(tree: Tree) -> None:
    tree.put({"a": "text", "n": "12", "minus": "-3", "na": "N/A (no PMA)", "empty": ""})
    files = Files(str(tree))
    assert (files.text("/a"), files.number("/n"), files.number("/minus")) == ("text", 12, -3)
    assert (files.number("/na"), files.number("/empty"), files.text("/none"), files.names("/none")) == (
        None,
        None,
        None,
        [],
    )
    assert files.errors == {}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"x" * (ATTRIBUTE_BYTES + 1), "larger than 4096 bytes"),
        (b"twelve", "no number: twelve"),
        (b"\x00\xff\x1b[31m", "no number: ?\N{REPLACEMENT CHARACTER}?[31m"),
        (b"9" * 21, "no number: " + "9" * 21),
        (b"1 2", "no number: 1 2"),
    ],
)
def test_what_is_no_number(content: bytes, why: str, tree: Tree) -> None:
    tree.path("bad").write_bytes(content)
    files = Files(str(tree))
    assert files.number("/bad") is None
    assert files.errors == {"/bad": why}


def test_a_pipe_is_not_waited_for(tree: Tree) -> None:
    tree.put_fifo("pipe")
    files = Files(str(tree))
    assert files.text("/pipe") is None
    assert files.errors == {"/pipe": "not a file"}


def test_directories_devices_and_circles(tree: Tree) -> None:
    tree.put({"d/x": 1})
    tree.path("loop").symlink_to("loop")
    files = Files(str(tree))
    assert (files.text("/d"), files.text("/loop"), files.names("/loop")) == (None, None, [])
    assert files.errors == {"/d": "not a file", "/loop": "Too many levels of symbolic links"}
    assert files.text("/d/x/y") is None
    assert Files("/dev").text("/zero") is None


def test_a_read_that_fails() -> None:
    files = Files("/proc/self")
    assert files.text("/mem") is None  # nothing is mapped at 0
    assert files.errors == {"/mem": "Input/output error"}


def test_no_descriptor_is_left_open(tree: Tree) -> None:
    tree.put({"a": 1})
    tree.put_fifo("pipe")
    before = sorted(Path("/proc/self/fd").iterdir())
    files = Files(str(tree))
    for path in ("/a", "/pipe", "/none", "/"):
        files.text(path)
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_memory_keeps(tmp_path: Path) -> None:
    place = str(tmp_path / "state")
    assert memory.load(place, "x") == {}
    memory.save(place, "x", {"a": [1, 2]})
    memory.save(place, "x", {"a": [1, 3]})
    assert memory.load(place, "x") == {"a": [1, 3]}
    assert [path.name for path in Path(place).iterdir()] == ["x.json"]
    assert memory.load(None, "x") == {}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[" * 100_000, b"\xff", b"[]", b'{"boot_id": "another", "kept": {}}', b'{"kept": []}']
)
def test_memory_that_is_damaged_is_none(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    assert memory.load(str(tmp_path), "x") == {}


def test_memory_follows_no_link_and_waits_for_no_pipe(tmp_path: Path) -> None:
    memory.save(str(tmp_path), "y", {"a": 1})
    (tmp_path / "x.json").symlink_to("y.json")
    assert memory.load(str(tmp_path), "x") == {}
    os.mkfifo(tmp_path / "z.json")
    assert memory.load(str(tmp_path), "z") == {}
