# SPDX-License-Identifier: Apache-2.0
"""The archiver itself, as the agent runs it: the spool comes into the archive, whatever happens to either."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stepguard.archive.archiver import Archiver
from stepguard.archive.index_lines import told_by
from stepguard.archive.ownership import OWNER_ONLY
from stepguard.archive.redaction import Redactor, load_rules
from stepguard.records.manifest import manifest_from
from stepguard.records.spool import COMPLETE, SpoolLayout
from unit.archive.spools import UID, Told, whole_job

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users"),
    pytest.mark.timeout(300),  # dozens of Pythons, one after another
]
ARCHIVER = [sys.executable, "-m", "stepguard", "archiver"]
# A process of its own starts it.
AS_AGENT = '"$1" "$2" "$3" "$4" $$ & wait'
DAY = "lab/2026/11/18"
REDACTOR = Redactor(b"k" * 32, load_rules(None, ()))


class Node:
    """A spool, an archive, and the archiver between them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.spool, self.archive = root / "spool", root / "archive"
        self.jobs = self.spool / "jobs"
        self.jobs.mkdir(parents=True, mode=0o700)
        self.archive.mkdir(mode=0o711)
        self.config = root / "stepguard.toml"
        self.config.write_text(f'[agent]\nspool = "{self.spool}"\n[archive]\ndir = "{self.archive}"\n')
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *before: str) -> subprocess.Popen[bytes]:
        """`before`: a command that the archiver is started by; as its last word it is told that we have started it."""
        environment = {**os.environ, "STEPGUARD_CONFIG": str(self.config)}
        with (self.root / "log").open("ab") as log:
            process = subprocess.Popen([*before, *ARCHIVER, str(os.getpid())], env=environment, stderr=log)
        self.started.append(process)
        return process

    def end(self) -> None:
        for process in self.started:
            process.kill()
            process.wait()

    @property
    def log(self) -> str:
        return (self.root / "log").read_text()

    @property
    def word(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.spool / "archiver.json").read_text()))
        except FileNotFoundError:
            return {}

    def is_empty(self) -> bool:
        return not any(self.jobs.iterdir())

    def records(self) -> dict[str, bytes]:
        """All files but the index, whose lines may be repeated, and those that are being written."""
        there = [path for path in self.archive.rglob("[!.]*") if path.is_file()]
        files = [path for path in there if "index" not in path.parts]
        return {str(path.relative_to(self.archive)): path.read_bytes() for path in files}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    try:
        yield made
    finally:
        made.end()


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "that did not come"
        time.sleep(0.02)


def test_all_that_is_complete_goes_into_the_archive_and_out_of_the_spool(node: Node) -> None:
    for job_id in range(1, 31):
        whole_job(job_id=job_id).put(node.spool)
    node.start()
    wait_for(node.is_empty)
    manifests = {
        path: manifest_from(content.decode()) for path, content in node.records().items() if "manifest" in path
    }
    assert {manifest.state for manifest in manifests.values()} == {"ended"}
    assert sorted(int(manifest.job_id) for manifest in manifests.values()) == list(range(1, 31))
    rows = told_by((node.archive / f"lab/index/{UID}/n1.tsv").read_bytes()).rows
    assert len(rows) == 30
    wait_for(lambda: node.word["state"] == "idle")
    assert (node.word["backlog"], node.word["last_error"]) == (0, None)
    key = node.spool / "fingerprint.key"
    assert (len(key.read_bytes()), key.stat().st_mode & 0o777) == (32, 0o600)
    assert node.log == ""


def test_a_running_job_can_be_read_and_its_end_replaces_that(node: Node) -> None:
    told = whole_job()
    told.put(node.spool, complete=False, only=slice(0, 4))
    node.start()
    manifest = node.archive / DAY / "12.0/manifest.json"
    wait_for(manifest.exists)
    wait_for(lambda: node.word["state"] == "idle")
    assert manifest_from(manifest.read_text()).state == "running"
    assert not node.is_empty()
    assert not (node.archive / DAY / "12.0/nodes").exists()
    told.put(node.spool)
    wait_for(node.is_empty)
    assert manifest_from(manifest.read_text()).state == "ended"


def test_killed_at_any_instant_and_run_again_it_gives_the_same(node: Node, tmp_path: Path) -> None:
    source = random.Random(7)
    (tmp_path / "other").mkdir()
    undisturbed = Node(tmp_path / "other")
    (node.spool / "fingerprint.key").write_bytes(b"k" * 32)
    (undisturbed.spool / "fingerprint.key").write_bytes(b"k" * 32)
    for one in (node, undisturbed):
        for job_id in range(1, 121):
            told = whole_job(job_id=job_id, uid=UID + job_id % 3)
            told.batch(b"#!/bin/sh\n# %d\n" % (job_id % 7), SECRET_TOKEN=f"x9-{job_id}-qQ7bTz")
            told.say("finding", code="c", text="t").put(one.spool)
    try:
        undisturbed.start()
        wait_for(undisturbed.is_empty)
    finally:
        undisturbed.end()
    kills = 0
    while not node.is_empty():
        process = node.start()
        wait_for(lambda: (node.spool / "archiver.json").exists())
        (node.spool / "archiver.json").unlink()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(source.uniform(0.0, 0.25))
        process.kill()
        process.wait()
        kills += 1
    assert kills >= 3
    assert node.records() == undisturbed.records()


