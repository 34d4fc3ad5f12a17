# SPDX-License-Identifier: Apache-2.0
"""The index is appended to, healed, compacted and rebuilt, and leads root nowhere."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest

from stepguard.archive.index import REBUILT, append
from stepguard.archive.index_lines import Entry, entry_from, entry_of, line_of, rows_of
from stepguard.archive.index_reading import Query, search
from stepguard.archive.index_rebuild import forget, rebuild
from stepguard.archive.layout import ClusterLayout
from stepguard.archive.ownership import Ownership
from stepguard.records.manifest import FindingRecord
from unit.archive.building import DAY, entry, manifest, node, write_record

UID = os.geteuid()
as_root = pytest.mark.skipif(UID != 0, reason="gives files to other users")


def known(cluster: Path, uid: int | None = None) -> list[Entry]:
    return [found.entry for found in search([ClusterLayout(cluster)], Query(uid=uid))[0]]


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    path = tmp_path / "lab"
    path.mkdir()
    return path


@pytest.mark.parametrize(
    "name",
    ["train", "", "two words", 'a"b\\c', "tab\tnewline\n", "\x1b[31mred", "caf\u00e9", "bad\udcff\udc80", "\u202e"],
)
def test_a_line_gives_back_its_entry(name: str) -> None:
    one = entry(name=name, end_s=None, exit="", state="running", start_s=None)
    rows, gone = rows_of(line_of(one))
    assert [entry_from(row, one.uid) for row in rows.values()] == [one]
    assert not gone


def test_a_long_name_is_cut() -> None:
    (row,) = rows_of(line_of(entry(name="x" * 70000)))[0].values()
    found = entry_from(row, 0)
    assert found is not None
    assert found.name == "x" * 256


def test_the_last_line_of_a_record_counts(cluster: Path) -> None:
    append(cluster, "n1", entry(state="running", end_s=None, exit=""))
    append(cluster, "n1", entry(13))
    append(cluster, "n1", entry(findings=2), sync=True)
    assert sorted(known(cluster)) == [entry(findings=2), entry(13)]


def test_modes(cluster: Path) -> None:
    append(cluster, "n1", entry())
    modes = [stat.S_IMODE((cluster / name).stat().st_mode) for name in ("index", f"index/{UID}", f"index/{UID}/n1.tsv")]
    assert modes == [0o711, 0o500, 0o400]
    assert [path.name for path in (cluster / "index").iterdir()] == [str(UID)]


@as_root
def test_a_group_of_administrators(cluster: Path) -> None:
    append(cluster, "n1", entry(uid=1234), Ownership(4321, 0o751, 0o440, 0o550))
    status = [(cluster / name).stat() for name in ("index", "index/1234", "index/1234/n1.tsv")]
    assert [(one.st_uid, one.st_gid, stat.S_IMODE(one.st_mode)) for one in status] == [
        (0, 4321, 0o751),
        (1234, 4321, 0o550),
        (1234, 4321, 0o440),
    ]


@as_root
def test_a_group_that_comes_later_may_read_the_lines_that_were_there(cluster: Path) -> None:
    append(cluster, "n1", entry(12, uid=1234))
    append(cluster, "n1", entry(13, uid=1234), Ownership(4321, 0o751, 0o440, 0o550))
    status = (cluster / "index/1234/n1.tsv").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (1234, 4321, 0o440)
    assert sorted(one.job_id for one in known(cluster)) == ["12", "13"]


@as_root
def test_a_group_that_comes_later_gets_nothing_that_is_not_the_users(cluster: Path) -> None:
    append(cluster, "n1", entry(uid=1234))
    secret = cluster / "secret"
    secret.write_text("root's\n")
    secret.chmod(0o600)
    file = cluster / "index/1234/n1.tsv"
    for make in (file.symlink_to, file.hardlink_to):
        file.unlink()
        make(secret)
        append(cluster, "n1", entry(uid=1234), Ownership(4321, 0o751, 0o440, 0o550))
        rebuild(cluster, Ownership(4321, 0o751, 0o440, 0o550))
        assert (secret.stat().st_gid, stat.S_IMODE(secret.stat().st_mode)) == (0, 0o600)


def test_a_torn_line_is_ignored_and_healed(cluster: Path) -> None:
    append(cluster, "n1", entry(12))
    file = cluster / f"index/{UID}/n1.tsv"
    file.chmod(0o600)
    for cut in range(1, len(line_of(entry(13)))):
        whole = line_of(entry(12))
        file.write_bytes(whole + line_of(entry(13))[:-cut])
        if cut > 1:
            assert known(cluster) == [entry(12)], cut
        append(cluster, "n1", entry(14))
        expected = [entry(12), *([entry(13)] if cut == 1 else []), entry(14)]
        assert sorted(known(cluster)) == expected, cut


def test_a_file_that_has_grown_is_compacted(cluster: Path) -> None:
    for number in range(3000):
        append(cluster, "n1", entry(number % 5, findings=number))
    file = cluster / f"index/{UID}/n1.tsv"
    assert file.stat().st_size < 65536 + 200
    assert stat.S_IMODE(file.stat().st_mode) == 0o400
    assert sorted(one.findings for one in known(cluster)) == [2995, 2996, 2997, 2998, 2999]


def test_what_is_needed_is_not_compacted_away(cluster: Path) -> None:
    for number in range(2000):
        append(cluster, "n1", entry(number))
    assert len(known(cluster)) == 2000


@as_root
def test_links_of_the_user_lead_root_nowhere(cluster: Path) -> None:
    append(cluster, "n1", entry(uid=1234))
    secret = cluster / "secret"
    secret.write_text("root's\n")
    secret.chmod(0o600)
    file = cluster / "index/1234/n1.tsv"
    for make in (file.symlink_to, file.hardlink_to):
        file.unlink()
        make(secret)
        append(cluster, "n1", entry(uid=1234))
        assert secret.read_text() == "root's\n"
        assert secret.stat().st_uid == 0
        assert stat.S_ISREG(file.lstat().st_mode)
        assert file.stat().st_uid == 1234
        assert known(cluster) == [entry(uid=1234)]
    file.unlink()
    secret.rename(file)  # a file of root's that was moved there
    append(cluster, "n1", entry(uid=1234))
    assert list(rows_of(file.read_bytes())[0]) == [entry().path]


def test_a_fifo_of_the_user_holds_up_nobody(cluster: Path) -> None:
    append(cluster, "n1", entry())
    directory = cluster / f"index/{UID}"
    directory.chmod(0o700)
    (directory / "n1.tsv").unlink()
    os.mkfifo(directory / "n1.tsv")
    assert known(cluster) == []
    append(cluster, "n1", entry())
    assert known(cluster) == [entry()]


def test_a_name_that_is_no_node(cluster: Path) -> None:
    with pytest.raises(OSError, match="not the name of a node"):
        append(cluster, "../../n1", entry())


def test_rebuild_finds_what_no_line_tells(tmp_path: Path) -> None:
    write_record(tmp_path, manifest("12"), findings=[FindingRecord("stale-node-list", "n3 has left")])
    write_record(tmp_path, manifest("13", 1, state="running", end_s=None, exit_status=None, exit_signal=None))
    write_record(tmp_path, nodes=[node("n2", "14")])
    damaged = write_record(tmp_path, manifest("15"))
    (damaged / "manifest.json").write_text("{")
    (tmp_path / "lab" / DAY / "16.0").mkdir()
    assert rebuild(tmp_path / "lab") == 4
    found = {one.job_id: one for one in known(tmp_path / "lab")}
    assert {job_id: (one.state, one.exit, one.findings) for job_id, one in found.items()} == {
        "12": ("ended", "0:0", 1),
        "13": ("running", "", 0),
        "14": ("lost", "", 0),
        "15": ("damaged", "", 0),
    }
    assert found["12"].path == f"{DAY}/12.0"
    assert found["14"].nodes == "n2"


def test_rebuild_takes_out_what_is_gone_and_keeps_younger_lines(tmp_path: Path) -> None:
    cluster = tmp_path / "lab"
    write_record(tmp_path, manifest("12"))
    append(cluster, "n1", entry(12, state="running", end_s=None, exit=""))
    append(cluster, "n1", entry(13))
    assert rebuild(cluster) == 1
    assert [(one.job_id, one.state) for one in known(cluster)] == [("12", "ended")]
    append(cluster, "n1", entry(12, findings=3))
    append(cluster, "n1", entry(14))
    assert sorted((one.job_id, one.findings) for one in known(cluster)) == [("12", 3), ("14", 0)]


def test_rebuild_leaves_nothing_where_the_index_is_right(tmp_path: Path) -> None:
    write_record(tmp_path, manifest("12"))
    rebuild(tmp_path / "lab")
    (one,) = known(tmp_path / "lab")
    append(tmp_path / "lab", "n1", one)
    assert rebuild(tmp_path / "lab") == 1
    assert [path.name for path in (tmp_path / f"lab/index/{UID}").iterdir()] == ["n1.tsv"]
    assert known(tmp_path / "lab") == [one]


@as_root
def test_rebuild_believes_the_owner_of_the_file_alone(tmp_path: Path) -> None:
    directory = write_record(tmp_path, manifest("12", uid=1))
    os.chown(directory / "manifest.json", 1234, -1)
    wrong = write_record(tmp_path, manifest("13", name=["a\tb"]))
    os.chown(wrong / "manifest.json", 1234, -1)
    assert rebuild(tmp_path / "lab") == 2
    assert [(one.job_id, one.state) for one in known(tmp_path / "lab", 1234)] == [("12", "ended"), ("13", "damaged")]
    assert known(tmp_path / "lab", 1) == []


def test_what_was_pruned_is_forgotten_for_good(cluster: Path) -> None:
    for number in (12, 13, 14):
        append(cluster, "n1", entry(number))
    forget(cluster, {UID: [f"{DAY}/12.0"]})
    forget(cluster, {UID: [f"{DAY}/13.0"]})
    assert [one.job_id for one in known(cluster)] == ["14"]
    for number in range(3000):
        append(cluster, "n1", entry(14, findings=number))
    assert f"{DAY}/12.0".encode() not in (cluster / f"index/{UID}/n1.tsv").read_bytes()
    rebuild(cluster)
    assert (cluster / f"index/{UID}" / REBUILT).exists()  # 14 has no record
    assert known(cluster) == []


def test_what_comes_again_after_it_was_pruned_is_there(cluster: Path) -> None:
    """A job ran on though its record was taken for abandoned: the same line again, and another at its end."""
    running = entry(12, state="running", end_s=None, exit="")
    append(cluster, "n1", running)
    append(cluster, "n1", entry(13))
    for again in (running, entry(12), entry(12, findings=1)):
        forget(cluster, {UID: [f"{DAY}/12.0"]})
        assert [one.job_id for one in known(cluster)] == ["13"]
        time.sleep(0.002)  # lines tell milliseconds
        append(cluster, "n1", again)
        assert sorted(known(cluster)) == sorted([again, entry(13)])
        for number in range(1000):
            append(cluster, "n1", entry(13, findings=number))
        assert again in known(cluster)  # compacted
        append(cluster, "n1", entry(13))


def test_what_was_pruned_is_not_told_for_ever(cluster: Path) -> None:
    for number in range(200):
        append(cluster, "n1", entry(number))
        forget(cluster, {UID: [f"{DAY}/{number}.0"]})
    (cluster / f"index/{UID}/n1.tsv").unlink()
    append(cluster, "n1", entry(201))
    forget(cluster, {UID: [f"{DAY}/201.0"]})
    assert (cluster / f"index/{UID}" / REBUILT).read_bytes().count(b"\n") == 1


def test_no_line_is_lost_to_a_rebuild_beside_it(tmp_path: Path) -> None:
    cluster = tmp_path / "lab"
    cluster.mkdir()
    jobs = range(100, 250)

    def archiver() -> None:
        for number in jobs:
            ended = manifest(str(number))
            write_record(tmp_path, manifest(str(number), state="running", end_s=None, exit_status=None))
            append(cluster, "n1", entry(number, state="running", end_s=None, exit=""))
            path = str(write_record(tmp_path, ended).relative_to(cluster))
            append(cluster, "n1", entry_of(path, ended, UID, 5))

    writer = threading.Thread(target=archiver)
    writer.start()
    rebuilds = 0
    while writer.is_alive():
        rebuild(cluster)
        rebuilds += 1
    writer.join()
    assert rebuilds > 2
    assert sorted((one.job_id, one.state, one.findings) for one in known(cluster)) == [
        (str(number), "ended", 5) for number in jobs
    ]
    assert {path.name for path in (cluster / "index").rglob("*.tsv")} <= {"n1.tsv", REBUILT}
