# SPDX-License-Identifier: Apache-2.0
"""The index is appended to, healed, compacted and rebuilt, and leads root nowhere."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from pathlib import Path

import pytest

from stepguard.archive.index import REBUILT, UserIndex, append
from stepguard.archive.index_lines import Entry, entry_from, entry_of, is_line, line_of, told_by
from stepguard.archive.index_reading import Query, search
from stepguard.archive.index_rebuild import forget, rebuild
from stepguard.archive.layout import ClusterLayout
from stepguard.archive.ownership import OWNER_ONLY, Ownership
from stepguard.records.manifest import FindingRecord
from unit.archive.building import DAY, START_S, entry, manifest, node, write_record
from unit.archive.quota import use_up_the_quota
from unit.everybody import let_in

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
    told = told_by(line_of(one))
    assert [entry_from(row, one.uid) for row in told.rows.values()] == [one]
    assert (told.gone, told.bad) == ({}, 0)


def test_a_long_name_is_cut() -> None:
    (row,) = told_by(line_of(entry(name="x" * 70000))).rows.values()
    assert entry_from(row, 0).name == "x" * 256


def test_what_no_record_can_say_makes_no_line_that_is_not_read() -> None:
    """A manifest belongs to its user, and an index is built from it."""
    line = line_of(entry(start_s=-1e17, end_s=1e17, resumes=-5, findings=10**30, nodes="n," * (1 << 20)))
    (row,) = told_by(line).rows.values()
    found = entry_from(row, 0)
    assert (found.start_s, found.end_s, found.resumes, found.findings, found.nodes) == (None, None, 0, 999_999_999, "")
    assert not is_line(line_of(entry(exit=f"{10**30}:0")))
    assert not is_line(line_of(entry(state="nonsense")))
    assert not is_line(line_of(entry(printed_id="\x1b[31m")))


@pytest.mark.parametrize("name", ["\\x", "a\\", "\\u12"])
def test_a_text_that_is_no_json_stands_for_itself(name: str) -> None:
    (row,) = told_by(line_of(entry(name="train")).replace(b"train", name.encode())).rows.values()
    assert entry_from(row, 0).name == name


BAD_FIELDS = {
    "path": ["../../etc", "2026/11/18/x", "2026/11/18/12.0/", ""],
    "start_s": ["nan", "inf", "-inf", "1e300", "-5", "9" * 400, "soon", "1_0", " 1", "0x10", "\u0661"],
    "end_s": ["nan", "inf", "1e300", "1e9", "later", "9" * 12],
    "state": ["", "wonderful", "completed ", "running\\u001b"],
    "exit": ["0", "a:b", "1e5:0", "-1:0", ":"],
    "printed_id": ["", "x", "12-1", "\\u001b[31m"],
    "job_id": ["", "twelve", "9" * 11],
    "attempt": ["", "-1", "1.5", "9" * 5000],
    "name": ["\x1b[31m", "caf\u00e9"],
    "resumes": ["", "nan", "1e9", "9" * 5000],
    "findings": ["", "-1", "inf"],
}


@pytest.mark.parametrize(("field", "text"), [(field, text) for field, texts in BAD_FIELDS.items() for text in texts])
def test_a_line_that_is_not_as_we_write_it_is_left_out_and_counted(cluster: Path, field: str, text: str) -> None:
    append(cluster, "n1", entry(12))
    good = line_of(entry(12, end_s=START_S + 5))
    fields = good.split(b"\t")
    fields[1 + Entry._fields.index(field)] = text.encode()
    file = cluster / f"index/{UID}/n1.tsv"
    file.chmod(0o600)
    with file.open("ab") as grown:
        grown.write(b"\t".join(fields) + line_of(entry(13)))
    said: list[str] = []
    found, _ = search([ClusterLayout(cluster)], Query(since_s=0.0), said.append)
    assert sorted(one.entry for one in found) == [entry(12), entry(13)]
    assert [text.partition(",")[0] for text in said] == [f"1 lines of index/{UID} are not as stepguard writes them"]


def test_the_last_line_of_a_record_counts(cluster: Path) -> None:
    append(cluster, "n1", entry(state="running", end_s=None, exit=""))
    append(cluster, "n1", entry(13))
    append(cluster, "n1", entry(findings=2), sync=True)
    assert sorted(known(cluster)) == [entry(findings=2), entry(13)]


def test_modes(cluster: Path) -> None:
    append(cluster, "n1", entry())
    names = ("index", f"index/{UID}", f"index/{UID}/n1.tsv", f"index/{UID}/nodes")
    assert [stat.S_IMODE((cluster / name).stat().st_mode) for name in names] == [0o711, 0o711, 0o400, 0o400]
    assert sorted(path.name for path in (cluster / "index").rglob("*")) == [str(UID), "n1.tsv", "nodes"]


@as_root
def test_a_group_of_administrators(cluster: Path) -> None:
    append(cluster, "n1", entry(uid=1234), Ownership(4321, 0o751, 0o440))
    names = ("index", "index/1234", "index/1234/n1.tsv", "index/1234/nodes")
    status = [(cluster / name).stat() for name in names]
    assert [(one.st_uid, one.st_gid, stat.S_IMODE(one.st_mode)) for one in status] == [
        (0, 4321, 0o751),
        (0, 4321, 0o751),
        (1234, 4321, 0o440),
        (1234, 4321, 0o440),
    ]


@as_root
def test_a_group_that_comes_later_may_read_the_lines_that_were_there(cluster: Path) -> None:
    append(cluster, "n1", entry(12, uid=1234))
    append(cluster, "n1", entry(13, uid=1234), Ownership(4321, 0o751, 0o440))
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
        append(cluster, "n1", entry(uid=1234), Ownership(4321, 0o751, 0o440))
        rebuild(cluster, Ownership(4321, 0o751, 0o440))
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
    assert list(told_by(file.read_bytes()).rows) == [entry().path]


@as_root
@pytest.mark.parametrize("way", ["directory", "full directory", "fifo", "link", "dangling link", "socket", "0000", "x"])
def test_what_a_user_had_put_into_the_index_is_in_nobodys_way(cluster: Path, way: str) -> None:
    """Of an archive whose index belonged to its users."""
    append(cluster, "n1", entry(12, uid=1234))
    directory = cluster / "index/1234"
    os.chown(directory, 1234, -1)
    outside = cluster / "outside"
    outside.mkdir()
    (outside / "kept").write_text("root's\n")
    file = directory / "n1.tsv"
    if way == "0000":
        directory.chmod(0)
    elif way == "x":
        for number in range(300):
            (directory / f"{number}.tsv").write_text("x")
        (directory / "nodes").unlink()
        (directory / "nodes").mkdir()
    else:
        file.unlink()
    if way in ("directory", "full directory"):
        file.mkdir()
        os.chown(file, 1234, -1)
    if way == "full directory":
        (file / "a").symlink_to(outside)
        (file / "b").write_text("x")
    elif way == "fifo":
        os.mkfifo(file)
    elif way in ("link", "dangling link"):
        file.symlink_to(outside if way == "link" else "nowhere")
    elif way == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(file))
    append(cluster, "n1", entry(13, uid=1234))
    assert (directory.stat().st_uid, stat.S_IMODE(directory.stat().st_mode)) == (0, 0o711)
    assert "13" in [one.job_id for one in known(cluster, 1234)]
    let_in(cluster)
    os.seteuid(1234)
    try:
        assert "13" in [one.job_id for one in known(cluster, 1234)]
    finally:
        os.seteuid(0)
    assert [path.name for path in outside.iterdir()] == ["kept"]


@as_root
@pytest.mark.parametrize("way", ["file", "link", "dangling link"])
def test_something_else_than_a_directory_of_a_user_is_moved_aside(cluster: Path, way: str) -> None:
    append(cluster, "n1", entry(12, uid=1))
    (cluster / "outside").mkdir()
    if way == "file":
        (cluster / "index/1234").write_text("x")
    else:
        (cluster / "index/1234").symlink_to(cluster / ("outside" if way == "link" else "nowhere"))
    append(cluster, "n1", entry(13, uid=1234))
    assert known(cluster, 1234) == [entry(13, uid=1234)]
    assert list((cluster / "outside").iterdir()) == []


@as_root
def test_a_user_finds_the_lines_of_all_nodes_and_can_put_nothing_beside_them(cluster: Path) -> None:
    for number, name in enumerate(("n1", "n2", "n1", "n3")):
        append(cluster, name, entry(number, uid=1234))
    let_in(cluster)
    directory = cluster / "index/1234"
    for path in (cluster / "index", directory):
        path.chmod(0o711)  # which let_in() undid
    os.seteuid(1234)
    try:
        assert sorted(one.job_id for one in known(cluster, 1234)) == ["0", "1", "2", "3"]
        with pytest.raises(PermissionError):
            (directory / "n4.tsv").mkdir()
        with pytest.raises(PermissionError):
            (directory / "n1.tsv").unlink()
        with pytest.raises(PermissionError):
            directory.chmod(0o700)
        (directory / "nodes").chmod(0o600)
        (directory / "nodes").write_text("../../../etc/passwd\n\0\n" + "x" * 100)
        assert known(cluster, 1234) == []
    finally:
        os.seteuid(0)
    append(cluster, "n2", entry(4, uid=1234))
    os.seteuid(1234)
    try:
        assert sorted(one.job_id for one in known(cluster, 1234)) == ["1", "4"]
    finally:
        os.seteuid(0)
    rebuild(cluster)
    assert (directory / "nodes").read_text() == "n1\nn2\nn3\n"


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


def test_a_rebuild_heals_what_stood_there_before_it(tmp_path: Path) -> None:
    """Lines of the user's own making, some of them from the future, others of records that there are not."""
    cluster = tmp_path / "lab"
    for number in (12, 13, 14):
        write_record(tmp_path, manifest(str(number)))
        append(cluster, "n1", entry(number, findings=7))
    file = cluster / f"index/{UID}/n1.tsv"
    file.chmod(0o600)
    with file.open("ab") as grown:
        grown.write(line_of(entry(12, exit="9:0", state="ended"), START_S))
        grown.write(line_of(entry(13, exit="9:0", name="forged"), 9e10))
        grown.write(line_of(entry(14, end_s=None)).replace(b"ended", b"wonderful"))
        grown.write(line_of(entry(15)))
    assert rebuild(cluster) == 3
    right = {(one.job_id, one.exit, one.name, one.findings) for one in known(cluster)}
    assert right == {(str(number), "0:0", "train", 0) for number in (12, 13, 14)}
    append(cluster, "n1", entry(12, findings=2))
    assert {one.job_id: one.findings for one in known(cluster)} == {"12": 2, "13": 0, "14": 0}


