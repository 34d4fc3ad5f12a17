# SPDX-License-Identifier: Apache-2.0
"""The records of a job are found, by everybody their own, and what is damaged is named beside what is not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from stepguard.archive.index import append
from stepguard.archive.index_lines import entry_of
from stepguard.archive.index_rebuild import rebuild
from stepguard.archive.reading import NoRecord, find, layouts_of
from stepguard.archive.reading_record import Record
from stepguard.errors import StepguardError, UsageError
from stepguard.records.manifest import FindingRecord, KeptFile, Manifest, to_json
from unit.archive.building import DAY, START_S, environment_file, manifest, node, step, write_record
from unit.everybody import let_in

UID = os.geteuid()
as_root = pytest.mark.skipif(UID != 0, reason="becomes another user")


def kept(archive: Path, record: Manifest, **more: object) -> Path:
    """Writes a record, and the line that its lead node appends."""
    directory = write_record(archive, record, **more)  # type: ignore[arg-type]
    path = str(directory.relative_to(archive / "lab"))
    append(archive / "lab", record.lead_node, entry_of(path, record, UID, 0))
    return directory


def names(records: list[Record]) -> list[str]:
    return [f"{record.printed_id}.{record.attempt}" for record in records]


def test_a_whole_record(tmp_path: Path) -> None:
    findings = [FindingRecord("stale-node-list", "n3 has left", 20.0, "n1", "1")]
    on_node = FindingRecord("clock-set", "by an hour", 10.0, "n2")
    kept(
        tmp_path,
        manifest(steps=[step("0", ["train"])]),
        nodes=[node("n2", findings=[on_node]), node("n1", findings=findings)],
        findings=findings,
        files={
            "script": b"#!/bin/sh\ntrue \xff\n",
            "env.json": environment_file({"A": "1", "B": "x\udcff\n"}),
            "stdout.zst": b"one\ntwo\n" * 100_000,
            "resumes.jsonl": b'{"event":"start","attempt":0}\n',
        },
    )
    (record,) = find(tmp_path, "12")
    assert record.manifest == manifest(steps=[step("0", ["train"])])
    assert [part.node for part in record.nodes] == ["n1", "n2"]
    assert record.findings == [on_node, *findings]
    assert record.script == b"#!/bin/sh\ntrue \xff\n"
    assert record.environment == {"A": "1", "B": "x\udcff\n"}
    assert b"".join(record.output("stdout")) == b"one\ntwo\n" * 100_000
    assert record.has_output("stdout")
    assert not record.has_output("stderr")
    assert record.resumes == [{"event": "start", "attempt": 0}]
    assert record.troubles == []


def test_attempts_arrays_and_het_jobs(tmp_path: Path) -> None:
    kept(tmp_path, manifest("12", 0))
    kept(tmp_path, manifest("12", 1, start_s=START_S + 90))
    for number, task in ((20, "10"), (21, "2"), (22, "0")):
        kept(tmp_path, manifest(str(number), array_job_id="20", array_task_id=task))
    for number, offset in ((30, "0"), (31, "1")):
        kept(tmp_path, manifest(str(number), het_job_id="30", het_offset=offset))
    assert names(find(tmp_path, "12")) == ["12.0", "12.1"]
    assert names(find(tmp_path, "12", attempt=1)) == ["12.1"]
    assert names(find(tmp_path, "20")) == ["20_0.0", "20_2.0", "20_10.0"]
    assert names(find(tmp_path, "20_2")) == ["20_2.0"]
    assert names(find(tmp_path, "30")) == ["30+0.0", "30+1.0"]
    assert names(find(tmp_path, "30+1")) == ["30+1.0"]
    with pytest.raises(NoRecord, match="no record of job 12, attempt 7: "):
        find(tmp_path, "12", attempt=7)
    with pytest.raises(UsageError, match="not a job id"):
        find(tmp_path, "../12")


@as_root
def test_what_calls_itself_a_part_of_another_users_job_hides_nothing(tmp_path: Path) -> None:
    """Who owns a record may write into it, and into their part of the index, what they like."""
    bob, mallory = 60102, 60103
    claims: list[tuple[str, dict[str, Any]]] = [("12", {}), ("13", {"array_job_id": "12", "array_task_id": "5"})]
    claims += [("14", {"het_job_id": "12", "het_offset": "1"}), ("20", {"array_job_id": "20", "array_task_id": "1"})]
    claims += [("21", {"array_job_id": "20", "array_task_id": "1"})]
    for (number, ids), uid in zip(claims, (bob, mallory, mallory, bob, mallory), strict=True):
        record = manifest(number, uid=uid, **ids)
        directory = write_record(tmp_path, record, nodes=[node("n1", number)])
        for path in (directory / "manifest.json", directory / "nodes/n1.json"):
            os.chown(path, uid, -1)
        append(tmp_path / "lab", "n1", entry_of(f"{DAY}/{number}.0", record, uid, 0))
    append(tmp_path / "lab", "n1", entry_of(f"{DAY}/12.0", manifest("12", uid=mallory), mallory, 0))
    assert [(record.job_id, record.entry and record.entry.uid) for record in find(tmp_path, "12")] == [("12", bob)]
    assert [record.job_id for record in find(tmp_path, "20_1")] == ["20"]
    with pytest.raises(NoRecord):
        find(tmp_path, "12_5")
    assert [record.printed_id for record in find(tmp_path, "13")] == ["12_5"]


def test_directories_of_neighbouring_days_are_one_attempt(tmp_path: Path) -> None:
    kept(tmp_path, manifest(), nodes=[node("n1")])
    write_record(tmp_path, nodes=[node("n2")], day="2026/11/19")
    write_record(tmp_path, nodes=[node("n2")], day="2026/11/21")
    (record,) = find(tmp_path, "12")
    assert [part.node for part in record.nodes] == ["n1", "n2"]
    assert [path.parent.name for path in record.directories] == ["18", "19"]


def test_without_an_index_the_days_are_looked_through(tmp_path: Path) -> None:
    write_record(tmp_path, manifest())
    write_record(tmp_path, nodes=[node("n2")], day="2026/11/19")
    write_record(tmp_path, manifest("12", 1), day="2026/11/25")
    write_record(tmp_path, nodes=[node("n3", start_s=START_S + 37 * 86400)], day="2026/12/25")
    records = find(tmp_path, "12")
    assert [(record.attempt, len(record.directories)) for record in records] == [(0, 2), (0, 1), (1, 1)]


def test_without_a_manifest(tmp_path: Path) -> None:
    write_record(tmp_path, nodes=[node("n2", steps=[step("0", ["train"])])])
    (record,) = find(tmp_path, "12")
    assert record.manifest is None
    assert record.printed_id == "12"
    assert [part.node for part in record.nodes] == ["n2"]
    assert [(one.what, one.why) for one in record.troubles] == [
        ("manifest.json", "the first node of the job wrote none")
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\xff", "codec can't decode"),
        (b"[" * 100_000, ""),
        (b'{"schema":2}', "schema 2"),
        (b'{"schema":1}', "cluster: missing, or of another type"),
        (b'{"schema":1,"cluster":"lab","job_id":"12","attempt":0,"steps":{"a":1}}', ""),
        (b'{"schema":1,"cluster":"lab","job_id":"12","attempt":0,"steps":[7]}', ""),
        (b'{"schema":1,"cluster":"lab","job_id":12,"attempt":0}', "job_id"),
        (b'{"schema":1,"cluster":"lab","job_id":"12","attempt":0,"start_s":NaN}', "start_s"),
        (b'{"schema":1,"cluster":"lab","job_id":"12","attempt":0,"start_s":1e999}', "start_s"),
        (b'{"schema":1,"cluster":"lab","job_id":"12","attempt":0,"nodes":"n1"}', "nodes"),
    ],
)
def test_a_damaged_manifest_is_named_and_all_else_is_there(tmp_path: Path, content: bytes, why: str) -> None:
    directory = kept(tmp_path, manifest(), nodes=[node("n1"), node("n2")], files={"script": b"true\n"})
    (directory / "manifest.json").write_bytes(content)
    (record,) = find(tmp_path, "12")
    assert record.manifest is None
    assert [one.what for one in record.troubles] == ["manifest.json"]
    assert why in record.troubles[0].why
    assert record.script == b"true\n"
    assert len(record.nodes) == 2
    assert rebuild(tmp_path / "lab") == 1


def test_other_damage(tmp_path: Path) -> None:
    files = {"environment": KeptFile("env.json", stored_bytes=7), "stdout": KeptFile("stdout.zst", stored_bytes=9)}
    directory = kept(tmp_path, manifest(files=files), nodes=[node("n1")], files={"stdout.zst": os.urandom(300_000)})
    whole = (directory / "stdout.zst").read_bytes()
    (directory / "stdout.zst").write_bytes(whole[:-1000])
    (directory / "stderr.zst").write_bytes(b"plain text")
    (directory / "nodes/n1.json").write_text("{}")
    lines = [b'{"code":"a","text":"b"}', b"nonsense", b'{"code":7,"text":""}', b'{"code":"x"}']
    (directory / "findings.jsonl").write_bytes(b"\n".join(lines))
    (directory / "script").symlink_to("/etc/passwd")
    (record,) = find(tmp_path, "12")
    assert 250_000 < len(b"".join(record.output("stdout"))) < 300_000
    assert b"".join(record.output("stderr")) == b""
    assert record.environment is None
    assert record.script is None
    assert [one.code for one in record.findings] == ["a"]
    assert {one.what: one.why for one in record.troubles} == {
        "stdout.zst": "cut off",
        "stderr.zst": record.troubles[1].why,
        "env.json": "it is not there, although the manifest has it",
        "script": "Too many levels of symbolic links",
        "nodes/n1.json": "schema None, this stepguard knows up to 1",
        "findings.jsonl": "1 damaged lines are left out",
    }
    assert record.troubles[1].why.startswith("not what zstd wrote: ")


def test_several_frames_are_one_output(tmp_path: Path) -> None:
    directory = kept(tmp_path, manifest(), files={"stdout.zst": b"head\n", "tail.zst": b"tail\n"})
    with (directory / "stdout.zst").open("ab") as file:
        file.write((directory / "tail.zst").read_bytes())
    assert b"".join(find(tmp_path, "12")[0].output("stdout")) == b"head\ntail\n"


def test_an_output_that_stands_for_very_much_comes_in_pieces(tmp_path: Path) -> None:
    kept(tmp_path, manifest(), files={"stdout.zst": bytes(200 << 20)})
    sizes = [len(piece) for piece in find(tmp_path, "12")[0].output("stdout")]
    assert sum(sizes) == 200 << 20
    assert max(sizes) <= 32 << 20


def test_a_job_in_two_clusters(tmp_path: Path) -> None:
    kept(tmp_path, manifest())
    other = tmp_path / "other" / DAY / "12.0"
    other.mkdir(parents=True)
    (other / "manifest.json").write_text(to_json(manifest()))
    with pytest.raises(UsageError, match="job 12 is in several clusters: lab, other: name one with --cluster"):
        find(tmp_path, "12")
    assert find(tmp_path, "12", cluster="other")[0].cluster == "other"


def test_no_archive(tmp_path: Path) -> None:
    with pytest.raises(StepguardError, match="no archive here"):
        layouts_of(tmp_path / "none")
    with pytest.raises(StepguardError, match="no records"):
        layouts_of(tmp_path)
    with pytest.raises(UsageError, match="not the name of a cluster"):
        layouts_of(tmp_path, "../etc")


@as_root
def test_a_user_reads_their_own_only(tmp_path: Path) -> None:
    let_in(tmp_path)
    for number, uid in (("12", 1234), ("13", 1235), ("14", 1235)):
        record = manifest(number, uid=uid)
        directory = write_record(tmp_path, record, nodes=[node("n1", number)], files={"script": b"true\n"})
        for file in directory.rglob("*.*"):
            os.chown(file, uid, -1)
            file.chmod(0o400)
        below_cluster = str(directory.relative_to(tmp_path / "lab"))
        if number != "14":
            append(tmp_path / "lab", "n1", entry_of(below_cluster, record, uid, 0))
    for below in [below for below in (tmp_path / "lab").rglob("*") if below.is_dir() and below.stat().st_uid == 0]:
        below.chmod(0o711)
    (tmp_path / "lab").chmod(0o711)
    os.seteuid(1234)
    try:
        assert len(find(tmp_path, "12")[0].nodes) == 1
        for number in ("13", "14"):
            with pytest.raises(NoRecord, match=f"job {number}: .*: there is one, but it is another user's"):
                find(tmp_path, number)
        with pytest.raises(NoRecord, match="may not have written it yet"):
            find(tmp_path, "15")
    finally:
        os.seteuid(0)
    os.seteuid(1235)
    try:
        assert names(find(tmp_path, "14")) == ["14.0"]  # which the index does not know
    finally:
        os.seteuid(0)
    assert names(find(tmp_path, "13")) == ["13.0"]


@as_root
def test_a_record_that_is_being_written_is_nobodys_yet(tmp_path: Path) -> None:
    let_in(tmp_path)
    directory = write_record(tmp_path, manifest("12"))
    (directory / "manifest.json").unlink()
    for path in [tmp_path / "lab", *(tmp_path / "lab").rglob("*")]:
        path.chmod(0o711)
    for uid in (0, 1234):
        os.seteuid(uid)
        try:
            with pytest.raises(NoRecord, match=r"job 12: .*: there is one, but it is being written"):
                find(tmp_path, "12")
        finally:
            os.seteuid(0)


def test_the_owners_name_is_looked_up_where_no_hook_told_it(tmp_path: Path) -> None:
    for number, fields in (("12", {"uid": 0, "user": ""}), ("13", {"uid": 54321, "user": ""}), ("14", {"uid": 0})):
        write_record(tmp_path, manifest(number, **fields))
    assert [find(tmp_path, number)[0].user for number in ("12", "13", "14")] == ["root", "", "alice"]


def test_the_environment_is_an_object_of_texts(tmp_path: Path) -> None:
    kept(tmp_path, manifest(), files={"env.json": json.dumps({"A": 1}).encode()})
    (record,) = find(tmp_path, "12")
    assert record.environment is None
    assert record.troubles[0].why == "a variable that is no text"
