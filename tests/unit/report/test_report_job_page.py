# SPDX-License-Identifier: Apache-2.0
"""The page of a record: what is first, what is escaped, and what it says of damage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepguard.archive.reading import find
from stepguard.archive.reading_record import Record
from stepguard.records.manifest import Exit, FindingRecord, KeptFile, Missing
from stepguard.report.job_page import job_page, last_lines
from stepguard.report.resumes import sentence
from stepguard.report.screen import Screen, columns
from unit.archive.building import START_S, manifest, node, step, write_record

EVIL = "\x1b]0;x\x07\n\u202e\udcff"


def page_of(records: list[Record], screen: Screen | None = None) -> str:
    return "\n".join(job_page(records[-1], records, screen or Screen()))


def test_a_job_that_failed(tmp_path: Path) -> None:
    write_record(tmp_path, manifest(state="lost", end_s=None, missing=[Missing("end", "n1 was started anew")]))
    write_record(
        tmp_path,
        manifest(
            "12",
            1,
            start_s=START_S + 90,
            exit_status=0,
            exit_signal=9,
            steps=[step("0", ["train", "--lr=1"], [Exit(0, 0, 9, START_S + 100)], task_count=1)],
            files={"stdout": KeptFile("stdout.zst", "/home/alice/o", "regular", 5 << 20, 10, 10, 99, why="cut")},
        ),
        nodes=[node("n2", attempt=1, state="lost", missing=[Missing("end", "no epilog told of its end")])],
        findings=[FindingRecord("stale-node-list", "names n3", START_S, "n1", "0")],
        files={
            "stdout.zst": b"".join(b"line %d\n" % number for number in range(100)),
            "resumes.jsonl": b'{"event":"choice","time":1,"strategy":"spare","nodes":["n1","n3"],"passed_over":{}}\n',
            "script": b"#!/bin/sh\n" + b"true\n" * 20,
        },
    )
    page = page_of(find(tmp_path, "12"))
    titles = [line for line in page.split("\n")[2:] if line and not line.startswith(" ")]
    assert page.startswith("Job 12 train: failed, killed by SIGKILL (9)\nof alice on cluster lab, attempt 1\n")
    assert titles == [
        "Findings",
        "How it ended",
        "What ran",
        "Where",
        "When",
        "Attempts",
        "Resumes",
        "Last lines of stdout",
        "Missing",
        "Kept in",
    ]
    for text in (
        "  stale-node-list: names n3 (step 0 n1)\n",
        "  first to fail: task 0 of step 0 on n1 at ",
        "  node n2 was lost: no epilog told of its end\n",
        "  13 more lines: stepguard job 12 --attempt 1 script\n",
        "train --lr=1\n",
        "  nodes       n[1-2] (2)\n",
        "spare: goes on on n1,n3\n",
        "  /home/alice/o, 5.0 MiB, cut\n  | line 80\n",
        "  | line 99\n",
        "  end of n2: no epilog told of its end\n",
    ):
        assert text in page, text
    assert "line 79" not in page


def test_a_job_that_slurm_ended_says_how_that_is_known(tmp_path: Path) -> None:
    steps = [step("batch", [], [Exit(0, 0, 15)])]
    why = "its output says *** JOB 12 ON n1 CANCELLED AT 2026-11-18T12:00:00 DUE TO TIME LIMIT ***"
    write_record(tmp_path, manifest(outcome="timeout", outcome_why=why, exit_signal=15, steps=steps))
    page = page_of(find(tmp_path, "12"))
    assert page.startswith(f"Job 12 train: timeout, killed by SIGTERM (15)\nof alice on cluster lab\n{why}\n\n")
    assert f"\n  timeout: {why}; the batch script: killed by SIGTERM (15)\n" in page


def test_an_attempt_that_another_followed_was_requeued(tmp_path: Path) -> None:
    write_record(tmp_path, manifest(outcome="cancelled", outcome_why="Slurm ended the job", exit_signal=15))
    write_record(tmp_path, manifest(attempt=1, outcome="ended", outcome_why="nothing tells"))
    first, last = find(tmp_path, "12")
    assert page_of([first, last]).startswith("Job 12 train: ended\nof alice on cluster lab, attempt 1\nnothing tells\n")
    assert "\n".join(job_page(first, [first, last], Screen())).startswith(
        "Job 12 train: requeued, killed by SIGTERM (15)\nof alice on cluster lab, attempt 0\n"
        "there is a later attempt; Slurm ended the job\n"
    )


def test_nothing_that_a_user_wrote_steers_the_terminal(tmp_path: Path) -> None:
    evil_step = step("0", [EVIL], [Exit(0, 1)])
    event = {"event": "end", "why": EVIL, "cause": EVIL, "nodes": [EVIL, 7], "attempt": {"a": EVIL}, "time": "x"}
    write_record(
        tmp_path,
        manifest(
            name=EVIL,
            user=EVIL,
            comment=EVIL * 2000,
            work_dir=EVIL,
            partition=EVIL,
            node_list=EVIL,
            steps=[evil_step],
            files={"stdout": KeptFile("../../x", EVIL, EVIL, why=EVIL), "stderr": KeptFile(source=EVIL)},
            missing=[Missing(EVIL, EVIL)],
        ),
        nodes=[node("n1", steps=[evil_step], gpus=EVIL)],
        findings=[FindingRecord(EVIL, EVIL, START_S, EVIL, EVIL)],
        files={
            "script": b"\x1b[2J\xff\n\r",
            "stdout.zst": b"\x1b[2J\xff\xe2\x80\xae\n" * 50,
            "resumes.jsonl": json.dumps(event).encode() + b'\n{"event":"start","words":7}\n{"event":"choice"}\n',
        },
    )
    records = find(tmp_path, "12")
    for screen in (Screen(), Screen(60), Screen(utf8=False)):
        page = page_of(records, screen)
        assert all(line.isprintable() for line in page.split("\n"))
        assert screen.utf8 or page.isascii()
        if screen.width:
            assert max(columns(line) for line in page.split("\n")[:-1]) <= 60  # the last one is a path
    assert "\\x1b]0;x\\x07\\n\\u202e\\xff" in page_of(records)


def test_a_damaged_record_has_a_page(tmp_path: Path) -> None:
    directory = write_record(tmp_path, manifest(), nodes=[node("n2", steps=[step("0", ["train"])])])
    (directory / "manifest.json").write_text("{")
    (directory / "stdout.zst").write_text("no zstd")
    page = page_of(find(tmp_path, "12"))
    assert page.startswith("Job 12: damaged\non cluster lab\n")
    assert "  manifest.json: not JSON: " in page
    assert "  stdout.zst: not what zstd wrote: " in page
    assert "  nodes       n2\n" in page
    assert "train" in page


def test_a_running_job(tmp_path: Path) -> None:
    write_record(tmp_path, manifest(state="running", end_s=None, exit_status=None, exit_signal=None))
    page = page_of(find(tmp_path, "12"))
    assert page.startswith("Job 12 train: running\n")
    assert "  it runs, as far as is known\n" in page
    assert "  ended " not in page


def test_a_job_that_ran_in_a_thousand_steps(tmp_path: Path) -> None:
    steps = [step(str(n), [f"run{n}"], [Exit(0, int(n == 7))], start_s=START_S + n) for n in range(1000)]
    write_record(tmp_path, manifest(steps=steps), nodes=[node("n1", steps=steps)])
    page = page_of(find(tmp_path, "12"))
    assert [word for word in page.split() if word.startswith("run")] == [
        "run7",
        *(f"run{number}" for number in range(989, 1000)),
    ]
    assert "  988 more steps: stepguard job 12 timeline\n" in page


def test_last_lines() -> None:
    assert last_lines([], Screen()) == []
    assert last_lines([b"\n\n"], Screen()) == [""]
    assert last_lines([b"a\nb", b"c\n"], Screen()) == ["a", "bc"]
    assert last_lines([b"0%\r50%\r100%\r\n", b"done\tok"], Screen()) == ["100%", "done    ok"]
    assert last_lines([b"x" * 10_000_000 + b"\nend\n"], Screen())[-1] == "end"
    assert last_lines([b"\0" * 262_148], Screen()) == ["\\x00" * 500 + "..."]
    pieces = [b"%d\n" % number for number in range(200_000)]
    assert last_lines(pieces, Screen()) == [str(number) for number in range(199_980, 200_000)]


def test_sentences_of_the_journal() -> None:
    assert (
        sentence({"event": "end", "attempt": 1, "status": 0, "ran_s": 12.3})
        == "attempt 1 ended with status 0 after 12.3 s"
    )
    assert sentence({"event": "choice", "strategy": "", "passed_over": {"spare": "none"}}) == (
        "no strategy is left; not possible: spare (none)"
    )
    assert sentence({"event": "batch-host-lost", "node": "n1", "seen_by": "n2"}) == (
        "the batch host n1 was lost, seen by n2: requeue"
    )
    assert sentence({"event": "helper-ended", "helper": "72", "seen_by": "n2"}) == "helper job 72 was ended by n2"
    assert sentence({"event": "something-new"}) == "something-new"


def test_the_arguments_of_the_script_stand_below_it(tmp_path: Path) -> None:
    write_record(tmp_path, manifest(argv=["--lr=0.1", "two words", EVIL]), files={"script": b"#!/bin/sh\n"})
    page = page_of(find(tmp_path, "12"))
    assert "  | #!/bin/sh\n  arguments   --lr=0.1 'two words' '\\x1b" in page


@pytest.mark.parametrize(
    ("what", "size_bytes", "said"),
    [
        ("absent", 0, "del.out, gone when the job had ended"),
        ("link", 11, "del.out, not kept: a symbolic link stood there when the job had ended"),
        ("fifo", 0, "del.out, not kept, fifo"),
        ("regular", 11, "del.out, 11 bytes"),
    ],
)
def test_an_output_that_is_not_there_has_no_size(tmp_path: Path, what: str, size_bytes: int, said: str) -> None:
    """Also in records that have that of what stood in its place."""
    files = {"stdout": KeptFile(source="del.out", what=what, size_bytes=size_bytes)}
    write_record(tmp_path, manifest(files=files))
    lines = page_of(find(tmp_path, "12")).split("\n")
    assert lines[lines.index("Last lines of stdout") + 1] == f"  {said}"
