# SPDX-License-Identifier: Apache-2.0
"""The entry that says where a part's tasks stand in the whole step: what becomes of a task's environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from shim import fuzz
from shim.built import Outcome, Shim
from shim.compiling import compiled

NAME = "SLURM_STEPGUARD_PLACES"
# What slurmstepd has set when the plugin is asked.
OWN = {
    "SLURMD_NODENAME": "n3",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "0",
    "SLURM_NODEID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_GTIDS": "0,1",
    "SLURM_JOB_ID": "75",
    "FOO": "a=b;c",
}
GOOD = "1;SLURM_NTASKS=9;SLURM_JOB_ID=71;SLURM_NODELIST=n[1,4,3];STEPGUARD_HELPER_JOB_ID=75;@n4=1:5;@n3=2:7-8,0"


def task(shim: Shim, text: str | bytes | None, local_id: int = 0, more: Mapping[str, str] | None = None) -> Outcome:
    """A task of slurmstepd's with this text in the entry."""
    entry = {} if text is None else {NAME: text}
    return shim.run(["slurmstepd"], {**OWN, "HOST_TASK": str(local_id), **(more or {}), **entry}, "remote")


def variables(outcome: Outcome) -> dict[str, str]:
    """Its environment. Each name is there once."""
    pairs = [entry.decode().partition("=")[::2] for entry in outcome.task]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@pytest.mark.parametrize(("local_id", "rank"), [(0, "7"), (1, "8"), (2, "0")])
def test_task_takes_its_place(shim: Shim, local_id: int, rank: str) -> None:
    before = variables(task(shim, None, local_id))
    outcome = task(shim, GOOD, local_id)
    assert outcome.stderr == ""
    assert variables(outcome) == {
        **before,
        "SLURM_NTASKS": "9",
        "SLURM_JOB_ID": "71",
        "SLURM_NODELIST": "n[1,4,3]",
        "STEPGUARD_HELPER_JOB_ID": "75",
        "SLURM_PROCID": rank,
        "SLURM_NODEID": "2",
        "SLURM_GTIDS": "7,8,0",
    }


def test_task_without_the_entry_is_left_alone(shim: Shim) -> None:
    assert {name: value for name, value in variables(task(shim, None)).items() if name in OWN} == OWN


def test_rows_may_be_left_out(shim: Shim) -> None:
    before = variables(task(shim, None))
    assert variables(task(shim, "1;SLURM_JOB_ID=71;SLURM_X=")) == {**before, "SLURM_JOB_ID": "71", "SLURM_X": ""}
    assert variables(task(shim, "1")) == before


def test_values_to_the_character(shim: Shim) -> None:
    value = "".join(chr(code) for code in range(32, 127) if chr(code) != ";")
    assert variables(task(shim, f"1;STEPGUARD_X={value}"))["STEPGUARD_X"] == value


def test_as_much_as_there_may_be(shim: Shim) -> None:
    many = [f"SLURM_X{number}={number}" for number in range(63)]
    assert variables(task(shim, ";".join(["1", *many, "SLURM_Y=1"])))["SLURM_X62"] == "62"
    long = "x" * 65536
    assert variables(task(shim, f"1;SLURM_X={long}"))["SLURM_X"] == long
    ranks = ",".join(map(str, range(8000)))
    rows = ";".join(f"@m{number}={number}:0-65535" for number in range(1, 2000))
    outcome = variables(task(shim, f"1;SLURM_NTASKS=70000;{rows};@n3=0:0-7999", 7999))
    assert (outcome["SLURM_PROCID"], outcome["SLURM_GTIDS"]) == ("7999", ranks)


def test_listed_twice_and_given_twice(shim: Shim) -> None:
    plugstack = "optional {plugin}\noptional {plugin}"
    env = {**OWN, "HOST_TASK": "1", "HOST_TWICE": "1", NAME: GOOD}
    entries = shim.run(["slurmstepd"], env, "remote", plugstack).task
    assert b"SLURM_PROCID=8" in entries
    assert not [entry for entry in entries if entry.startswith(NAME.encode())]


