# SPDX-License-Identifier: Apache-2.0
"""Scripts as XDMoD's ingest_jobscripts.py looks for them."""

from __future__ import annotations

import datetime
import os
import re
import stat
from pathlib import Path

import pytest

from stepguard.archive.xdmod import SCRIPT_MAX_BYTES, export
from unit.archive.stored import DAY_S, Archive

MIDNIGHT_S = datetime.datetime(2026, 11, 29, tzinfo=datetime.UTC).timestamp()
# The pattern of ubccr/supremm.
XDMOD = re.compile(r"^(([0-9]*)(?:\[(\d+)?\])?)\.savescript")


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "archive")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "xdmod"
    path.mkdir()
    return path


def exported(target: Path) -> dict[str, bytes]:
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def test_each_job_lies_under_its_day(archive: Archive, target: Path) -> None:
    archive.put(12, start_s=MIDNIGHT_S - 1, end_s=MIDNIGHT_S + 1, script=b"one")
    archive.put(13, start_s=MIDNIGHT_S, end_s=MIDNIGHT_S + 1, script=b"two")
    done = export(archive.cluster, target, "start")
    assert (done.written, done.unchanged) == (2, 0)
    assert exported(target) == {"20261128/12.savescript": b"one", "20261129/13.savescript": b"two"}
    assert all(XDMOD.match(path.name) for path in target.glob("*/*"))


def test_by_the_day_of_the_end_what_runs_is_left_out(archive: Archive, target: Path) -> None:
    archive.put(12, start_s=MIDNIGHT_S - 1, end_s=MIDNIGHT_S + 1)
    archive.put(13, start_s=MIDNIGHT_S - 1, state="running")
    export(archive.cluster, target, "end")
    assert list(exported(target)) == ["20261129/12.savescript"]


def test_again_nothing_is_written_but_what_has_changed(archive: Archive, target: Path) -> None:
    archive.put(12, start_s=MIDNIGHT_S)
    archive.put(13, start_s=MIDNIGHT_S)
    export(archive.cluster, target, "start")
    before = (target / "20261129/12.savescript").stat()
    (target / "20261129/13.savescript").write_bytes(b"damaged")
    done = export(archive.cluster, target, "start")
    assert (done.written, done.unchanged) == (1, 1)
    after = (target / "20261129/12.savescript").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert exported(target)["20261129/13.savescript"] == b"#!/bin/sh\ntrue\n"


def test_a_long_script_is_cut_where_xdmod_cuts_it(archive: Archive, target: Path) -> None:
    archive.put(12, start_s=MIDNIGHT_S, script=b"#" * 100_000)
    export(archive.cluster, target, "start")
    assert exported(target)["20261129/12.savescript"] == b"#" * 65_535
    assert SCRIPT_MAX_BYTES == 65_535


def test_of_a_requeued_job_the_last_attempt_of_the_day_counts(archive: Archive, target: Path) -> None:
    for attempt, script in ((10, b"ten"), (2, b"two"), (0, b"zero")):
        archive.put(12, attempt=attempt, start_s=MIDNIGHT_S + attempt, script=script)
    export(archive.cluster, target, "start")
    assert exported(target) == {"20261129/12.savescript": b"ten"}


def test_an_interactive_job_has_no_script_and_a_broken_record_stops_nothing(archive: Archive, target: Path) -> None:
    (archive.put(12, start_s=MIDNIGHT_S) / "script").unlink()
    (archive.put(13, start_s=MIDNIGHT_S) / "manifest.json").write_text("{")
    forged = archive.put(14, start_s=MIDNIGHT_S) / "manifest.json"
    forged.write_text(forged.read_text().replace(f'"start_s":{MIDNIGHT_S}', '"start_s":1e300'))
    archive.put(15, start_s=MIDNIGHT_S)
    done = export(archive.cluster, target, "start")
    assert done.written == 1
    day = archive.root / "lab/2026/11/29"
    assert [text.partition(": ")[0] for text in done.unreadable] == [
        f"{day}/13.0/manifest.json",
        f"{day}/14.0/manifest.json",
    ]
    assert list(exported(target)) == ["20261129/15.savescript"]


