# SPDX-License-Identifier: Apache-2.0
"""Supervisors side by side do not take each other's spare."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepguard.errors import StepguardError
from stepguard.resume.claims import Claims


def claim_in_child(directory: Path, nodes: list[str]) -> tuple[int, int]:
    """Another process claims nodes and lives until its pipe is closed; its pid and that pipe."""
    ready_read, ready_write = os.pipe()
    stay_read, stay_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(stay_write)
        Claims("71", directory).claim(lambda _: nodes)
        os.write(ready_write, b"!")
        os.read(stay_read, 1)
        os._exit(0)
    os.read(ready_read, 1)
    for descriptor in (ready_read, ready_write, stay_read):
        os.close(descriptor)
    return pid, stay_write


def others_seen(claims: Claims) -> set[str]:
    seen: set[str] = set()

    def choose(others: set[str]) -> list[str]:
        seen.update(others)
        return ["n1"]

    claims.claim(choose)
    return seen


def test_a_living_claim_is_seen_and_a_dead_one_is_not(tmp_path: Path) -> None:
    pid, stay = claim_in_child(tmp_path, ["n5", "n6"])
    claims = Claims("71", tmp_path)
    assert others_seen(claims) == {"n5", "n6"}
    os.close(stay)
    os.waitpid(pid, 0)
    assert others_seen(claims) == set()


def test_jobs_do_not_see_one_another(tmp_path: Path) -> None:
    pid, stay = claim_in_child(tmp_path, ["n5"])
    assert others_seen(Claims("72", tmp_path)) == set()
    os.close(stay)
    os.waitpid(pid, 0)


def test_the_last_to_leave_takes_the_file_away(tmp_path: Path) -> None:
    claims = Claims("71", tmp_path)
    others_seen(claims)
    claims.release()
    assert list((tmp_path / f"stepguard-{os.getuid()}").iterdir()) == []


def test_damage_to_the_file_is_no_claim(tmp_path: Path) -> None:
    claims = Claims("71", tmp_path)
    others_seen(claims)
    (tmp_path / f"stepguard-{os.getuid()}" / "71.claims").write_bytes(b'{"x": 1, "1:2": "n1"\xff')
    assert others_seen(claims) == set()


def test_a_directory_that_others_may_write_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / f"stepguard-{os.getuid()}"
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(StepguardError, match="private directory"):
        others_seen(Claims("71", tmp_path))


def test_a_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / f"stepguard-{os.getuid()}").symlink_to(elsewhere)
    with pytest.raises(StepguardError, match="private directory"):
        others_seen(Claims("71", tmp_path))
