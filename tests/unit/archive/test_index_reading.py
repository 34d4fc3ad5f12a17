# SPDX-License-Identifier: Apache-2.0
"""What the index is asked, and that 10^5 records are no trouble."""

from __future__ import annotations

import gc
import os
import re
import time
from pathlib import Path

import pytest

from stepguard.archive.index import append
from stepguard.archive.index_bounds import READ_MAX_BYTES, shares
from stepguard.archive.index_lines import Entry, line_of
from stepguard.archive.index_reading import STATES, Query, look_up, search
from stepguard.archive.index_rebuild import rebuild
from stepguard.archive.layout import ClusterLayout
from stepguard.records import job_ids
from unit.archive.building import START_S, entry, many_entries
from unit.everybody import let_in

HOUR_S = 3600
JOBS = [
    entry(1, start_s=START_S, end_s=START_S + HOUR_S, name="old", nodes="n1", partition="cpu"),
    entry(2, start_s=START_S + 1, end_s=None, state="running", exit="", nodes="n[2-9]"),
    entry(3, start_s=START_S + 2, end_s=START_S + 5 * HOUR_S, exit="1:0", name="train-a", partition="gpu,big"),
    entry(4, start_s=START_S + 3, end_s=START_S + 5 * HOUR_S, exit="0:9", name="train-b", nodes="n[1"),
    entry(5, start_s=START_S + 4, end_s=None, state="lost", exit="", name="caf\u00e9"),
    entry(6, start_s=START_S + 5, end_s=START_S + 6, exit="", user="bob"),
    entry(7, start_s=START_S + 6, end_s=START_S + 7, state="timeout", exit="0:15", user="carol", nodes="n7"),
]


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterLayout:
    (tmp_path / "lab").mkdir()
    for number, job in enumerate(JOBS):
        append(tmp_path / "lab", f"n{number % 3}", job)
    return ClusterLayout(tmp_path / "lab")


def numbers(found: list[Entry]) -> str:
    return " ".join(one.job_id for one in found)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (Query(), "7 6 5 4 3 2 1"),
        (Query(uid=os.geteuid()), "7 6 5 4 3 2 1"),
        (Query(uid=54321), ""),
        (Query(user="bob"), "6"),
        (Query(nodes=frozenset(["n1"])), "6 5 3 1"),
        (Query(nodes=frozenset(["n3", "n9"])), "2"),
        (Query(states=frozenset(["failed", "lost"])), "5 4 3"),
        (Query(states=frozenset(["ended"])), "6"),
        (Query(states=STATES["ended"]), "7 6 4 3 1"),
        (Query(states=STATES["failed"]), "7 4 3"),
        (Query(states=frozenset(["timeout"])), "7"),
        (Query(states=frozenset(["completed"])), "1"),
        (Query(since_s=START_S + 2 * HOUR_S), "4 3 2"),
        (Query(until_s=START_S + 1.5), "2 1"),
        (Query(name="train-*"), "4 3"),
        (Query(name="caf\u00e9"), "5"),
        (Query(partitions=frozenset(["big", "cpu"])), "3 1"),
    ],
)
def test_filters(cluster: ClusterLayout, query: Query, expected: str) -> None:
    found, more = search([cluster], query)
    assert numbers([one.entry for one in found]) == expected
    assert not more


def test_limit(cluster: ClusterLayout) -> None:
    found, more = search([cluster], Query(limit=2))
    assert (numbers([one.entry for one in found]), more) == ("7 6", True)
    assert search([cluster], Query(limit=7))[1] is False


