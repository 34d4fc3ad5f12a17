# SPDX-License-Identifier: Apache-2.0
"""An administrators' group that is named when there are records already may read these too."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from stepguard.archive import record, spooled
from stepguard.archive.index_rebuild import rebuild
from stepguard.archive.local_cluster import Here
from stepguard.archive.ownership import OWNER_ONLY, Ownership
from stepguard.archive.redaction import Redactor, load_rules
from stepguard.archive.regroup import regroup
from unit.archive.spools import UID, Told, whole_job

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users and groups")
REDACTOR = Redactor(b"k" * 32, load_rules(None, ()))
GROUP = 4321
ADMINS = Ownership(GROUP, 0o751, 0o440)
DAY = "lab/2026/11/18"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    path.mkdir(mode=0o711)
    return path


def put(archive: Path, told: Told, ownership: Ownership, complete: bool = True) -> None:
    read = spooled.read(told.put(archive.parent / f"spool-{len(list(archive.parent.iterdir()))}", complete))
    record.write(record.prepare(told.key, read, REDACTOR, Here("here", "lab")), archive, ownership)


def wrong(top: Path, ownership: Ownership) -> list[str]:
    """What the group could not read, or could though there is none."""
    found = []
    for path in [top, *top.rglob("*")]:
        status = path.lstat()
        mode = ownership.directory_mode if path.is_dir() else ownership.file_mode
        if stat.S_IMODE(status.st_mode) != mode or ownership.group_id not in (-1, status.st_gid):
            found.append(f"{path.relative_to(top)} {stat.S_IMODE(status.st_mode):o} {status.st_gid}")
    return found


def test_a_new_record_can_be_read_at_once(archive: Path) -> None:
    """Its script was stored long ago, and its day is there."""
    put(archive, whole_job(job_id=11), OWNER_ONLY)
    put(archive, whole_job(job_id=12), OWNER_ONLY, complete=False)
    for job_id in (12, 13):
        put(archive, whole_job(job_id=job_id), ADMINS)
        assert wrong(archive / DAY / f"{job_id}.0", ADMINS) == []
    for path in (archive / DAY).parents[:3]:
        assert (path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) == (GROUP, 0o751), path
    assert wrong(archive / "lab/index", ADMINS) == []
    assert (archive / DAY / "13.0/script").samefile(archive / DAY / "11.0/script")
    assert (archive / DAY / "13.0/script").stat().st_uid == UID


def test_all_that_was_there_can_be_read_afterwards_and_not_any_more_without_the_group(archive: Path) -> None:
    for job_id in (11, 12):
        put(archive, whole_job(job_id=job_id), OWNER_ONLY)
        put(archive, Told(job_id=job_id, node="n2").prolog().epilog(), OWNER_ONLY)
    owners = {path: path.lstat().st_uid for path in archive.rglob("*")}
    for ownership in (ADMINS, OWNER_ONLY):
        rebuild(archive / "lab", ownership)
        assert regroup(archive / "lab", ownership) == 2 * 5 + 1  # the scripts are one file
        assert wrong(archive / "lab", ownership) == []
        assert regroup(archive / "lab", ownership) == 0
    assert {path: path.lstat().st_uid for path in archive.rglob("*")} == owners


def test_what_is_not_of_the_archive_stays_as_it_is(archive: Path) -> None:
    put(archive, whole_job(), OWNER_ONLY)
    others = archive / "lab" / "lost+found"
    others.mkdir(mode=0o700)
    secret = archive / "secret"
    secret.write_text("root's")
    (archive / DAY / "12.0/link").symlink_to(secret)
    regroup(archive / "lab", ADMINS)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (others, secret)] == [0o700, 0o644]


def test_a_script_that_its_owner_has_opened_to_others_gets_no_more_rights(archive: Path) -> None:
    put(archive, whole_job(), OWNER_ONLY)
    script = archive / DAY / "12.0/script"
    os.chown(script, UID, 5000)
    script.chmod(0o6777)
    put(archive, whole_job(job_id=13), ADMINS)
    assert (script.stat().st_gid, stat.S_IMODE(script.stat().st_mode)) == (GROUP, 0o440)
