# SPDX-License-Identifier: Apache-2.0
"""Supervisors side by side do not take each other's spare."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepguard.resume.claims import Claims


def fail(text: str) -> None:
    """Takes trouble with the file where there must be none."""
    raise AssertionError(text)


def claim_in_child(directory: Path, nodes: list[str]) -> tuple[int, int]:
    """Another process claims nodes and lives until its pipe is closed; its pid and that pipe."""
    ready_read, ready_write = os.pipe()
    stay_read, stay_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(stay_write)
        Claims(directory / "claims", fail).claim(lambda _: nodes)
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
    claims = Claims(tmp_path / "claims", fail)
    assert others_seen(claims) == {"n5", "n6"}
    os.close(stay)
    os.waitpid(pid, 0)
    assert others_seen(claims) == set()


def test_jobs_do_not_see_one_another(tmp_path: Path) -> None:
    pid, stay = claim_in_child(tmp_path, ["n5"])
    assert others_seen(Claims(tmp_path / "others", fail)) == set()
    os.close(stay)
    os.waitpid(pid, 0)


def test_the_last_to_leave_takes_the_file_away(tmp_path: Path) -> None:
    claims = Claims(tmp_path / "claims", fail)
    others_seen(claims)
    claims.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content", [b'{"x": 1, "1:2": "n1"\xff', b"[]", b"[1]", b'{"x:y": []}', b'{"1:2": 3}', b"\0" * 999]
)
def test_damage_to_the_file_is_no_claim(tmp_path: Path, content: bytes) -> None:
    claims = Claims(tmp_path / "claims", fail)
    others_seen(claims)
    (tmp_path / "claims").write_bytes(content)
    assert others_seen(claims) == set()


@pytest.mark.parametrize("kind", ["directory", "link", "fifo", "parent"])
def test_what_is_in_the_way_is_told_and_nobody_is_kept_from_going_on(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "claims"
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        (tmp_path / "file").touch()
        path = tmp_path / "file" / "claims"
    told: list[str] = []
    assert others_seen(Claims(path, told.append)) == set()
    assert len(told) == 1
    assert "cannot agree on spares" in told[0]