def test_ids_of_arrays_and_het_jobs(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    for number, printed in ((20, "20_2"), (21, "20_0"), (22, "20_1"), (30, "30+0"), (31, "30+1"), (2, "2")):
        append(tmp_path / "lab", "n1", entry(number, printed_id=printed))
    append(tmp_path / "lab", "n2", entry(21, printed_id="20_0", path="2026/11/18/21.1", attempt=1))
    cluster = ClusterLayout(tmp_path / "lab")
    found = {
        asked: sorted(f"{one.printed_id}.{one.attempt}" for one in look_up(cluster, job_ids.parse(asked)))
        for asked in ("20", "20_0", "21", "20_3", "30", "30+1", "31", "2", "20+0")
    }
    assert found == {
        "20": ["20_0.0", "20_0.1", "20_1.0", "20_2.0"],
        "20_0": ["20_0.0", "20_0.1"],
        "21": ["20_0.0", "20_0.1"],
        "20_3": [],
        "30": ["30+0.0", "30+1.0"],
        "30+1": ["30+1.0"],
        "31": ["30+1.0"],
        "2": ["2.0"],
        "20+0": [],
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_everybody_sees_their_own(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    for uid in (1234, 1235):
        append(tmp_path / "lab", "n1", entry(uid, uid=uid))
    let_in(tmp_path)
    cluster = ClusterLayout(tmp_path / "lab")
    assert len(search([cluster], Query())[0]) == 2
    os.seteuid(1234)
    try:
        assert [one.entry.uid for one in search([cluster], Query())[0]] == [1234]
        assert search([cluster], Query(uid=1235))[0] == []
        assert look_up(cluster, job_ids.parse("1235")) == []
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\0", id="sparse"),
        pytest.param(b"\n1\t2", id="short lines"),
        pytest.param(b"1\t1\t.\n" + b"\t" * 99, id="tabs"),
        pytest.param(b"1\t2026/01/01/1.0" + b"\t" * 15 + b".\n", id="lines"),
    ],
)
def test_what_one_user_has_made_large_holds_up_nobody(tmp_path: Path, content: bytes) -> None:
    index = tmp_path / "lab/index"
    (tmp_path / "lab").mkdir()
    append(tmp_path / "lab", "n1", entry(12))
    append(tmp_path / "lab", "n2", entry(13))
    with (index / str(os.geteuid()) / "n1.tsv").open("ab") as file:
        if content == b"\0":
            file.truncate(1 << 40)
        else:
            file.write(content * ((100 << 20) // len(content)))
    said: list[str] = []
    before_s = time.process_time()
    found, _ = search([ClusterLayout(tmp_path / "lab")], Query(since_s=START_S), said.append)
    assert time.process_time() - before_s < 20, "not the size of the whole, which would take minutes"
    assert "13" in [one.entry.job_id for one in found]
    text, *others = said
    assert f"index/{os.geteuid()} only the last 64 are read" in text
    assert "n1.tsv is the largest" in text
    before_s = time.process_time()
    assert rebuild(tmp_path / "lab", tell=said.append) == 0
    assert time.process_time() - before_s < 20
    assert said[1 + len(others) :] == [text]
    assert all(re.match("[0-9]+ lines of index/", one) for one in others)
    assert bool(others) == (b"\t.\n" in content)


def test_a_large_file_takes_nothing_from_the_others() -> None:
    assert shares({"a": 10, "b": 1 << 40, "c": 20}) == {"a": 10, "c": 20, "b": READ_MAX_BYTES - 30}
    assert shares({"a": 1 << 30, "b": 1 << 30}) == {"a": READ_MAX_BYTES // 2, "b": READ_MAX_BYTES // 2}
    assert shares({}) == {}


def test_of_a_large_file_the_youngest_lines_are_read(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    append(tmp_path / "lab", "n1", entry(12))
    file = tmp_path / f"lab/index/{os.geteuid()}/n1.tsv"
    with file.open("ab") as grown:
        grown.truncate(1 << 30)
        grown.seek(1 << 30)
        grown.write(b"\n" + line_of(entry(13)))
    assert [one.entry.job_id for one in search([ClusterLayout(tmp_path / "lab")], Query())[0]] == ["13"]


def test_a_hundred_thousand_records_are_filtered_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "lab/index" / str(os.geteuid())
    directory.mkdir(parents=True)
    lines: dict[str, list[bytes]] = {}
    for number, one in enumerate(many_entries(100_000)):
        running = one._replace(state="running", end_s=None, exit="")
        lines.setdefault(f"n{number % 100}", []).extend([line_of(running), line_of(one)])
    for node, written in lines.items():
        (directory / f"{node}.tsv").write_bytes(b"".join(written))
    queries = {
        "one node": (Query(nodes=frozenset(["n042"])), 8000),
        "a week": (Query(since_s=START_S - 7 * 86400), 7000),
        "failed": (Query(states=frozenset(["failed"]), limit=100), 100),
    }
    gc.disable()  # as the verb does
    try:
        for what, (query, at_least) in queries.items():
            times_s = []
            for _ in range(3):
                before_s = time.process_time()
                found, _ = search([ClusterLayout(tmp_path / "lab")], query)
                times_s.append(time.process_time() - before_s)
                assert len(found) >= at_least, what
            assert min(times_s) < 5.0, (what, times_s)  # 0.7 s on a machine that does nothing else
    finally:
        gc.enable()


def test_an_earlier_attempt_was_requeued_where_nothing_says_how_else_it_ended(tmp_path: Path) -> None:
    (tmp_path / "lab").mkdir()
    day = "2026/11/18"
    for path, fields in {
        "12.0": {"state": "cancelled", "exit": "0:15"},
        "12.1": {"exit": ""},
        "12.2": {"state": "timeout", "exit": "0:15"},
        "12.3": {"state": "cancelled", "exit": "0:15"},
        "13.0": {"exit": "1:0"},
        "13.1": {},
        "14.0": {"state": "cancelled", "exit": "0:15"},
    }.items():
        job_id, attempt = path.split(".")
        append(tmp_path / "lab", "n1", entry(int(job_id), path=f"{day}/{path}", attempt=int(attempt), **fields))
    found, _ = search([ClusterLayout(tmp_path / "lab")], Query())
    assert {one.entry.path.rpartition("/")[2]: one.outcome for one in found} == {
        "12.0": "requeued",
        "12.1": "requeued",
        "12.2": "timeout",
        "12.3": "cancelled",
        "13.0": "failed",
        "13.1": "completed",
        "14.0": "cancelled",
    }
