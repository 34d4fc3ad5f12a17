# SPDX-License-Identifier: Apache-2.0
"""`stepguard health check` and `status`, as a person or a plug-in of Nagios runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.gpus import Gpus, build, uuid
from stepguard.cli import health_node, stress_leave
from stepguard.config import load
from stepguard.errors import UsageError


@pytest.fixture
def gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    made = Gpus(tmp_path / "gpus", 2, build(tmp_path))
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


def run(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "stepguard", "health", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120)


def _well(_gpus: Gpus) -> None:
    """Nothing is wrong."""


def _broken(gpus: Gpus) -> None:
    gpus["gpu1.rows.failure"] = 1


def _hung(gpus: Gpus) -> None:
    gpus["gpu1.fails"] = 4  # no permission: it does not tell


@pytest.mark.parametrize(("make", "status", "word"), [(_well, 0, "OK"), (_broken, 2, "FAIL"), (_hung, 3, "UNKNOWN")])
def test_check(gpus: Gpus, make: Callable[[Gpus], None], status: int, word: str) -> None:
    make(gpus)
    done = run("check", "--probe", "nvml")
    assert (done.returncode, done.stdout.startswith(f"nvml: {word}: ")) == (status, True), done.stdout
    shown = json.loads(run("check", "--probe", "nvml", "--json").stdout)
    assert (shown["schema"], shown["status"]) == (1, word.lower())
    assert [one["probe"] for one in shown["probes"]] == ["nvml"]


def test_check_shows_findings(gpus: Gpus) -> None:
    _broken(gpus)
    lines = run("check", "--probe", "nvml").stdout.splitlines()
    assert lines[1].startswith(f"  {uuid(1)}: fail: row-remap-failure: ")


def test_check_goes_by_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "stepguard.toml"
    spool = tmp_path / "spool"
    config.write_text(f'[agent]\nspool = "{spool}"\n[health]\nmounts = ["/no such mount"]\nspace_free_percent = 100\n')
    monkeypatch.setenv("STEPGUARD_CONFIG", str(config))
    done = run("check", "--probe", "host")
    assert done.returncode == 2
    assert "  /no such mount: fail: mount: not mounted (check)" in done.stdout
    assert "  /: warn: space: " in done.stdout
    assert not spool.exists(), "no agent has been here"
    config.write_text('[health]\nprobes = ["infiniband"]\nports = ["mlx5_0/1"]\n')
    done = run("check")
    assert (done.returncode, done.stdout.count("\n")) == (2, 2), (
        "the probes that are named, and a port of no device fails"
    )
    assert done.stdout.startswith("infiniband: FAIL: ") and "mlx5_0/1" in done.stdout
    config.write_text("[health]\nmount = []\n")
    done = run("check", "--probe", "host")
    assert (done.returncode, "unknown key 'mount'" in done.stderr) == (78, True), done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="the spool is root's alone")
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_check_remembers_beside_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    spool, config = tmp_path / "spool", tmp_path / "stepguard.toml"
    spool.mkdir()
    spool.chmod(mode)
    config.write_text(f'[agent]\nspool = "{spool}"\n')
    monkeypatch.setenv("STEPGUARD_CONFIG", str(config))
    settings = health_node._memory(load())
    assert settings == (str(spool / "checks") if mode == 0o700 else None)


def test_check_knows_its_probes() -> None:
    done = run("check", "--probe", "nosuch")
    assert (done.returncode, "no probe 'nosuch': --probe: there are: nvml" in done.stderr) == (2, True), done.stderr


def test_status_without_an_agent_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "stepguard.toml"
    config.write_text(f'[agent]\nsocket = "{tmp_path}/agent.sock"\n')
    monkeypatch.setenv("STEPGUARD_CONFIG", str(config))
    done = run("status")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"the agent of this node does not tell: {tmp_path}/agent.sock: No such file" in done.stderr


IDLE, BUSY = frozenset({"IDLE", "DRAIN"}), frozenset({"MIXED"})


@pytest.mark.parametrize(
    ("uid", "jobs", "states", "force", "refusal"),
    [
        (0, [], IDLE, False, ""),
        (0, [], frozenset(), False, ""),
        (0, None, IDLE, False, ""),
        (0, ["7"], IDLE, False, "jobs run on this node: 7"),
        (0, [], BUSY, False, "this node is MIXED"),
        (0, None, frozenset(), False, "cannot be told: slurmctld is away"),
        (0, ["7"], BUSY, True, ""),
        (60101, [], IDLE, True, "only root may load a node"),
    ],
)
def test_a_node_is_loaded_by_root_and_without_jobs_alone(
    monkeypatch: pytest.MonkeyPatch, uid: int, jobs: list[str] | None, states: frozenset[str], force: bool, refusal: str
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(stress_leave, "_jobs_of_agent", lambda _: jobs)
    monkeypatch.setattr(stress_leave, "_states", lambda _: (states, "" if states else "slurmctld is away"))
    if not refusal:
        stress_leave.check_leave(load(), force)
        return
    with pytest.raises(UsageError, match=refusal) as refused:
        stress_leave.check_leave(load(), force)
    assert refused.value.exit_status == 2


@pytest.mark.parametrize(
    ("done", "asking_s", "said"),
    [
        ("left", None, "reaction: fail; left: nothing asks for it (40 s ago)"),
        ("failed", None, "reaction: fail; failed: nothing asks for it (40 s ago); it is tried again"),
        ("left", 12.0, "reaction: fail; slurmctld was asked 12 s ago and has not answered yet"),
    ],
)
def test_what_was_done_is_not_told_as_of_now(done: str, asking_s: float | None, said: str) -> None:
    last = {"done": done, "text": "nothing asks for it", "at_s": time.time() - 40}
    reaction = {"configured": "fail", "asking_s": asking_s, "last": last}
    assert list(health_node._reaction_lines(reaction, str)) == [said]
