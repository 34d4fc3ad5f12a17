# SPDX-License-Identifier: Apache-2.0
"""One attempt goes from the spool into the archive: into the right directory, over nothing, for its owner alone."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from stepguard.archive import record, spooled
from stepguard.archive.index_lines import told_by
from stepguard.archive.index_rebuild import rebuild
from stepguard.archive.local_cluster import Here
from stepguard.archive.ownership import OWNER_ONLY, Ownership
from stepguard.archive.redaction import Redactor, load_rules
from stepguard.archive.regroup import regroup
from stepguard.records.manifest import FindingRecord, Manifest, Missing, manifest_from, node_from
from stepguard.records.spool import COMPLETE
from unit.archive.quota import use_up_the_quota
from unit.archive.spools import SCRIPT, START_S, UID, Told, whole_job

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
REDACTOR = Redactor(b"k" * 32, load_rules(None, ()))
HERE = Here("here", "lab")
DAY = "lab/2026/11/18"
MIDNIGHT_S = 1_795_046_400


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "archive"
    path.mkdir(mode=0o711)
    return path


def put(
    archive: Path,
    told: Told,
    complete: bool = True,
    ownership: Ownership = OWNER_ONLY,
    tell: Callable[[str], None] = print,
) -> None:
    """Through a spool of its own."""
    spool = archive.parent / f"spool-{told.node}-{len(list(archive.parent.iterdir()))}"
    read = spooled.read(told.put(spool, complete))
    record.write(record.prepare(told.key, read, REDACTOR, HERE), archive, ownership, tell)


def manifest_at(path: Path) -> Manifest:
    return manifest_from((path / "manifest.json").read_text())


def tree(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_record_is_its_owners_alone(archive: Path) -> None:
    put(archive, whole_job())
    put(archive, Told(node="n2").prolog().epilog())
    directory = archive / DAY / "12.0"
    names = {"manifest.json", "script", "env.json", "stdout.zst", "nodes/n1.json", "nodes/n2.json"}
    assert set(tree(directory)) == names
    for path in [directory, *directory.rglob("*"), *directory.parents][: len(names) + 1 + 5]:
        status = path.lstat()
        if path.is_dir():
            assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (0, 0o711), path
        else:
            assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (UID, 0o400), path
    assert (directory / "script").read_bytes() == SCRIPT
    stdout = (directory / "stdout.zst").read_bytes()
    assert zstandard.ZstdDecompressor().decompress(stdout) == b"epoch 1\nepoch 2\n"
    manifest = manifest_at(directory)
    assert manifest.missing == []
    assert "same file as stdout" in manifest.files["stderr"].why


def test_an_administrators_group_may_read(archive: Path) -> None:
    put(archive, whole_job(), ownership=Ownership(77, 0o751, 0o440))
    directory = archive / DAY / "12.0"
    for path, mode in ((directory, 0o751), (directory / "script", 0o440), (directory / "nodes", 0o751)):
        assert (path.stat().st_gid, stat.S_IMODE(path.stat().st_mode)) == (77, mode)


def test_done_again_it_is_the_same(archive: Path) -> None:
    told = whole_job()
    put(archive, told, complete=False)
    running = manifest_at(archive / DAY / "12.0")
    assert (running.state, sorted(running.files)) == ("running", ["environment", "script"])
    put(archive, told)
    before = tree(archive / DAY)
    put(archive, told)
    put(archive, told, complete=False)
    assert tree(archive / DAY) == before


def test_a_spool_that_is_removed_under_a_job_takes_nothing_from_its_record(archive: Path) -> None:
    told = whole_job()
    messages = told.messages
    told.messages, told.files = [one for one in messages if one.kind not in ("step_end", "epilog")], {}
    put(archive, told, complete=False)
    told.messages = [one for one in messages if one.kind in ("step_end", "epilog")]
    told.say("finding", code="spool-removed", text="it was removed")
    put(archive, told)
    manifest = manifest_at(archive / DAY / "12.0")
    assert (manifest.state, manifest.outcome, manifest.name, manifest.start_s) == ("ended", "failed", "train", START_S)
    assert sorted(manifest.files) == ["environment", "findings", "script"]
    assert [one.what for one in manifest.missing] == ["prolog", "stdout", "stderr"]
    assert {step.step_id: (step.state, bool(step.argv)) for step in manifest.steps}["0"] == ("ended", True)


@pytest.mark.parametrize(
    "kept", [slice(0, 2), slice(2, 5), slice(5, None), slice(1, None), slice(7, None), slice(0, 0)]
)
def test_what_is_left_of_a_spool_that_is_being_emptied_changes_nothing(archive: Path, kept: slice) -> None:
    told = whole_job().say("finding", code="stale-node-list", text="n9 has left", step_id=0, variable="SLURM_NODELIST")
    put(archive, told)
    before = tree(archive / DAY)
    told.messages = told.messages[kept]
    put(archive, told)
    told.files.clear()
    put(archive, told)
    assert tree(archive / DAY) == before


def test_late_messages_fill_gaps(archive: Path) -> None:
    told = whole_job()
    late = Told(boottime_s=2000.0, clock_s=START_S + 1000)
    late.step_start(1, "late").step_end(1, (0, 0)).say("finding", code="c", text="late")
    late.raw("stderr", b"late\n")
    end = next(message for message in told.messages if message.kind == "step_end")
    told.messages.remove(end)
    put(archive, told)
    directory = archive / DAY / "12.0"
    assert [step.state for step in manifest_at(directory).steps] == ["ended", "lost"]
    late.messages.append(end)
    put(archive, late)
    manifest = manifest_at(directory)
    assert [(step.step_id, step.state) for step in manifest.steps] == [
        ("batch", "ended"),
        ("0", "ended"),
        ("1", "ended"),
    ]
    assert (manifest.exit_status, manifest.missing) == (1, [])
    assert (directory / "script").read_bytes() == SCRIPT
    part = node_from((directory / "nodes/n1.json").read_text())
    assert [finding.text for finding in part.findings] == ["late"]
    line = (directory / "findings.jsonl").read_text()
    assert FindingRecord(**json.loads(line)) == part.findings[0]


@pytest.mark.parametrize("is_new", [False, True], ids=["it was told", "it was not"])
@pytest.mark.parametrize("kind", ["batch", "step_start"])
def test_a_late_note_that_the_agent_had_to_close_leaves_the_end_as_it_was(
    archive: Path, kind: str, is_new: bool
) -> None:
    told = whole_job()
    late = next(message for message in told.messages if message.kind == kind)
    if is_new:
        told.messages.remove(late)
    put(archive, told)
    directory = archive / DAY / "12.0"
    before, files = manifest_at(directory), tree(directory)
    again = Told(boottime_s=5000.0, clock_s=START_S + 4000)
    again.messages.append(late)
    put(archive, again.say("closed", why="no-slurmstepd"))
    after = manifest_at(directory)
    ending = [(one.state, one.outcome, one.outcome_why, one.exit_status, one.end_s) for one in (before, after)]
    assert ending[0] == ending[1]
    assert (after.state, after.outcome, after.start_s) == ("ended", "failed", START_S)
    steps = {step.step_id: step for step in after.steps}
    assert {name: step.state for name, step in steps.items()} == {"batch": "ended", "0": "ended"}
    assert steps["0"].argv == ["train", "--lr", "1"]
    assert node_from((directory / "nodes/n1.json").read_text()).state == "ended"
    assert [path.name for path in (archive / DAY).iterdir()] == ["12.0"]
    assert is_new or tree(directory) == files


def test_attempts_of_a_requeued_job_are_apart(archive: Path) -> None:
    put(archive, whole_job(attempt=0))
    before = tree(archive / DAY / "12.0")
    put(archive, whole_job(attempt=1))
    assert tree(archive / DAY / "12.0") == before
    assert manifest_at(archive / DAY / "12.1").attempt == 1


@pytest.mark.parametrize("first", ["n1", "n2"])
@pytest.mark.parametrize("ahead_s", [-3.0, 3.0])
def test_nodes_that_see_midnight_differently_share_a_record(archive: Path, first: str, ahead_s: float) -> None:
    one = whole_job(clock_s=MIDNIGHT_S - ahead_s / 2)
    other = Told(node="n2", clock_s=MIDNIGHT_S + ahead_s / 2).prolog().epilog()
    for told in (one, other) if first == "n1" else (other, one):
        put(archive, told)
    (manifest,) = archive.rglob("manifest.json")
    assert sorted(path.name for path in archive.rglob("nodes/*")) == ["n1.json", "n2.json"]
    assert sorted(path.name for path in (manifest.parent / "nodes").iterdir()) == ["n1.json", "n2.json"]


@pytest.mark.parametrize("first", ["n1", "n2"])
def test_nodes_that_make_a_record_at_one_moment_share_it(
    archive: Path, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one had looked for it before the first one made it."""
    one, other = whole_job(), Told(node="n2").prolog().epilog()
    put(archive, one if first == "n1" else other)
    monkeypatch.setattr("stepguard.archive.place._anywhere", lambda *_: None)
    put(archive, other if first == "n1" else one)
    assert [path.name for path in (archive / DAY).iterdir()] == ["12.0"]
    assert sorted(path.name for path in (archive / DAY / "12.0/nodes").iterdir()) == ["n1.json", "n2.json"]