HOSTILE: dict[str, str | bytes] = {
    "empty": "",
    "no version": "SLURM_X=1",
    "version 2": "2;SLURM_X=1",
    "version 10": "10;SLURM_X=1",
    "version with a blank": " 1;SLURM_X=1",
    "empty field": "1;;SLURM_X=1",
    "semicolon at the end": "1;SLURM_X=1;",
    "no =": "1;SLURM_X",
    "other prefix": "1;PATH=/tmp",
    "prefix alone": "1;SLURM_=1",
    "lower case": "1;SLURM_Job=1",
    "blank in a name": "1;SLURM_X =1",
    "no name": "1;=1",
    "long name": f"1;SLURM_{'X' * 250}=1",
    "the entry itself": f"1;{NAME}=1",
    "name of a row: rank": "1;SLURM_PROCID=1",
    "name of a row: node": "1;SLURM_NODEID=1",
    "name of a row: ranks": "1;SLURM_GTIDS=1",
    "local id": "1;SLURM_LOCALID=1",
    "twice": "1;SLURM_X=1;SLURM_X=1",
    "65 variables": ";".join(["1", *(f"SLURM_X{number}=" for number in range(65))]),
    "long value": f"1;SLURM_X={'x' * 65537}",
    "128 KiB": "1;" + "SLURM_X=1;" * 13000,
    "newline": "1;SLURM_X=a\nb",
    "escape": "1;SLURM_X=\x1b[2J",
    "delete": "1;SLURM_X=\x7f",
    "not UTF-8": b"1;SLURM_X=\xff\xfe",
    "UTF-8": "1;SLURM_X=ü",
    "no row for this node": "1;SLURM_NTASKS=9;@n4=0:0",
    "name of a node that goes on": "1;SLURM_NTASKS=9;@n33=0:0",
    "two rows for this node": "1;SLURM_NTASKS=9;@n3=0:0;@n3=0:0",
    "no node": "1;SLURM_NTASKS=9;@=0:0;@n3=0:0",
    "node of other characters": "1;SLURM_NTASKS=9;@n/4=0:0;@n3=0:0",
    "row of a name alone": "1;SLURM_NTASKS=9;@n3",
    "no number of the node": "1;SLURM_NTASKS=9;@n3=:0",
    "no ranks": "1;SLURM_NTASKS=9;@n3=0",
    "empty ranks": "1;SLURM_NTASKS=9;@n3=0:",
    "comma at the end": "1;SLURM_NTASKS=9;@n3=0:0,",
    "comma at the start": "1;SLURM_NTASKS=9;@n3=0:,0",
    "negative rank": "1;SLURM_NTASKS=9;@n3=0:-1",
    "signed rank": "1;SLURM_NTASKS=9;@n3=0:+1",
    "hexadecimal rank": "1;SLURM_NTASKS=99;@n3=0:0x1",
    "leading zero": "1;SLURM_NTASKS=9;@n3=0:01",
    "blank in ranks": "1;SLURM_NTASKS=9;@n3=0:0, 1",
    "more behind the ranks": "1;SLURM_NTASKS=9;@n3=0:0:1",
    "open range": "1;SLURM_NTASKS=9;@n3=0:0-",
    "range of three": "1;SLURM_NTASKS=9;@n3=0:0-1-2",
    "range backwards": "1;SLURM_NTASKS=9;@n3=0:1-0",
    "huge range": "1;SLURM_NTASKS=999999999;@n3=0:0-999999998",
    "65537 ranks on another node": "1;SLURM_NTASKS=99999;@n3=0:0;@n4=1:0-65535,65536",
    "more ranks than a variable holds": "1;SLURM_NTASKS=99999;@n3=0:0-65535",
    "2^32": "1;SLURM_NTASKS=9;@n3=0:4294967296",
    "2^64": "1;SLURM_NTASKS=9;@n3=0:18446744073709551616",
    "rank beyond": "1;SLURM_NTASKS=9;@n3=0:9",
    "rank beyond on another node": "1;SLURM_NTASKS=9;@n3=0:0;@n4=1:8-9",
    "number of tasks after the row": "1;@n3=0:9;SLURM_NTASKS=9",
    "no number of tasks": "1;@n3=0:0",
    "number of tasks that is none": "1;SLURM_NTASKS=9x;@n3=0:0",
    "empty number of tasks": "1;SLURM_NTASKS=;@n3=0:0",
    "wrong at the end": GOOD + ";SLURM_NTASKS=9",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_garbage_changes_nothing(shim: Shim, text: str | bytes) -> None:
    outcome = task(shim, text)
    assert outcome.task == task(shim, None).task
    assert len(outcome.lines) == 1
    assert outcome.lines[0].startswith(f"stepguard: {NAME} changes nothing: field ")


@pytest.mark.parametrize(
    ("local_id", "more", "said"),
    [
        (3, {}, "no rank for this task"),
        (-1, {}, "no rank for this task"),
        (0, {"SLURMD_NODENAME": "n9"}, "no row for this node"),
        (0, {"SLURMD_NODENAME": ""}, "no row for this node"),
    ],
)
def test_task_that_has_no_place(shim: Shim, local_id: int, more: dict[str, str], said: str) -> None:
    outcome = task(shim, GOOD, local_id, more)
    assert outcome.task == task(shim, None, local_id, more).task
    assert said in outcome.stderr


def test_random_texts(tmp_path: Path) -> None:
    fuzz.run(compiled(tmp_path, "fuzz_places", fuzz.PROGRAMS["fuzz_places"]), 1, 20_000)
