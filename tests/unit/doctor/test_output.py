# SPDX-License-Identifier: Apache-2.0
"""What `stepguard doctor` prints, and the document of --json, on a host without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepguard.cli.doctor import command, installed_prefix, shown
from stepguard.doctor.result import fail, ok, unknown, warn

RESULTS = [
    ok("slurm", "Slurm 22.05.8"),
    warn("plugstack.conf", "named twice \x1b[31m" + "word " * 20, "keep one of them"),
    unknown("nodes", "own disk", "ask a node"),
    fail("plugin", "/a/path/that/is/longer/than/the/line/is/wide/and/must/stay/in/one/piece/stepguard.so", "install"),
]


def test_the_worst_comes_first_aligned_with_what_to_do_beneath() -> None:
    text = "\n".join(shown(RESULTS, 72))
    heads = [line.split()[:2] for line in text.splitlines() if line and not line.startswith(" ")]
    assert [head[0] for head in heads[:4]] == ["fail", "warn", "unknown", "ok"]
    assert heads[4] == ["1", "fail,"]
    assert text.splitlines()[-1] == "1 fail, 1 warn, 1 unknown, 1 ok"
    assert RESULTS[3].found in text
    assert all(len(line) <= 72 for line in text.splitlines() if RESULTS[3].found not in line)
    assert f"{'':24}→ keep one of them" in text.splitlines()
    assert "\x1b" not in text


@pytest.fixture
def no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SLURM_CONF", "SLURM_JOB_ID", "STEPGUARD_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("stepguard.config.DEFAULT_PATH", tmp_path / "stepguard.toml")


@pytest.mark.usefixtures("no_cluster")
def test_outside_of_any_cluster_it_says_so_and_fails_nothing() -> None:
    done = CliRunner().invoke(command, ["--json"], standalone_mode=False)
    document = json.loads(done.output)
    assert document["schema"] == 1
    assert {"check", "level", "found", "advice"} == set(document["checks"][0])
    slurm = next(check for check in document["checks"] if check["check"] == "slurm")
    assert slurm["level"] == "unknown"
    assert "belongs to no cluster" in slurm["found"]
    assert done.return_value == 0


@pytest.mark.usefixtures("no_cluster")
def test_a_wrong_configuration_fails_with_its_own_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[resume]\nmax_resume = 3\n")
    monkeypatch.setenv("STEPGUARD_CONFIG", str(path))
    done = CliRunner().invoke(command, [], standalone_mode=False)
    assert done.output.startswith("fail    configuration")
    assert "unknown key 'max_resume'" in " ".join(done.output.split())
    assert done.return_value == 1


def test_the_prefix_is_that_of_an_installation_only(tmp_path: Path) -> None:
    assert installed_prefix(tmp_path / "venv") is None, "a venv of the same name"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/stepguard").touch()
    assert installed_prefix(tmp_path / "venv") == tmp_path
    assert installed_prefix(tmp_path / "env") is None
