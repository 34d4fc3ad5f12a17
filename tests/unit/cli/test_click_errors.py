# SPDX-License-Identifier: Apache-2.0
"""All errors have one form, click's own too: `stepguard: what failed: on what: what to do`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stepguard.__main__ import main

WANTS = "option '{0}' requires an argument: {0}"


def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["stepguard", *words])
    status = main()
    return status, capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["jobs", "--limit", "-1"], "-1 is not in the range x>=0: --limit: see `stepguard jobs --help`"),
        (["jobs", "--limit", "many"], "'many' is not a valid integer range: --limit: see `stepguard jobs --help`"),
        (["jobs", "--stat", "x"], "no such option: --stat: --state was meant? see `stepguard jobs --help`"),
        (["jobs", "--limit"], "option '--limit' requires an argument: --limit: see `stepguard jobs --help`"),
        (["archive", "prune", "--keep"], f"{WANTS.format('--keep')}: see `stepguard archive prune --help`"),
        (["health", "check", "--probe"], f"{WANTS.format('--probe')}: see `stepguard health check --help`"),
        (["jobs", "x"], "got unexpected extra argument (x): stepguard jobs: see `stepguard jobs --help`"),
        (["job"], "missing argument: ID: see `stepguard job --help`"),
        (["nonsense"], "no such command 'nonsense': stepguard: see `stepguard --help`"),
        (["archive", "nonsense"], "no such command 'nonsense': stepguard archive: see `stepguard archive --help`"),
        (["archive", "prune", "--nope"], "no such option: --nope: see `stepguard archive prune --help`"),
        (["archive", "export-xdmod"], "missing argument: DIRECTORY: see `stepguard archive export-xdmod --help`"),
        (["agent", "--nope"], "unexpected '--nope': agent: write: stepguard agent [--check] [--config PATH]"),
    ],
)
def test_a_wrong_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str], expected: str
) -> None:
    assert said(capsys, monkeypatch, *words) == (2, f"stepguard: {expected}\n")


def test_a_choice_names_what_there_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    status, text = said(capsys, monkeypatch, "job", "12", "outputs")
    assert status == 2
    assert text.startswith("stepguard: 'outputs' is not one of 'script', 'env', ")
    assert text.endswith(": see `stepguard job --help`\n")


@pytest.mark.parametrize("words", [[], ["archive"]])
def test_a_group_without_a_verb_shows_its_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["stepguard", *words])
    main()
    captured = capsys.readouterr()
    assert f"Usage: {' '.join(['stepguard', *words])}" in captured.out + captured.err


def test_no_error_steers_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "archive").mkdir()
    (tmp_path / "stepguard.toml").write_text(f'[archive]\ndir = "{tmp_path}/archive"\n')
    monkeypatch.setenv("STEPGUARD_CONFIG", str(tmp_path / "stepguard.toml"))
    for words in (
        ["\x1b[2J"],
        ["jobs", "\x1b[2J\n"],
        ["jobs", "--cluster", "\x1b[2J"],
        ["archive", "export-xdmod", "/\x1b"],
    ):
        status, text = said(capsys, monkeypatch, *words)
        assert (status, text.rstrip("\n").isprintable()) == (2, True), text