@pytest.mark.parametrize("trouble", ["full", "read-only"])
def test_an_archive_that_takes_nothing_loses_nothing(node: Node, trouble: str) -> None:
    mount = "mount -t tmpfs -o size=16k,mode=711 archive {0}" if trouble == "full" else "mount --bind {0} {0} && {1}"
    read_only = "mount -o remount,bind,ro {0}"
    script = mount.format(node.archive, read_only.format(node.archive)) + ' && exec "$@"'
    for job_id in range(1, 6):
        whole_job(job_id=job_id).put(node.spool)
    process = node.start("unshare", "--mount", "sh", "-c", script, "sh")
    wait_for(lambda: node.word.get("last_error"))
    error = node.word["last_error"]["what"]
    assert ("No space left" if trouble == "full" else "Read-only file system") in error
    assert node.word["state"] == "waiting"
    assert node.word["backlog"] == len(list(node.jobs.iterdir())) > 0
    again = "mount -o remount,size=4m {0}" if trouble == "full" else "mount -o remount,bind,rw {0}"
    enter = ["nsenter", f"--target={process.pid}", "--mount"]
    subprocess.run([*enter, "sh", "-c", again.format(node.archive)], check=True)
    wait_for(node.is_empty)
    listed = subprocess.run([*enter, "find", node.archive, "-name", "*.new"], check=True, capture_output=True)
    assert listed.stdout == b""
    found = subprocess.run([*enter, "find", node.archive, "-name", "manifest.json"], check=True, capture_output=True)
    assert len(found.stdout.splitlines()) == 5
    assert "takes nothing" in node.log
    wait_for(lambda: "takes records again" in node.log)
    assert node.word["last_error"] is None


def test_a_full_spool_is_emptied_all_the_same(node: Node) -> None:
    """Nothing that the archiver writes there for itself may keep it from the one thing that frees the disk."""
    (node.root / "told").mkdir()
    for job_id in (1, 2, 3):
        whole_job(job_id=job_id).put(node.root / "told")
    mount = 'mount -t tmpfs -o size=2m,mode=700 none "$0" && cp -r "$1"/jobs "$0"'
    fill = 'dd if=/dev/zero of="$0"/filler bs=4k 2>/dev/null; echo x 2>/dev/null >"$0"/none; test ! -s "$0"/none'
    script = f'{mount}; {fill} && shift && exec "$@"'
    process = node.start("unshare", "--mount", "sh", "-c", script, str(node.spool), str(node.root / "told"))
    wait_for(lambda: len([path for path in node.records() if path.endswith("nodes/n1.json")]) == 3)
    inside = Path(f"/proc/{process.pid}/root{node.spool}")
    wait_for(lambda: not any((inside / "jobs").iterdir()))
    wait_for(lambda: json.loads((inside / "archiver.json").read_text())["state"] == "idle")
    assert "records are archived all the same: No space left on device" in node.log
    assert "this node's key cannot be kept: No space left on device" in node.log
    assert "Traceback" not in node.log


def test_what_the_archiver_says_of_itself_is_said_on_a_full_disk_too(node: Node) -> None:
    script = """
mount -t tmpfs -o size=64k,mode=700 none "$0" && mkdir "$0"/jobs && echo '{"state": "idle"}' >"$0"/archiver.json
dd if=/dev/zero of="$0"/filler bs=4k 2>/dev/null; shift; exec "$@"
"""
    node.archive.rmdir()
    process = node.start("unshare", "--mount", "sh", "-c", script, str(node.spool), "")
    word = Path(f"/proc/{process.pid}/root{node.spool}/archiver.json")
    wait_for(lambda: word.exists() and json.loads(word.read_text()).get("pid") == process.pid)
    wait_for(lambda: "there is no such directory, so records stay in the spool" in node.log)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ('admin_groups = ["no-such-group"]', "no such group"),
        ('redaction_off = ["none"]\nadmin_groups = ["root", "daemon"]', "more than one group"),
        ('redaction_off = ["none"]', "[archive] redaction_off"),
        ('redaction_rules = "/nonexistent"', "[archive] redaction_rules"),
        ('fingerprint_key = "/etc/passwd"', "the key is not root's alone"),
    ],
)
def test_one_that_cannot_start_says_so_where_an_earlier_one_said_all_is_well(node: Node, lines: str, why: str) -> None:
    node.config.write_text(f"{node.config.read_text()}{lines}\n")
    (node.spool / "archiver.json").write_text('{"state": "idle", "last_error": null}')
    assert node.start().wait(20) == 78
    assert node.word["state"] == "stopped"
    assert why in node.word["last_error"]["what"]
    assert node.word["last_error"]["what"].count("; ") == lines.count("\n"), "each fault is named"
    assert why in node.log and "Traceback" not in node.log


