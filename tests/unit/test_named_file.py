# SPDX-License-Identifier: Apache-2.0
"""Whatever stands at a path that the configuration names: it is read to its end, or refused at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from stepguard import named_file
from stepguard.archive import fingerprint_key
from stepguard.archive.redaction import load_rules
from stepguard.errors import ConfigError
from stepguard.faults import local_faults
from stepguard.health.catalogue import of_site

KINDS = {
    "fifo": "it is not a regular file",
    "socket": "No such device or address",
    "directory": "it is not a regular file",
    "zero": "it is not a regular file",
    "huge": "it is larger than",
    "gone": "No such file or directory",
}


@pytest.fixture(params=KINDS)
def one(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    """What cannot be read to its end, and what is said of it."""
    kind, path = request.param, tmp_path / request.param
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    elif kind == "directory":
        path.mkdir()
    elif kind == "zero":
        path = Path("/dev/zero")
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
        path.chmod(0o600)
    return path, KINDS[kind]


def test_a_regular_file_is_read_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert named_file.read(path, 5) == b"12345"
    with pytest.raises(OSError, match="larger than 4 bytes"):
        named_file.read(path, 4)
    with named_file.opened(path) as file:
        assert named_file.beginning(file, 4) == b"1234"


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1")
    (tmp_path / "link").symlink_to("file")
    assert named_file.read(tmp_path / "link", 5) == b"1"


def test_no_descriptor_is_left_open(one: tuple[Path, str]) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises(OSError, match=one[1]):
        named_file.read(one[0], 1 << 20)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_every_file_that_the_configuration_names_is_refused_with_what_to_do(one: tuple[Path, str]) -> None:
    path, why = one
    readers: dict[str, Callable[[], object]] = {
        f"cannot read the site's catalogue: [health] catalogue: {path}: {why}": lambda: of_site(str(path)),
        f"cannot read the redaction rules: {path}: {why}": lambda: load_rules(path, ()),
        f"cannot read the key: [archive] fingerprint_key: {path}: {why}": lambda: fingerprint_key.site(str(path)),
    }
    for said, read in readers.items():
        with pytest.raises(ConfigError) as refused:
            read()
        assert said in str(refused.value)
        assert refused.value.advice


def test_a_fault_file_that_cannot_be_read_asks_for_a_check(one: tuple[Path, str]) -> None:
    path, why = one
    if path.name in ("gone", "huge"):
        pytest.skip("no fault, and one whose beginning counts")
    assert local_faults(path) == [("fault-file", "check", f"{path}: {why}")]


def test_a_key_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"k" * 32)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="the key is not root's alone"):
        fingerprint_key.site(str(path))
    path.chmod(0o600)
    assert fingerprint_key.site(str(path)) == b"k" * 32