def test_older_days_may_be_left_alone(archive: Archive, target: Path) -> None:
    archive.put(12, start_s=MIDNIGHT_S - 5 * DAY_S)
    archive.put(13, start_s=MIDNIGHT_S)
    archive.put(14, start_s=MIDNIGHT_S - 60)
    export(archive.cluster, target, "start", MIDNIGHT_S - 1)
    assert list(exported(target)) == ["20261129/13.savescript"]
    export(archive.cluster, target, "start", MIDNIGHT_S - 60)
    assert sorted(exported(target)) == ["20261128/14.savescript", "20261129/13.savescript"]


def test_others_cannot_read_what_is_exported(archive: Archive, target: Path) -> None:
    archive.put(12, start_s=MIDNIGHT_S)
    export(archive.cluster, target, "start")
    assert (target / "20261129/12.savescript").stat().st_mode & 0o007 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another group")
def test_all_belongs_to_the_group_of_the_directory(archive: Archive, target: Path) -> None:
    archive.put(12, start_s=MIDNIGHT_S)
    export(archive.cluster, target, "start")  # into a directory that is not the group's yet
    os.chown(target, 0, 4321)
    target.chmod(0o2750)
    archive.put(13, start_s=MIDNIGHT_S + DAY_S)
    assert export(archive.cluster, target, "start").written == 2
    found = {str(path.relative_to(target)): path.stat() for path in target.rglob("*")}
    assert {name: (one.st_gid, stat.S_IMODE(one.st_mode)) for name, one in found.items()} == {
        "20261129": (4321, 0o2750),
        "20261129/12.savescript": (4321, 0o640),
        "20261130": (4321, 0o2750),
        "20261130/13.savescript": (4321, 0o640),
    }
    assert export(archive.cluster, target, "start").unchanged == 2


def test_no_link_in_the_directory_is_followed(archive: Archive, target: Path, tmp_path: Path) -> None:
    archive.put(12, start_s=MIDNIGHT_S)
    (target / "20261129").mkdir(parents=True)
    (tmp_path / "secret").write_text("root's")
    (target / "20261129/12.savescript").symlink_to(tmp_path / "secret")
    assert export(archive.cluster, target, "start").written == 1
    assert (tmp_path / "secret").read_text() == "root's"
    archive.put(13, start_s=MIDNIGHT_S + DAY_S)
    archive.put(14, start_s=MIDNIGHT_S + 2 * DAY_S)
    (target / "20261130").symlink_to(tmp_path)
    (target / "20261201").write_text("no directory")
    archive.put(15, start_s=MIDNIGHT_S)
    done = export(archive.cluster, target, "start")
    assert (done.written, done.unchanged, sorted(done.refused)) == (
        1,
        1,
        [
            f"{target}/{day}: a link, or no directory: remove it, and the next export makes it anew"
            for day in ("20261130", "20261201")
        ],
    )
    assert not list(tmp_path.glob("*.savescript"))


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_a_day_of_somebody_elses_is_not_written_into(archive: Archive, target: Path) -> None:
    archive.put(12, start_s=MIDNIGHT_S)
    archive.put(13, start_s=MIDNIGHT_S)
    archive.put(14, start_s=MIDNIGHT_S + DAY_S)
    for name, uid in (("20261129", 1234), ("20261130", 4321)):
        (target / name).mkdir()
        os.chown(target / name, uid, -1)
    os.chown(target, 4321, -1)
    done = export(archive.cluster, target, "start")
    assert (done.written, done.refused) == (
        1,
        [f"{target}/20261129: it belongs to uid 1234: remove it, and the next export makes it anew"],
    )
    assert list(exported(target)) == ["20261130/14.savescript"]


def test_a_directory_that_is_not_there_is_not_made(archive: Archive, target: Path) -> None:
    archive.put(12, start_s=MIDNIGHT_S)
    with pytest.raises(FileNotFoundError):
        export(archive.cluster, target / "typo", "start")
    assert list(target.iterdir()) == []