def test_an_archive_that_is_missing_is_waited_for_and_not_made(node: Node) -> None:
    node.archive.rmdir()
    whole_job().put(node.spool)
    node.start()
    wait_for(lambda: node.word.get("last_error"))
    since_s = node.word["last_error"]["since_s"]
    wait_for(lambda: node.word["last_error"]["time_s"] > since_s)
    assert "No such file" in node.word["last_error"]["what"]
    assert node.word["last_error"]["since_s"] == since_s
    assert not node.archive.exists()
    node.archive.mkdir(mode=0o711)
    wait_for(node.is_empty)


def test_one_bad_record_does_not_keep_back_the_others(node: Node) -> None:
    (node.archive / DAY).mkdir(parents=True)
    (node.archive / DAY / "5.0").write_text("not a directory")
    for job_id in range(1, 11):
        whole_job(job_id=job_id).put(node.spool)
    node.start()
    wait_for(lambda: [path.name for path in node.jobs.iterdir()] == ["5.0"])
    (node.archive / DAY / "5.0").unlink()
    wait_for(node.is_empty)


def test_one_that_waits_for_an_older_one_ends_with_its_agent_too(node: Node) -> None:
    first = node.start()
    wait_for(lambda: node.word.get("state") == "idle")
    agent = node.start("sh", "-c", AS_AGENT, "sh")
    wait_for(lambda: _children(agent.pid))
    (second,) = _children(agent.pid)
    wait_for(lambda: re.search(rf"-> FLOCK .* {second} ", Path("/proc/locks").read_text()))
    agent.kill()
    agent.wait()
    first.kill()
    first.wait()
    wait_for(lambda: not Path(f"/proc/{second}").exists())


def test_one_whose_agent_was_gone_before_it_began_ends(node: Node) -> None:
    over = subprocess.run(["sh", "-c", "echo $$"], check=True, capture_output=True, text=True).stdout.strip()
    assert node.start("sh", "-c", f'exec "$1" "$2" "$3" "$4" {over}', "sh").wait(30) == 0
    assert node.word["state"] == "busy"


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_fault_of_ours_in_one_record_is_set_aside_and_said(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    archiver = Archiver(SpoolLayout(node.spool), node.archive, REDACTOR, OWNER_ONLY, said.append)
    for job_id in (1, 2):
        whole_job(job_id=job_id).put(node.spool)
    fold = __import__("stepguard.archive.record", fromlist=["fold"]).fold

    def faulty(messages: Any, key: Any, *rest: Any) -> Any:
        if key.job_id == 1:
            raise ZeroDivisionError("a fault")
        return fold(messages, key, *rest)

    monkeypatch.setattr("stepguard.archive.record.fold", faulty)
    monkeypatch.setattr("stepguard.archive.due._RETRY_MIN_S", 0.0)
    for _ in range(6):
        archiver._round(time.monotonic())
    assert [path.name for path in node.jobs.iterdir()] == ["1.0"]
    assert node.word["set_aside"] == ["1.0"]
    assert len(said) == 1
    assert "job 1.0 cannot be archived" in said[0]
    assert "ZeroDivisionError" in said[0]


def test_what_comes_while_it_is_archived_is_archived_too(node: Node) -> None:
    told = whole_job()
    told.put(node.spool)
    node.start()
    manifest = node.archive / DAY / "12.0/manifest.json"
    wait_for(node.is_empty)
    late = Told(boottime_s=1030.0).step_start(7, "late").step_end(7, (0, 0))
    directory = late.put(node.spool, complete=False)
    time.sleep(0.5)
    assert [step.step_id for step in manifest_from(manifest.read_text()).steps] == ["batch", "0"]
    (directory / COMPLETE).touch()
    wait_for(node.is_empty)
    assert [step.step_id for step in manifest_from(manifest.read_text()).steps] == ["batch", "0", "7"]


def test_what_a_killed_one_has_emptied_goes(node: Node) -> None:
    (node.jobs / "12.0").mkdir()
    (node.jobs / "13.0").mkdir()
    (node.jobs / "13.0/complete").touch()
    node.start()
    wait_for(node.is_empty)
    assert node.records() == {}


def test_a_second_one_waits_for_the_first(node: Node) -> None:
    lock = os.open(node.spool, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        whole_job().put(node.spool)
        node.start()
        time.sleep(1.0)
        assert not node.is_empty()
    finally:
        os.close(lock)
    wait_for(node.is_empty)


def test_it_ends_with_whoever_started_it(node: Node) -> None:
    shell = node.start("sh", "-c", AS_AGENT, "sh")
    wait_for(lambda: node.word.get("state") == "idle")
    pid = node.word["pid"]
    assert pid != shell.pid
    shell.send_signal(signal.SIGKILL)
    shell.wait()
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), 5.0)


def test_it_costs_nearly_nothing_while_nothing_happens(node: Node) -> None:
    for job_id in range(1, 51):
        Told(job_id=job_id, node="n2").prolog().put(node.spool, complete=False)
    process = node.start()
    wait_for(lambda: node.word.get("state") == "idle")
    time.sleep(3.0)

    def ticks() -> int:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(5.0)
    assert (ticks() - before) / os.sysconf("SC_CLK_TCK") / 5.0 < 0.01
