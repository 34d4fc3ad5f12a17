# SPDX-License-Identifier: Apache-2.0
"""The archive as it is seen from a host, and what slurmstepd tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepguard.config import Agent, Config
from stepguard.doctor import archive, capture
from stepguard.doctor.archive import check_archive
from stepguard.doctor.capture import check_capture
from stepguard.doctor.result import Level

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="an archive belongs to root")
MOUNTS = "24 1 253:0 / / rw - ext4 /dev/vda1 rw\n31 24 0:45 / {} rw - nfs4 store:/a rw\n"


@pytest.fixture
def directory(prefix: Path) -> Path:
    path = prefix / "archive"
    path.mkdir()
    path.chmod(0o711)
    return path


@needs_root
def test_an_archive_that_nodes_share_and_one_of_this_host(directory: Path) -> None:
    (result,) = check_archive(directory, MOUNTS.format(directory), True)
    assert (result.level, result.found) == (Level.OK, f"{directory} is on a shared file system (nfs4)")
    (result,) = check_archive(directory, MOUNTS.format("/elsewhere"), True)
    assert (result.level, "this host's own disk (ext4)" in result.found) == (Level.UNKNOWN, True)


@needs_root
@pytest.mark.parametrize(
    ("mode", "level", "said"),
    [(0o731, Level.FAIL, "others than root may write"), (0o700, Level.WARN, "users cannot enter")],
)
def test_wrong_rights(directory: Path, mode: int, level: Level, said: str) -> None:
    directory.chmod(mode)
    (result,) = check_archive(directory, MOUNTS, False)
    assert (result.level, said in result.found) == (level, True)


@needs_root
def test_an_archive_of_somebody_elses(directory: Path) -> None:
    os.chown(directory, 1000, -1)
    (result,) = check_archive(directory, MOUNTS, False)
    assert (result.level, "(uid 1000, mode 0711)" in result.found) == (Level.FAIL, True)


@needs_root
@pytest.mark.parametrize("by_link", [False, True])
def test_an_archive_that_others_could_exchange(prefix: Path, directory: Path, by_link: bool) -> None:
    parent = prefix / "theirs"
    parent.mkdir()
    (parent / "archive").mkdir(mode=0o711)
    parent.chmod(0o777)
    path = prefix / "link" if by_link else parent / "archive"
    if by_link:
        path.symlink_to(parent / "archive")
    (result,) = check_archive(path, MOUNTS, False)
    assert (result.level, result.advice) == (Level.FAIL, "chmod 0755")
    assert result.found == (
        f"others may put another directory in the place of {path}: it is below {parent}, where others may exchange it "
        "(mode 0777)"
    )


def test_no_archive(directory: Path) -> None:
    (result,) = check_archive(directory / "missing", MOUNTS, True)
    assert (result.level, result.advice[:20]) == (Level.WARN, "install -d -m 0711 -")
    (directory / "file").touch()
    (result,) = check_archive(directory / "file", MOUNTS, True)
    assert (result.level, "is no directory" in result.found) == (Level.FAIL, True)


def test_an_archive_that_does_not_answer(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_LOOK", "import time; time.sleep(60)")
    monkeypatch.setattr(archive, "_TIMEOUT_S", 0.2)
    (result,) = check_archive(directory, MOUNTS, True)
    assert (result.level, "does not answer within 0.2 s" in result.found) == (Level.WARN, True)


def test_capture_takes_the_plugin_and_the_file_that_hooks_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    default = tmp_path / "stepguard.toml"
    monkeypatch.setattr(capture, "DEFAULT_PATH", default)
    assert check_capture(False, Config())[0].level is Level.WARN
    assert check_capture(True, Config())[0].level is Level.OK
    other = Config(path=tmp_path / "other.toml", agent=Agent(spool="/srv/spool"))
    (result,) = check_capture(True, other)
    assert (result.level, "the only file that hooks read" in result.found) == (Level.WARN, True)
    default.write_text('[agent]\nspool = "/srv/spool"\n')
    assert check_capture(True, other)[0].level is Level.OK
