# SPDX-License-Identifier: Apache-2.0
"""`stepguard jobs` as a command."""

from __future__ import annotations

import datetime
import json
import os
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stepguard.archive.index import append
from stepguard.cli.jobs import command
from stepguard.errors import StepguardError, UsageError
from unit.archive.building import entry

NOW_S = time.time()


@pytest.fixture(autouse=True)
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    archive = tmp_path / "archive"
    (archive / "lab").mkdir(parents=True)
    (tmp_path / "stepguard.toml").write_text(f'[archive]\ndir = "{archive}"\n')
    monkeypatch.setenv("STEPGUARD_CONFIG", str(tmp_path / "stepguard.toml"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    # All tests may take half an hour, and this module's was imported before them.
    monkeypatch.setattr("stepguard.cli.jobs.time.time", lambda: NOW_S)
    for number, ago_s in ((1, 86400 * 30), (2, 7200), (3, 3600)):
        name = f"train-{number}\x1b"
        times = {"start_s": NOW_S - ago_s, "end_s": NOW_S - ago_s + 60}
        append(
            archive / "lab", "n1", entry(number, name=name, exit=f"{number - 2}:0" if number > 1 else "0:9", **times)
        )
    return archive


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(command, arguments)
    if result.exception is not None:
        raise result.exception
    return result


def ids(*arguments: str) -> list[str]:
    return [line.split()[0] for line in run(*arguments).stdout.splitlines()[1:]]


def test_the_newest_of_the_last_week() -> None:
    lines = run().stdout.splitlines()
    assert lines[0].split() == ["JOB", "NAME", "PARTITION", "NODES", "STATE", "EXIT", "START", "TOOK"]
    assert lines[1].split()[:6] == ["3", "train-3\\x1b", "gpu", "n[1-2]", "failed", "1:0"]
    assert lines[2].split()[:5] == ["2", "train-2\\x1b", "gpu", "n[1-2]", "completed"]
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--since", "90d"], ["3", "2", "1"]),
        (["--since", "90m"], ["3"]),
        (["--since", "90d", "--until", "1d"], ["1"]),
        (["--state", "failed", "--since", "90d"], ["3", "1"]),
        (["--state", "COMPLETED,running"], ["2"]),
        (["--node", "n[2-5]"], ["3", "2"]),
        (["--node", "n3"], []),
        (["--name", "*-3*"], ["3"]),
        (["--partition", "cpu,gpu"], ["3", "2"]),
        (["--partition", "cpu"], []),
        (["--user", str(os.geteuid())], ["3", "2"]),
        (["--user", "54321"], []),
        (["--user", "alice"], ["3", "2"]),
        (["--user", "alice", "--since", "1m"], []),
        (["--all"], ["3", "2"]),
        (["--cluster", "lab"], ["3", "2"]),
    ],
)
def test_filters(arguments: list[str], expected: list[str]) -> None:
    assert ids(*arguments) == expected


def test_what_the_list_does_not_say() -> None:
    assert run("--limit", "1").stderr == "stepguard: there are more than 1: --limit 0 lists all\n"
    assert run("--node", "n9").stderr.startswith("stepguard: no such job since 7d; --all lists those of everybody")
    assert run().stderr == ""


def test_json(archive: Path) -> None:
    document = json.loads(run("--json", "--limit", "1").stdout)
    assert (document["schema"], document["more"]) == (1, True)
    (job,) = document["jobs"]
    assert job == {
        "cluster": "lab",
        "start_s": pytest.approx(NOW_S - 3600, abs=0.01),
        "end_s": pytest.approx(NOW_S - 3540, abs=0.01),
        "state": "ended",
        "exit": "1:0",
        "printed_id": "3",
        "job_id": "3",
        "attempt": 0,
        "name": "train-3\x1b",
        "user": "alice",
        "nodes": "n[1-2]",
        "partition": "gpu",
        "resumes": 0,
        "findings": 0,
        "uid": os.geteuid(),
        "outcome": "failed",
        "directory": str(archive / "lab/2026/11/18/3.0"),
    }