def test_a_node_whose_first_step_comes_days_later_finds_the_record(archive: Path) -> None:
    put(archive, whole_job(), complete=False)
    put(archive, Told(node="n2", clock_s=START_S + 5 * 86400).prolog().epilog())
    assert (archive / DAY / "12.0/nodes/n2.json").exists()


def test_a_job_of_another_life_of_the_cluster_is_left_alone(archive: Path) -> None:
    put(archive, whole_job())
    before = tree(archive / DAY / "12.0")
    put(archive, whole_job(uid=UID + 1, clock_s=START_S + 30))
    put(archive, Told(node="n2", uid=UID + 1, clock_s=START_S + 30).prolog().epilog())
    put(archive, whole_job(clock_s=START_S + 10000))
    assert tree(archive / DAY / "12.0") == before
    assert sorted(path.name for path in (archive / DAY).iterdir()) == ["12.0", "12.0~2", "12.0~3"]
    assert (archive / DAY / "12.0~2/nodes/n2.json").stat().st_uid == UID + 1
    assert manifest_at(archive / DAY / "12.0~3").start_s == START_S + 10000


def test_an_attempt_that_runs_again_under_its_number_has_its_own_record(archive: Path) -> None:
    """slurmctld that lost its state can give a number again at once."""
    put(archive, whole_job())
    put(archive, whole_job(clock_s=START_S + 100))
    assert (archive / DAY / "12.0~2/manifest.json").exists()


