# SPDX-License-Identifier: Apache-2.0
"""`stepguard job` as a command: pages, parts byte for byte, JSON, and outputs that close, are full or are terminals."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from stepguard.archive.index_rebuild import rebuild
from stepguard.records.manifest import KeptFile, Missing
from unit.archive.building import environment_file, manifest, node, write_record

STEPGUARD = [sys.executable, "-I", "-m", "stepguard"]
SCRIPT = b"#!/bin/sh\n# caf\xe9 \x1b[31m\necho done"
OUTPUT = b"\x1b[1mbold\x1b[0m \xff\n" * 1000


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    archive = tmp_path / "archive"
    archive.mkdir()
    config = tmp_path / "stepguard.toml"
    config.write_text(f'[archive]\ndir = "{archive}"\n')
    return {"STEPGUARD_CONFIG": str(config), "LC_ALL": "C.UTF-8", "TZ": "UTC", "PATH": os.environ["PATH"]}


@pytest.fixture
def archive(environment: dict[str, str], tmp_path: Path) -> Path:
    """Job 12 with two attempts, array 20 of two tasks."""
    archive = tmp_path / "archive"
    same = KeptFile(source="/home/alice/o", what="regular", why="it is the same file as stdout")
    write_record(archive, manifest(state="lost"), files={"script": b"first\n"})
    write_record(
        archive,
        manifest("12", 1, files={"stderr": same}),
        nodes=[node("n1", attempt=1)],
        files={
            "script": SCRIPT,
            "env.json": environment_file({"A": "1", "B": "x\ny", "C": "\udcff", "D": "\ud800"}),
            "stdout.zst": OUTPUT,
            "resumes.jsonl": b'{"time":1795000000,"event":"choice","strategy":"spare","nodes":["n2"]}\n',
        },
    )
    for number, task in (("20", "1"), ("21", "2")):
        write_record(archive, manifest(number, array_job_id="20", array_task_id=task))
    rebuild(archive / "lab")
    return archive


def job(environment: dict[str, str], *arguments: str, **more: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*STEPGUARD, "job", *arguments], env=environment, capture_output=True, timeout=30, check=False, **more
    )


def on_terminal(environment: dict[str, str], arguments: Sequence[str]) -> str:
    """What it prints on a terminal."""
    master, slave = pty.openpty()
    child = subprocess.Popen([*STEPGUARD, *arguments], env={**environment, "TERM": "xterm"}, stdout=slave)
    os.close(slave)
    content = b""
    try:
        while chunk := os.read(master, 65536):
            content += chunk
    except OSError:
        pass  # how Linux tells the end of a terminal
    os.close(master)
    assert child.wait() == 0
    return content.decode().replace("\r\n", "\n")


@pytest.mark.usefixtures("archive")
def test_parts_come_byte_for_byte(environment: dict[str, str]) -> None:
    assert job(environment, "12", "script").stdout == SCRIPT
    assert job(environment, "12", "script", "--attempt", "0").stdout == b"first\n"
    assert job(environment, "12", "stdout").stdout == OUTPUT
    assert job(environment, "12", "--attempt", "0").stdout.startswith(
        b"Job 12 train: lost\nof alice on cluster lab, attempt 0\n"
    )
    assert job(environment, "12", "--attempt", "7").stderr.startswith(b"stepguard: no record of job 12, attempt 7: ")
    assert job(environment, "12", "env").stdout == b"A=1\nB=x\ny\nC=\xff\nD=\\ud800\n"


@pytest.mark.usefixtures("archive")
def test_other_parts(environment: dict[str, str]) -> None:
    assert job(environment, "12", "resumes").stdout == b"2026-11-18 11:06:40  spare: goes on on n2\n"
    assert job(environment, "12", "nodes").stdout.startswith(b"NODE  STATE  START")
    timeline = job(environment, "12", "timeline").stdout.decode().splitlines()
    assert [line[35:] for line in timeline] == [
        "attempt 1 of the job began on n[1-2]",
        "auto-resume: spare: goes on on n2",
        "the job ended: exit status 0",
    ]


@pytest.mark.usefixtures("archive")
def test_a_terminal_gets_nothing_that_steers_it(environment: dict[str, str]) -> None:
    script = on_terminal(environment, ["job", "12", "script"])
    assert script == "#!/bin/sh\n# caf\\xe9 \\x1b[31m\necho done\n"
    assert on_terminal(environment, ["job", "12", "stdout"]) == "\\x1b[1mbold\\x1b[0m \\xff\n" * 1000
    page = on_terminal(environment, ["job", "12"])
    assert page.startswith("\x1b[1mJob 12 train: completed\x1b[0m\n")
    assert page.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\n", "").isprintable()
    assert "\x1b" not in on_terminal({**environment, "TERM": "dumb"}, ["jobs", "--since", "2026-01-01"])[20:].replace(
        "\x1b[0m", ""
    )


@pytest.mark.usefixtures("archive")
def test_json(environment: dict[str, str]) -> None:
    document = json.loads(job(environment, "12", "--json").stdout)
    assert list(document) == ["schema", "stepguard", "asked", "records"]
    assert document["schema"] == 1
    assert [record["attempt"] for record in document["records"]] == [0, 1]
    assert list(document["records"][1]) == [
        "cluster",
        "printed_id",
        "job_id",
        "attempt",
        "directories",
        "outcome",
        "outcome_why",
        "manifest",
        "nodes",
        "findings",
        "script_findings",
        "resumes",
        "missing",
    ]
    assert document["records"][1]["outcome"] == "completed"
    assert document["records"][1]["nodes"][0]["node"] == "n1"
    script = json.loads(job(environment, "12", "script", "--json").stdout)
    assert script["script"].encode(errors="surrogateescape") == SCRIPT
    assert json.loads(job(environment, "12", "env", "--json").stdout)["env"]["C"] == "\udcff"
    assert json.loads(job(environment, "12", "timeline", "--json").stdout)["timeline"][0]["time_s"] == 1795000000
    assert len(json.loads(job(environment, "20", "--json").stdout)["records"]) == 2


@pytest.mark.usefixtures("archive")
def test_a_whole_array(environment: dict[str, str]) -> None:
    lines = job(environment, "20").stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["JOB", "20_1", "20_2"]
    assert job(environment, "20_2").stdout.startswith(b"Job 20_2 (21) train: completed\n")
    told = job(environment, "20", "script")
    assert (told.returncode, told.stderr) == (2, b"stepguard: job 20 has 2 parts: script: name one, 20_1 to 20_2\n")


@pytest.mark.usefixtures("archive")
def test_what_there_is_not(environment: dict[str, str], archive: Path) -> None:
    unknown = job(environment, "99")
    assert unknown.returncode == 1
    assert unknown.stderr.startswith(f"stepguard: no record of job 99: {archive}/lab: its node may not have".encode())
    no_stderr = job(environment, "12", "stderr")
    assert no_stderr.returncode == 1
    why = b"stepguard: no stderr of job 12: /home/alice/o: it is the same file as stdout"
    assert no_stderr.stderr == why + b": `stepguard job 12 --attempt 1` shows what there is\n"
    why = b"stepguard: no script of job 20_1: the job is batch"
    assert job(environment, "20_1", "script").stderr == why + b": `stepguard job 20_1` shows what there is\n"
    assert job(environment, "12x").returncode == 2
    assert job(environment, "12", "nonsense").returncode == 2


def test_no_archive(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "archive").rmdir()
    told = job(environment, "12")
    assert told.returncode == 1
    assert told.stderr.startswith(f"stepguard: no archive here: {tmp_path}/archive: [archive] dir".encode())


def test_damage_is_told_and_the_rest_printed(environment: dict[str, str], archive: Path) -> None:
    path = archive / "lab/2026/11/18/12.1/stdout.zst"
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    told = job(environment, "12", "stdout")
    assert told.returncode == 1
    assert told.stderr == b"stepguard: stdout.zst: cut off\n"
    (archive / "lab/2026/11/18/12.1/manifest.json").write_text("{")
    page = job(environment, "12")
    assert page.returncode == 0
    assert b"\n  stdout.zst: cut off\n" in page.stdout
    assert b"Missing\n  manifest.json: not JSON" in page.stdout
    assert b"  | echo done\n" in page.stdout


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("part", [[], ["stdout"], ["timeline"], ["--json"]])
def test_nobody_reads_on(environment: dict[str, str], part: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    words = [*STEPGUARD, "job", "12", *part]
    child = subprocess.run(words, env=environment, stdout=writing, stderr=subprocess.PIPE, timeout=30, check=False)
    os.close(writing)
    assert (child.returncode, child.stderr) == (141, b"")


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("part", [[], ["stdout"], ["--json"]])
def test_a_full_disk(environment: dict[str, str], part: list[str]) -> None:
    words = [*STEPGUARD, "job", "12", *part]
    with Path("/dev/full").open("wb") as full:
        child = subprocess.run(words, env=environment, stdout=full, stderr=subprocess.PIPE, timeout=30, check=False)
    said = b"stepguard: cannot write: stdout: No space left on device: write where there is room\n"
    assert (child.returncode, child.stderr) == (1, said)


def said(environment: dict[str, str], *arguments: str) -> tuple[int, bytes, str]:
    """Status, stdout and stderr."""
    told = job(environment, *arguments)
    return told.returncode, told.stdout, told.stderr.decode()


@pytest.mark.parametrize(("part", "name"), [("env", "environment"), ("script", "script")])
def test_what_is_cut_is_named(environment: dict[str, str], archive: Path, part: str, name: str) -> None:
    why = "1048576 of its 1500000 bytes are kept"
    stored = "env.json" if part == "env" else "script"
    kept = KeptFile(stored, what="memory", size_bytes=1500000, head_bytes=1048576, why=why)
    content = environment_file({"A": "1"}) if part == "env" else b"A=1\n"
    write_record(archive, manifest("34", files={name: kept}), files={stored: content})
    assert f"Missing\n  {name}: {why}\n".encode() in job(environment, "34").stdout
    missing = [{"what": name, "why": why}]
    (record,) = json.loads(job(environment, "34", "--json").stdout)["records"]
    assert missing == [one for one in record["missing"] if one["what"] == name]
    assert said(environment, "34", part) == (0, b"A=1\n", f"stepguard: {name}: {why}\n")
    told = job(environment, "34", part, "--json")
    assert (told.returncode, json.loads(told.stdout)["missing"]) == (0, missing)
    assert json.loads(job(environment, "34", "timeline", "--json").stdout)["missing"] == []


def test_a_journal_that_was_not_kept_is_no_journal_of_nothing(environment: dict[str, str], archive: Path) -> None:
    kept = KeptFile(source="/home/alice/resumes.jsonl", what="fifo")
    missing = Missing("resumes", "fifo, not read")
    write_record(archive, manifest("35", files={"resumes": kept}, missing=[missing]))
    why = "no resumes of job 35: /home/alice/resumes.jsonl: fifo, not read"
    assert said(environment, "35", "resumes") == (
        1,
        b"",
        f"stepguard: {why}: `stepguard job 35` shows what there is\n",
    )
    told = job(environment, "35", "resumes", "--json")
    document = json.loads(told.stdout)
    assert (told.returncode, document["resumes"], document["missing"]) == (1, [], [dataclasses.asdict(missing)])


@pytest.mark.parametrize("is_link", [False, True])
def test_a_journal_that_cannot_be_read_now(environment: dict[str, str], archive: Path, is_link: bool) -> None:
    directory = write_record(archive, manifest("36"))
    if is_link:
        (directory / "resumes.jsonl").symlink_to("/dev/null")
    else:
        os.mkfifo(directory / "resumes.jsonl")
    status, stdout, stderr = said(environment, "36", "resumes")
    assert (status, stdout, stderr.startswith("stepguard: resumes.jsonl: "), stderr.count("\n")) == (1, b"", True, 1)
    told = job(environment, "36", "resumes", "--json")
    assert (told.returncode, [one["what"] for one in json.loads(told.stdout)["missing"]]) == (1, ["resumes.jsonl"])


def test_damaged_lines_have_one_status_in_json_and_without(environment: dict[str, str], archive: Path) -> None:
    good = b'{"time":1795000000,"event":"choice","strategy":"spare","nodes":["n2"]}\n'
    write_record(archive, manifest("37"), files={"resumes.jsonl": good + b"{\n"})
    assert said(environment, "37", "resumes") == (
        1,
        b"2026-11-18 11:06:40  spare: goes on on n2\n",
        "stepguard: resumes.jsonl: 1 damaged lines are left out\n",
    )
    assert job(environment, "37", "resumes", "--json").returncode == 1
    assert b"resumes.jsonl: 1 damaged lines are left out" in job(environment, "37").stdout


def test_parts_that_there_are_none_of_yet(environment: dict[str, str], archive: Path) -> None:
    write_record(archive, manifest("32", state="running", end_s=None, exit_status=None, exit_signal=None))
    for part, said in (
        ("nodes", b"no node has told its part yet: they do when the job has ended"),
        ("resumes", b"how steps of job 32 were guarded and resumed is told when it has ended"),
        ("health", b"what the devices of job 32 went through is told when it has ended"),
    ):
        told = job(environment, "32", part)
        assert (told.returncode, told.stdout, told.stderr) == (0, b"", b"stepguard: " + said + b"\n")
    assert json.loads(job(environment, "32", "nodes", "--json").stdout)["nodes"] == []


@pytest.mark.usefixtures("archive")
@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_locales_without_utf8(environment: dict[str, str], archive: Path, locale: dict[str, str]) -> None:
    write_record(archive, manifest("30", name="caf\u00e9 \udcff"))
    page = job({**environment, **locale}, "30")
    assert page.stdout.startswith(b"Job 30 caf\\u00e9 \\xff: completed\n")
    assert job({**environment, **locale}, "30", "--json").returncode == 0


@pytest.mark.usefixtures("archive")
def test_stdout_that_is_closed(environment: dict[str, str]) -> None:
    words = " ".join([*STEPGUARD, "job", "12", ">&-"])
    child = subprocess.run(["sh", "-c", words], env=environment, capture_output=True, timeout=30, check=False)
    assert (child.returncode, child.stderr) == (0, b"")


def test_an_empty_output_is_printed_as_such(environment: dict[str, str], archive: Path) -> None:
    kept = KeptFile("stdout.zst", "/home/alice/o", "regular", 0)
    write_record(archive, manifest("31", files={"stdout": kept}), files={"stdout.zst": b""})
    told = job(environment, "31", "stdout")
    assert (told.returncode, told.stdout, told.stderr) == (0, b"", b"")
    assert b"Last lines of stdout\n  /home/alice/o, 0 bytes\n" in job(environment, "31").stdout


@pytest.mark.usefixtures("archive")
def test_an_attempt_behind_the_id(environment: dict[str, str]) -> None:
    assert job(environment, "12.0", "script").stdout == b"first\n"
    assert job(environment, "12.1", "script").stdout == SCRIPT
    assert job(environment, "20_2.0").stdout.startswith(b"Job 20_2 (21) train: completed\n")
    assert job(environment, "12.1", "--attempt", "1", "script").stdout == SCRIPT
    assert b"attempt 7: " in job(environment, "12.7").stderr
    two = job(environment, "12.0", "--attempt", "1")
    assert (two.returncode, two.stderr) == (
        2,
        b"stepguard: two attempts of one job: '12.0' and --attempt 1: name one\n",
    )
    assert job(environment, "12.").returncode == 2


def test_an_id_that_is_none_is_not_echoed_whole(environment: dict[str, str]) -> None:
    told = job(environment, "1" * 100_000)
    assert (told.returncode, len(told.stderr) < 200) == (2, True)


@pytest.mark.parametrize("part", ["script", "env", "stdout"])
def test_parts_of_a_job_that_only_hooks_told_of(environment: dict[str, str], archive: Path, part: str) -> None:
    lacks = Missing("name, script, output and steps", "no slurmstepd told of any")
    write_record(archive, manifest("33", kind="unknown", missing=[lacks]))
    told = job(environment, "33", part)
    assert told.returncode == 1
    assert told.stderr.endswith(b" of job 33: no slurmstepd told of any: `stepguard job 33` shows what there is\n")