def test_two_clusters(archive: Path) -> None:
    (archive / "other").mkdir()
    append(archive / "other", "n1", entry(2, start_s=NOW_S, end_s=None, state="running", exit=""))
    lines = run().stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["JOB", "CLUSTER"], ["2", "other"], ["3", "lab"], ["2", "lab"]]
    assert ids("--cluster", "other") == ["2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--state", "pending"], "unknown state 'pending': --state: known: running, completed"),
        (["--since", "yesterday-ish"], "bad time 'yesterday-ish': --since"),
        (["--user", "alice", "--all"], "--user and --all"),
        (["--cluster", "../x"], "not the name of a cluster"),
        (["--node", "n[1-"], r"no host list: '\[1-': --node 'n\[1-': write n3 or"),
        (["--node", "n[1-999999]"], "stands for more than 65536 names: --node"),
        (["--user", "nobody-of-that-name"], "no such user: --user nobody-of-that-name"),
    ],
)
def test_wrong_words(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(*arguments)


def test_an_unknown_cluster() -> None:
    with pytest.raises(StepguardError, match="no records of cluster elsewhere"):
        run("--cluster", "elsewhere")


def test_what_tells_no_start_stands_where_its_first_time_puts_it(archive: Path) -> None:
    """srun and salloc that ran no step have an end alone, and damaged records not even that."""
    day = datetime.datetime.fromtimestamp(NOW_S - 40 * 86400, datetime.UTC).strftime("%Y/%m/%d")
    append(archive / "lab", "n1", entry(7, start_s=None, end_s=NOW_S - 1800))
    append(archive / "lab", "n1", entry(8, start_s=None, end_s=NOW_S - 5400))
    append(archive / "lab", "n1", entry(9, start_s=None, end_s=None, state="damaged", exit="", path=f"{day}/9.0"))
    append(archive / "lab", "n1", entry(10, start_s=None, end_s=None, state="running", exit="", path="9999/12/31/10.0"))
    assert ids("--since", "90d") == ["10", "7", "3", "8", "2", "1", "9"]
    assert ids("--limit", "2") == ["10", "7"]


def test_the_first_attempt_of_a_requeued_job_is_named(archive: Path) -> None:
    times = {"start_s": NOW_S - 100, "end_s": NOW_S - 50}
    append(archive / "lab", "n1", entry(9, state="cancelled", exit="0:15", path="2026/11/18/9.0", **times))
    append(archive / "lab", "n1", entry(9, attempt=1, path="2026/11/18/9.1", start_s=NOW_S - 40, end_s=NOW_S))
    lines = [line.split() for line in run("--since", "10m").stdout.splitlines()]
    assert [(line[0], line[4]) for line in lines] == [("JOB", "STATE"), ("9.1", "completed"), ("9.0", "requeued")]
    assert ids("--state", "requeued") == ["9.0"]
    assert ids("--state", "cancelled") == []
    (job,) = json.loads(run("--json", "--state", "requeued").stdout)["jobs"]
    assert (job["state"], job["outcome"]) == ("ended", "requeued")


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e300", "later", "9" * 400])
def test_what_a_user_has_written_into_their_index_stops_no_list(archive: Path, text: str) -> None:
    file = archive / f"lab/index/{os.geteuid()}/n1.tsv"
    file.chmod(0o600)
    lines = file.read_text().splitlines()
    fields = lines[1].split("\t")
    fields[3] = text
    file.write_text("\n".join([lines[0], "\t".join(fields), lines[2]]) + "\n")
    for words in (["--all"], ["--all", "--json"], ["--since", "90d", "--limit", "0", "--json"]):
        result = run(*words)
        assert "1 lines of index/" in result.stderr
        if "--json" in words:
            numbers = [job["job_id"] for job in json.loads(result.stdout, parse_constant=pytest.fail)["jobs"]]
            assert numbers == (["3", "1"] if "90d" in words else ["3"])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("x[1]", ["x[1]"]),
        ("[w]rap", []),
        ("w*", ["wrap"]),
        ("?rap", ["wrap"]),
        ("x[?]", ["x[1]"]),
        ("a.b", ["a.b"]),
        ("a?b", ["a.b", "a\nb"]),
        ("*", ["wrap", "x[1]", "a.b", "a\nb", "(", "\\"]),
        ("***(", ["("]),
        ("\\", ["\\"]),
        ("WRAP", []),
        ("", ["wrap", "x[1]", "a.b", "a\nb", "(", "\\"]),
    ],
)
def test_in_a_name_only_two_characters_stand_for_others(archive: Path, pattern: str, expected: list[str]) -> None:
    names = ["wrap", "x[1]", "a.b", "a\nb", "(", "\\"]
    for number, name in enumerate(names, 50):
        append(archive / "lab", "n1", entry(number, name=name, start_s=NOW_S - number, end_s=NOW_S))
    found = json.loads(run("--since", "10m", "--name", pattern, "--json").stdout)["jobs"]
    assert [job["name"] for job in found] == expected


def test_one_long_name_does_not_widen_the_list(archive: Path) -> None:
    long = {"name": "x" * 255, "partition": "p" * 500, "nodes": ",".join(f"n{number}" for number in range(0, 400, 2))}
    append(archive / "lab", "n1", entry(9, start_s=NOW_S - 60, end_s=NOW_S, **long))
    lines = run().stdout.splitlines()
    assert max(map(len, lines)) < 240
    assert "x" * 39 + "~" in lines[1]
    (job,) = [job for job in json.loads(run("--json").stdout)["jobs"] if job["job_id"] == "9"]
    assert {key: job[key] for key in long} == long


def test_a_time_until_before_since_is_told() -> None:
    with pytest.raises(UsageError, match="no time between them: --since 7d and --until 1970-01-01: say an earlier"):
        run("--until", "1970-01-01")
    assert (
        "no such job since 1970-01-01, until 1970-01-02" in run("--since", "1970-01-01", "--until", "1970-01-02").stderr
    )