def test_two_that_take_themselves_for_the_lead(archive: Path) -> None:
    """`sbatch --batch` runs the script not on the first node, which does not know."""
    for order in (("n1", "n2"), ("n2", "n1")):
        job_id = 20 + int(order[0][1])
        for node in order:
            told = Told(job_id=job_id, node=node).prolog()
            put(archive, (told.batch() if node == "n2" else told).epilog())
        assert manifest_at(archive / DAY / f"{job_id}.0").lead_node == "n2"
        assert len(list((archive / DAY / f"{job_id}.0/nodes").iterdir())) == 2


def test_identical_scripts_are_stored_once_a_user(archive: Path) -> None:
    for job_id in range(12, 17):
        put(archive, whole_job(job_id=job_id, uid=UID + (job_id == 16)))
    inodes = {job_id: (archive / DAY / f"{job_id}.0/script").stat() for job_id in range(12, 17)}
    assert {status.st_nlink for job_id, status in inodes.items() if job_id < 16} == {5}
    assert inodes[16].st_nlink == 2
    assert inodes[16].st_uid == UID + 1


@pytest.mark.parametrize("error", [errno.EMLINK, errno.EXDEV, errno.EPERM])
def test_where_no_link_can_be_made_a_script_is_copied(
    archive: Path, error: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_link(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "link", no_link)
    put(archive, whole_job())
    script = archive / DAY / "12.0/script"
    assert (script.read_bytes(), script.stat().st_nlink, script.stat().st_uid) == (SCRIPT, 1, UID)


def test_what_a_user_writes_becomes_data_and_never_a_path(archive: Path) -> None:
    name = "../../../etc/x\n\x1b[31m\udcff -rf 'q' \u202e"
    told = Told(nodes="n1").prolog(SLURM_JOB_COMMENT="c" * 65536, SLURM_JOB_WORK_DIR="/tmp/\udce9\n..")
    told.batch(SLURM_JOB_NAME=name, SLURM_ARRAY_JOB_ID="../x", ODD="\udcff")
    told.step_start(0, "-x", "a b", "\udcff\n").step_end(0, (0, 0)).epilog()
    told.raw("stdout", b"\xff\n", source="/tmp/../\udcff\n")
    put(archive, told)
    assert sorted(path.name for path in archive.iterdir()) == ["lab"]
    directory = archive / DAY / "12.0"
    manifest = manifest_at(directory)
    assert (manifest.name, len(manifest.comment), manifest.work_dir) == (name, 65536, "/tmp/\udce9\n..")
    assert manifest.steps[1].argv == ["-x", "a b", "\udcff\n"]
    assert manifest.files["stdout"].source == "/tmp/../\udcff\n"
    assert json.loads((directory / "env.json").read_bytes())["ODD"] == "\udcff"
    assert (directory / "manifest.json").read_bytes().isascii()


def test_secrets_are_in_no_file(archive: Path) -> None:
    secret = "hf_QrStUvWxYzAbCdEfGhIjKlMnOpQrStUvWx"
    plain = "correct-horse-battery-9471"
    told = Told(nodes="n1").prolog(SLURM_JOB_COMMENT=f"key {secret}")
    told.batch(f"#!/bin/sh\nexport HF_TOKEN={secret}\n".encode(), DB_PASSWORD=plain, SLURM_JOB_NAME=f"n {secret}")
    told.step_start(0, "login", "--password", "Sommer2026!", "--key", plain, "two words").step_end(0, (0, 0)).epilog()
    told.say("finding", code="c", text=f"saw {secret}").raw("stdout", f"+ export X={plain}\n".encode())
    journal = json.dumps({"event": "start", "words": [plain]}).encode()
    put(archive, told.raw("resumes", journal))
    stored = tree(archive / DAY)
    stdout = zstandard.ZstdDecompressor().decompress(stored["12.0/stdout.zst"])
    whole = b"".join(stored.values()) + stdout
    for one in (secret, plain, "Sommer2026!"):
        assert one.encode() not in whole
    assert manifest_at(archive / DAY / "12.0").steps[1].argv[-1] == "two words"


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b'{"schema":1}', b'{"schema":1,"steps":3}', b"\xff"])
def test_a_record_that_its_owner_has_spoiled_is_no_fault(archive: Path, content: bytes) -> None:
    put(archive, whole_job())
    directory = archive / DAY / "12.0"
    for name in ("manifest.json", "nodes/n1.json"):
        (directory / name).write_bytes(content)
    put(archive, whole_job())
    assert manifest_at(directory).state == "ended"


