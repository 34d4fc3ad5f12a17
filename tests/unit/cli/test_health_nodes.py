# SPDX-License-Identifier: Apache-2.0
"""`stepguard health nodes`, as an administrator or a plug-in of Nagios runs it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from stepguard.records.node_state import StateItem, StateOffender, to_record
from unit.everybody import LOAD_ALL, let_in
from unit.records.test_node_state import STATE

NOW_S = time.time()
WELL = dataclasses.replace(
    STATE, status="ok", action="none", items=(), offences=0, offenders=(), at_s=NOW_S - 3 * 86_400
)
LEMON = dataclasses.replace(
    WELL,
    offences=12,
    offenders=(StateOffender("0000:1f:00", tuple(map(str, range(1, 13))), 12, NOW_S),),
    at_s=NOW_S - 7200,
)
WARNED = dataclasses.replace(
    WELL, status="warn", items=(StateItem("host", "shm-full", "", "warn", "check", "host shm-full: 99 %", NOW_S),)
)
UNKNOWN = dataclasses.replace(WELL, status="unknown")
FAILED = dataclasses.replace(STATE, at_s=NOW_S - 4 * 3600, left_out=2, offences=0, offenders=())


class Archive:
    """An archive with what nodes have told."""

    def __init__(self, root: Path) -> None:
        self.path = root / "archive"
        self.path.mkdir(mode=0o711)
        self._config = root / "stepguard.toml"
        self._config.write_text(f'[archive]\ndir = "{self.path}"\n')

    def tell(self, *, cluster: str = "lab", **states: Any) -> None:
        directory = self.path / cluster / "health"
        directory.mkdir(parents=True, exist_ok=True)
        for name, state in states.items():
            record = to_record(dataclasses.replace(state, node=name))
            (directory / f"{name}.json").write_text(json.dumps(record))

    def run(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "stepguard", "health", "nodes", *words]
        environment = {**os.environ, "STEPGUARD_CONFIG": str(self._config), "LC_ALL": "C.UTF-8"}
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, env=environment, **more)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path)


def test_the_worst_is_first_and_what_is_well_is_left_out(archive: Archive) -> None:
    archive.tell(n1=WELL, n2=WARNED, n3=LEMON, n4=FAILED, n5=UNKNOWN)
    done = archive.run()
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["NODE", "STATUS", "ACTION", "WHY", "SINCE", "FAILED", "JOBS", "TOLD"]
    assert [line.split()[:2] for line in lines] == [["n4", "FAIL"], ["n3", "OK"], ["n2", "WARN"], ["n5", "UNKNOWN"]]
    assert "replace  fallen off the bus (and 2 more)  2027-01-15 " in lines[0]
    assert lines[0].endswith("4 h ago")
    assert "0000:1f:00: 5, 6, 7, 8, 9, 10, 11, 12 (and 4 more)" in lines[1]
    assert lines[1].endswith("2 h ago")
    assert lines[2].endswith("3 d ago")
    assert (done.returncode, done.stderr) == (2, "")
    assert "n1" in archive.run("--all").stdout


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ({}, 0),
        ({"n1": WELL}, 0),
        ({"n1": LEMON}, 1),
        ({"n1": WARNED, "n2": UNKNOWN}, 1),
        ({"n1": UNKNOWN}, 3),
        ({"n1": FAILED, "n2": UNKNOWN}, 2),
    ],
)
def test_it_ends_as_a_plug_in_of_nagios(archive: Archive, states: dict[str, Any], status: int) -> None:
    archive.tell(**states)
    done = archive.run()
    assert (done.returncode, done.stderr) == (status, "")
    if status == 0:
        assert done.stdout == "no node has told of trouble that it still has\n"
    shown = json.loads(archive.run("--json", "--all").stdout)
    assert [one["node"] for one in shown["nodes"]] == sorted(states, key=lambda name: states[name] is not FAILED)
    assert shown["left_out"] == []


def test_clusters_are_told_apart(archive: Archive) -> None:
    archive.tell(n1=WARNED)
    archive.tell(cluster="other", n1=FAILED)
    lines = archive.run().stdout.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["NODE", "CLUSTER", "STATUS"],
        ["n1", "other", "FAIL"],
        ["n1", "lab", "WARN"],
    ]


def test_files_that_cannot_be_read_are_named(archive: Archive) -> None:
    archive.tell(n1=WELL)
    health = archive.path / "lab/health"
    (health / "n2.json").write_text("garbage")
    (health / "n3.json").symlink_to("n1.json")
    done = archive.run()
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        f"stepguard: left out: {health}/n2.json: not JSON: Expecting value: line 1 column 1 (char 0)",
        f"stepguard: left out: {health}/n3.json: a link",
    ]
    assert [one["file"] for one in json.loads(archive.run("--json").stdout)["left_out"]] == [
        f"{health}/n2.json",
        f"{health}/n3.json",
    ]


def test_what_a_node_tells_steers_no_terminal(archive: Archive) -> None:
    nasty = StateItem("xid", "79", "", "fail", "replace", "\x1b[31mred\nn9  OK", NOW_S)
    archive.tell(n1=dataclasses.replace(FAILED, items=(nasty,), left_out=0))
    lines = archive.run().stdout.splitlines()
    assert len(lines) == 2
    assert "\x1b" not in lines[1]


def test_without_an_archive_it_says_what_to_do(archive: Archive) -> None:
    archive.path.rmdir()
    done = archive.run()
    assert (done.returncode, done.stdout) == (3, "")
    assert f": {archive.path}: [archive] dir " in done.stderr
    assert "is its file system mounted?" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_users_are_told_who_may(archive: Archive, tmp_path: Path) -> None:
    archive.tell(n1=FAILED)
    let_in(tmp_path)
    program = (
        f"import os, sys\n{LOAD_ALL}\nfrom stepguard.cli.health_nodes import nodes\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\nsys.exit(nodes.main([], standalone_mode=False))\n"
    )
    environment = {**os.environ, "STEPGUARD_CONFIG": str(tmp_path / "stepguard.toml")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert "Permission denied" in done.stderr
    assert "root may, and the group that [archive] admin_groups names" in done.stderr