def test_a_node_whose_clock_is_late_has_the_last_word_when_a_job_ends(tmp_path: Path) -> None:
    cluster = tmp_path / "lab"
    write_record(tmp_path, manifest("12", state="running", end_s=None, exit_status=None, exit_signal=None))
    rebuild(cluster)
    with UserIndex(cluster, UID, OWNER_ONLY) as index:
        index.append("n1", line_of(entry(12, state="running", end_s=None, exit=""), time.time() - 100), False)
        assert [one.state for one in known(cluster)] == ["running"]
        index.append("n1", line_of(entry(12), time.time() - 99), False)
    assert [one.state for one in known(cluster)] == ["ended"]


@as_root
def test_one_user_whose_index_cannot_be_written_holds_up_no_rebuild(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = tmp_path / "lab"
    for number, uid in ((12, 1234), (13, 1235)):
        os.chown(write_record(tmp_path, manifest(str(number))) / "manifest.json", uid, -1)
    use_up_the_quota(1234, monkeypatch)
    troubles: list[str] = []
    assert rebuild(cluster, trouble=troubles.append) == 2
    assert [one.job_id for one in known(cluster)] == ["13"]
    assert troubles == ["index/1234: Disk quota exceeded"]


def test_rebuild_leaves_nothing_where_the_index_is_right(tmp_path: Path) -> None:
    write_record(tmp_path, manifest("12"))
    rebuild(tmp_path / "lab")
    (one,) = known(tmp_path / "lab")
    append(tmp_path / "lab", "n1", one)
    assert rebuild(tmp_path / "lab") == 1
    assert sorted(path.name for path in (tmp_path / f"lab/index/{UID}").iterdir()) == ["n1.tsv", "nodes"]
    assert known(tmp_path / "lab") == [one]


@as_root
def test_rebuild_believes_the_owner_of_the_file_alone(tmp_path: Path) -> None:
    directory = write_record(tmp_path, manifest("12", uid=1))
    os.chown(directory / "manifest.json", 1234, -1)
    wrong = write_record(tmp_path, manifest("13", name=["a\tb"]))
    os.chown(wrong / "manifest.json", 1234, -1)
    assert rebuild(tmp_path / "lab") == 2
    assert [(one.job_id, one.state) for one in known(tmp_path / "lab", 1234)] == [("13", "damaged"), ("12", "ended")]
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
    findings = [FindingRecord("stale-node-list", "n3 has left")] * 5

    def archiver() -> None:
        for number in jobs:
            ended = manifest(str(number))
            write_record(tmp_path, manifest(str(number), state="running", end_s=None, exit_status=None))
            append(cluster, "n1", entry(number, state="running", end_s=None, exit=""))
            path = str(write_record(tmp_path, ended, findings=findings).relative_to(cluster))
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
    assert {path.name for path in (cluster / f"index/{UID}").iterdir()} <= {"n1.tsv", "nodes", REBUILT}
