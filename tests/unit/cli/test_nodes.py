# SPDX-License-Identifier: Apache-2.0
"""`stepguard nodes`, as far as no cluster is needed; the live contract test does the rest."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from stepguard.cli.nodes import command
from stepguard.errors import StepguardError, UsageError


def run(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments)
    if result.exception is not None:
        raise result.exception
    return result.output


@pytest.fixture(autouse=True)
def outside_of_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["--expand", "n[01-03]"], "n01\nn02\nn03\n"),
        (["--expand", "n[01-03]", "--first"], "n01\n"),
        (["--expand", "n[01-03]", "--count"], "3\n"),
        (["--expand", "n1,n2,n4", "--list"], "n[1-2,4]\n"),
        (["--expand", ""], ""),
        (["--fold", "n1", "n2", "login"], "n[1-2],login\n"),
        (["--fold"], "\n"),
    ],
)
def test_host_lists(arguments: list[str], output: str) -> None:
    assert run(*arguments) == output


def test_malformed_list() -> None:
    with pytest.raises(StepguardError, match=r"no host list: '3-1': n\[3-1\]"):
        run("--expand", "n[3-1]")


def test_names_need_fold() -> None:
    with pytest.raises(UsageError, match="n1"):
        run("n1")


def test_outside_of_a_job() -> None:
    with pytest.raises(UsageError, match="not in a job: SLURM_JOB_ID is not set: name one with --job"):
        run()


def test_within_a_step_slurm_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("SLURM_JOB_ID", "71")
    monkeypatch.setenv("SLURM_STEP_NODELIST", "n[2-4]")
    assert run() == "n2\nn3\nn4\n"
    assert run("--first") == "n2\n"
    with pytest.raises(StepguardError, match="scontrol"):
        run("--job-nodes")
    with pytest.raises(StepguardError, match="scontrol"):
        run("--job", "72")
