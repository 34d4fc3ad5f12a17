# SPDX-License-Identifier: Apache-2.0
"""Findings of the script are in the record; no script and no reader of scripts keeps a record back."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stepguard.archive import record, spooled
from stepguard.archive.local_cluster import Here
from stepguard.archive.ownership import OWNER_ONLY
from stepguard.archive.redaction import Redactor, load_rules
from stepguard.archive.script_check import FINDINGS_MAX, ScriptCheck
from stepguard.archive.verification import Rules, verify
from stepguard.records.manifest import Manifest, manifest_from
from unit.archive.spools import START_S, UID, Told

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to other users")
REDACTOR = Redactor(b"k" * 32, load_rules(None, ()))
TOKEN = "hf_QrStUvWxYzAbCdEfGhIjKlMnOpQrStUvWx"
STALE = b"""#!/bin/bash
#SBATCH --exclusive
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
srun --auto-resume=1 -N2 python train.py
"""
PLAIN = STALE.replace(b" --auto-resume=1", b"")
RESUMED = b"".join(
    json.dumps({"event": "start", "attempt": attempt, "restart_count": 0, "step_key": "a"}).encode() + b"\n"
    for attempt in range(2)
)
# Answers as read-script does, and counts how often it was asked.
COUNTING = """cat >/dev/null; echo >> {count}; echo '{{"schema":1,"findings":[],"left_out":0}}'"""


class Node:
    """An archive and a spool, the records that are put into it, and what the journal is told."""

    def __init__(self, root: Path) -> None:
        self.root, self.archive = root, root / "archive"
        self.archive.mkdir(mode=0o711)
        self.log: list[str] = []
        self.check = ScriptCheck(self.log.append)

    def reader(self, shell: str, limit_s: float = 10) -> None:
        """Another reader, as long as this one is tested."""
        self.check = ScriptCheck(self.log.append, ("/bin/sh", "-c", shell), limit_s)

    def put(self, told: Told, complete: bool = True) -> Path:
        """Archives an attempt; its directory."""
        spool = told.put(self.root / f"spool-{len(list(self.root.iterdir()))}", complete)
        prepared = record.prepare(told.key, spooled.read(spool), REDACTOR, Here("here", "lab"), self.check)
        record.write(prepared, self.archive, OWNER_ONLY, self.log.append)
        return self.archive / "lab/2026/11/18" / str(told.key)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def job_of(script: bytes, job_id: int = 12, uid: int = UID) -> Told:
    told = Told(job_id=job_id, nodes="n1", uid=uid).prolog().batch(script)
    return told.step_end("batch", (0, 0)).epilog().raw("stdout", b"out\n")


def lines(directory: Path) -> list[dict[str, Any]]:
    path = directory / "findings.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def manifest(directory: Path) -> Manifest:
    return manifest_from((directory / "manifest.json").read_text())


def test_findings_are_in_the_record_from_the_jobs_start_on(node: Node) -> None:
    told = job_of(STALE)
    directory = node.put(told, complete=False)
    (finding,) = lines(directory)
    assert list(finding) == ["rule", "kind", "severity", "line", "column", "message", "fix", "schema"]
    assert [finding[name] for name in ("schema", "rule", "kind", "severity", "line")] == [
        1,
        "SG201",
        "stale-nodelist",
        "error",
        3,
    ]
    assert finding["message"].startswith("SLURM_JOB_NODELIST → MASTER_ADDR")
    assert "stepguard nodes --first" in finding["fix"]
    node.put(told.say("finding", code="c", text="another"))
    assert [one.get("rule", one.get("code")) for one in lines(directory)] == ["SG201", "c"]
    assert (directory / "findings.jsonl").stat().st_uid == UID
    assert [damage for _, damages in verify(node.archive, Rules()) for damage in damages] == []
    assert (manifest(directory).missing, node.log) == ([], [])


def test_what_comes_late_leaves_them(node: Node) -> None:
    told = job_of(STALE)
    directory = node.put(told)
    late = Told(nodes="n1", boottime_s=2000.0, clock_s=START_S + 1000).step_start(1, "late").step_end(1, (0, 0))
    node.put(late.say("finding", code="c", text="late"))
    assert [one.get("rule", one.get("code")) for one in lines(directory)] == ["SG201", "c"]


def test_a_secret_of_the_script_is_in_none(node: Node) -> None:
    script = STALE.replace(b"--auto-resume=1", f"--auto-resume={TOKEN}".encode())
    directory = node.put(job_of(script))
    assert "SG102" in [one["rule"] for one in lines(directory)]
    assert TOKEN.encode() not in b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


def test_a_script_that_speaks_of_no_resume_is_read_only_after_one(node: Node) -> None:
    check, node.check = node.check, ScriptCheck(node.log.append, ("/nonexistent",))
    directory = node.put(job_of(PLAIN))
    assert (lines(directory), manifest(directory).missing, node.log) == ([], [], [])
    node.check = check
    resumed = node.put(job_of(PLAIN, 13).raw("resumes", RESUMED))
    assert [(one["kind"], one["severity"], one["line"]) for one in lines(resumed)] == [("stale-nodelist", "info", 3)]


@pytest.mark.parametrize(
    "script",
    [
        b"#!/bin/bash\n" + b"srun --auto-resume=1 $(echo ${A[@]:-$SLURM_NNODES}) | tee x; " * 60_000,
        b"#!/bin/bash\n--auto-resume=1\0" + bytes(range(256)) * 1000,
        b"#!/bin/bash\nsrun --auto-resume=1 " + b"$(" * 50_000,
        b"#!/bin/bash\n#SBATCH --auto-resume=1\n" + b"#SBATCH --auto-resume=2\n" * 4000,
    ],
    ids=["4 MiB", "binary", "nested", "findings everywhere"],
)
def test_a_hostile_script_leaves_the_record_whole(node: Node, script: bytes) -> None:
    directory = node.put(job_of(script))
    assert (manifest(directory).state, (directory / "script").stat().st_size > 4000) == ("ended", True)
    assert len(lines(directory)) <= FINDINGS_MAX
    assert node.log == []


@pytest.mark.parametrize(
    ("reader", "why"),
    [
        ("exit 3", "its reader ended with status 3"),
        ("kill -SEGV $$", "its reader was ended: Segmentation fault"),
        ("exec sleep 60", "that takes longer than 0.5 s"),
        ("echo nonsense", "not JSON"),
        ("""echo '{"schema":1,"findings":[{"rule":7}],"left_out":0}'""", "rule: missing, or of another type"),
    ],
)
def test_a_reader_that_fails_is_told_once_and_left_alone_for_a_while(node: Node, reader: str, why: str) -> None:
    node.reader(reader, limit_s=0.5)
    told = job_of(STALE)
    node.put(told, complete=False)
    directory = node.put(told)
    assert (directory / "stdout.zst").exists()
    assert [one.what for one in manifest(directory).missing] == ["findings of the script"]
    (line,) = node.log
    assert line.startswith(f"the script of job 12.0 is not checked, and none of uid {UID} for 600 s: ")
    assert why in line
    node.put(job_of(STALE, 13, uid=UID + 1))
    assert len(node.log) == 2


def test_the_tasks_of_an_array_share_one_reading(node: Node) -> None:
    count = node.root / "count"
    node.reader(COUNTING.format(count=shlex.quote(str(count))))
    for job_id in range(12, 17):
        node.put(job_of(STALE, job_id), complete=False)
        node.put(job_of(STALE, job_id))
    assert count.read_text() == "\n"


def test_the_reader_is_nobody_and_bounded() -> None:
    code = """
import os, resource
from stepguard.cli.read_script import _confine
_confine()
print(os.getresuid(), os.getresgid(), os.getgroups(), resource.getrlimit(resource.RLIMIT_FSIZE))
try:
    bytearray(1 << 30)
except MemoryError:
    print("bounded")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    nobody = (65534,) * 3
    assert done.stdout == f"{nobody} {nobody} [] {(1 << 20, 1 << 20)}\nbounded\n"


def test_the_archiver_loads_no_grammar() -> None:
    code = "import sys, stepguard.cli.archiver; print([name for name in sys.modules if 'tree_sitter' in name])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
