# SPDX-License-Identifier: Apache-2.0
"""What becomes of a verb whose stdout, or stderr, cannot be written: the same for all, click's own help too."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

STEPGUARD = [sys.executable, "-I", "-m", "stepguard"]
FULL = b"stepguard: cannot write: stdout: No space left on device: write where there is room\n"
VERBS = [
    ["--help"],
    ["--version"],
    ["job", "--help"],
    ["archive", "prune", "--help"],
    ["doctor"],
    ["doctor", "--json"],
    ["nodes", "--expand", "n[1-3]"],
    ["nodes", "--expand", "n[1-3]", "--count"],
    ["nodes", "--fold", "n1", "n2"],
    ["archive", "verify"],
    ["archive", "verify", "--json"],
    ["archive", "prune", "--keep", "1d"],
    ["archive", "rebuild-index"],
    ["health", "catalogue", "79"],
    ["health", "explain", "/dev/null"],
    ["health", "check", "--probe", "host"],
    ["health", "nodes"],
    ["jobs", "--json"],
    ["agent", "--help"],
    ["agent", "--check"],
    ["supervise", "--help"],
]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "archive/lab").mkdir(parents=True)
    (tmp_path / "stepguard.toml").write_text(f'[archive]\ndir = "{tmp_path}/archive"\n')
    return {"STEPGUARD_CONFIG": str(tmp_path / "stepguard.toml"), "LC_ALL": "C.UTF-8", "PATH": os.environ["PATH"]}


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_full_disk_is_told_in_one_line(environment: dict[str, str], words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*STEPGUARD, *words], env=environment, stdout=full, stderr=subprocess.PIPE, timeout=120, check=False
        )
    assert (done.returncode, done.stderr) == (1, FULL)


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["doctor"], ["archive", "verify"], ["agent", "--check"]])
def test_nobody_reads_on(environment: dict[str, str], words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*STEPGUARD, *words], env=environment, stdout=writing, stderr=subprocess.PIPE, timeout=120, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("words", ["--help", "--version", "archive verify", "supervise --help"])
def test_stdout_that_is_closed(environment: dict[str, str], words: str) -> None:
    command = " ".join([*STEPGUARD, words, ">&-"])
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
@pytest.mark.parametrize("words", ["nonsense", "archive prune", "agent --nope", "supervise"])
def test_an_error_that_nobody_can_be_told(environment: dict[str, str], words: str, where: str) -> None:
    command = " ".join([*STEPGUARD, words, where])
    done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


def test_a_pipe_that_does_not_block_gets_all(environment: dict[str, str]) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETFL, os.O_NONBLOCK)
    with subprocess.Popen(
        [*STEPGUARD, "nodes", "--expand", "n[1-40000]"], env=environment, stdout=writing, stderr=subprocess.PIPE
    ) as child:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            lines = pipe.read().split()
        assert child.stderr is not None
        assert child.stderr.read() == b""
    assert (child.returncode, len(lines), lines[-1]) == (0, 40000, b"n40000")