def test_a_directory_that_others_may_write_to_is_refused(archive: Path) -> None:
    put(archive, whole_job())
    (archive / DAY).chmod(0o777)
    with pytest.raises(PermissionError, match="others than root may write"):
        put(archive, whole_job(job_id=13))
    (archive / DAY).chmod(0o711)
    os.chown(archive / DAY, UID, -1)
    with pytest.raises(PermissionError, match="others than root may write"):
        put(archive, whole_job(job_id=13))


def test_a_link_in_the_place_of_a_directory_is_not_followed(archive: Path, tmp_path: Path) -> None:
    put(archive, whole_job())
    (tmp_path / "elsewhere").mkdir()
    (archive / DAY / "13.0").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        put(archive, whole_job(job_id=13))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_damage_in_the_spool_is_told_and_the_rest_is_kept(archive: Path) -> None:
    told = whole_job()
    directory = told.put(archive.parent / "spool")
    (directory / "000009.finding").write_bytes(b"SGR1\0")
    (directory / "stdout.meta").write_bytes(b"{")
    read = spooled.read(directory)
    record.write(record.prepare(told.key, read, REDACTOR, HERE), archive, OWNER_ONLY)
    missing = {one.what: one.why for one in manifest_at(archive / DAY / "12.0").missing}
    assert "damaged in the spool" in missing["message 000009.finding"]
    assert "damaged" in manifest_at(archive / DAY / "12.0").files["stdout"].why


def test_what_the_agent_is_just_writing_is_left_alone(archive: Path) -> None:
    directory = whole_job().put(archive.parent / "spool")
    (directory / ".000020.step_end.new").write_bytes(b"")
    (directory / ".000021.step_end.new").write_bytes(b"")
    os.utime(directory / ".000021.step_end.new", (0, 0))
    names = spooled.read(directory).names
    assert ".000020.step_end.new" not in names
    assert {".000021.step_end.new", COMPLETE, "stdout.raw"} <= set(names)


def test_the_output_tells_how_slurm_ended_the_job(archive: Path) -> None:
    codes = {"SLURM_JOB_EXIT_CODE": "0", "SLURM_JOB_EXIT_CODE2": "0:0"}
    notice = "*** JOB 12 ON n1 CANCELLED AT 2199-11-18T12:00:00 DUE TO TIME LIMIT ***"
    told = Told().prolog().batch().output().step_end("batch", (0, 0)).epilog(**codes)
    put(archive, told.raw("stdout", f"begun\nslurmstepd-n1: error: {notice}\n".encode()))
    manifest = manifest_at(archive / DAY / "12.0")
    assert (manifest.outcome, manifest.outcome_why) == ("timeout", f"its output says {notice}")
    (line,) = (archive / "lab/index" / str(UID) / "n1.tsv").read_text().splitlines()
    assert line.split("\t")[4:6] == ["timeout", "0:0"]


def test_the_arguments_of_the_batch_script(archive: Path) -> None:
    words = ("--lr=0.1", "--seed", "7", "--api-token", "s3cr3t-Value-0123456789abcdef", "\udcff")
    put(archive, Told().prolog().batch(SCRIPT, *words).step_end("batch", (0, 0)).epilog())
    argv = manifest_at(archive / DAY / "12.0").argv
    assert (argv[:4], argv[5]) == (["--lr=0.1", "--seed", "7", "--api-token"], "\udcff")
    assert argv[4].startswith("[redacted:")


def test_arguments_that_are_cut_are_said_to_be(archive: Path) -> None:
    told = Told().prolog().say("batch", argv=b"/spool/slurm_script\0a\0", argv_size=99)
    put(archive, told.step_end("batch", (0, 0)).epilog())
    manifest = manifest_at(archive / DAY / "12.0")
    assert manifest.argv == ["a"]
    assert Missing("command line of the batch script", "22 of its 99 bytes are kept") in manifest.missing


def test_a_record_whose_index_cannot_be_written_is_archived_all_the_same(archive: Path) -> None:
    (archive / "lab").mkdir(mode=0o711)
    (archive / "lab/index").write_text("in the way\n")
    said: list[str] = []
    put(archive, whole_job(), tell=said.append)
    assert manifest_at(archive / DAY / "12.0").state == "ended"
    (text,) = said
    assert text.startswith(f"job 12.0 is in the archive, but not in index/{UID}: Not a directory: ")
    assert text.endswith("; `stepguard archive rebuild-index` puts it there")


def test_a_script_whose_stored_copy_was_damaged_is_stored_anew(archive: Path) -> None:
    put(archive, whole_job(job_id=12))
    (stored,) = (archive / f"lab/scripts/{UID}").iterdir()
    for number, damage in enumerate((b"#!/bin/sh\nexit 1\n", b"", SCRIPT + b"#"), 13):
        stored.write_bytes(damage)
        put(archive, whole_job(job_id=number))
        assert (archive / DAY / f"{number}.0/script").read_bytes() == SCRIPT
        assert (archive / DAY / f"{number}.0/script").samefile(stored)
    put(archive, whole_job(job_id=20))
    assert (archive / DAY / "20.0/script").samefile(stored)


def test_a_user_whose_quota_is_used_up_holds_up_nobody(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that refuses files to a user: the record is whole, root's for now, and stays one."""
    said: list[str] = []
    with monkeypatch.context() as used_up:
        use_up_the_quota(UID, used_up)
        put(archive, whole_job(), complete=False, tell=said.append)
        put(archive, whole_job(), tell=said.append)
        put(archive, Told(node="n2").prolog().epilog(), tell=said.append)
    directory = archive / DAY / "12.0"
    assert [path.name for path in directory.parent.iterdir()] == ["12.0"]
    assert manifest_at(directory).state == "ended"
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert {(path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in files} == {(0, 0o400)}
    assert len([text for text in said if f"the quota of uid {UID} on its file system is used up" in text]) == 3
    troubles: list[str] = []
    assert regroup(archive / "lab", OWNER_ONLY, troubles.append) == len(files) == 6
    assert rebuild(archive / "lab", OWNER_ONLY, trouble=troubles.append) == 1
    assert ({path.stat().st_uid for path in files}, troubles) == ({UID}, [])
    assert told_by((archive / f"lab/index/{UID}/+rebuilt.tsv").read_bytes()).rows.keys() == {"2026/11/18/12.0"}
