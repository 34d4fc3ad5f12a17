# SPDX-License-Identifier: Apache-2.0
"""`stepguard archive`: the words of the command line, and what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stepguard.cli.archive import command
from stepguard.errors import StepguardError, UsageError
from unit.archive.stored import DAY_S, Archive


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    (tmp_path / "archive").mkdir()
    (tmp_path / "stepguard.toml").write_text(f'[archive]\ndir = "{tmp_path}/archive"\n')
    monkeypatch.setenv("STEPGUARD_CONFIG", str(tmp_path / "stepguard.toml"))
    return Archive(tmp_path / "archive")


def put_old_and_young(archive: Archive) -> tuple[Path, Path]:
    ago = [time.time() - days * DAY_S for days in (91, 1)]
    old, young = (archive.put(number, start_s=end_s - 60, end_s=end_s) for number, end_s in enumerate(ago, 1))
    return old, young


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, standalone_mode=False)


def run(*arguments: str) -> str:
    result = invoke(*arguments)
    if result.exception is not None:
        raise result.exception
    return result.output


def test_prune_says_first_and_deletes_with_yes(archive: Archive) -> None:
    old, young = put_old_and_young(archive)
    assert run("prune", "--keep", "90d").startswith("would delete 1 records")
    assert old.exists()
    assert run("prune", "--keep", "90d", "--yes").startswith("deleted 1 records")
    assert (old.exists(), young.exists()) == (False, True)


def test_prune_in_json(archive: Archive) -> None:
    old, _ = put_old_and_young(archive)
    said = json.loads(run("prune", "--keep", "12w", "--max-size", "1T", "--json"))
    assert (said["schema"], said["dry_run"], said["doomed"], said["deleted"]) == (1, True, [str(old)], [])
    assert 0 < said["freed_bytes"] < said["total_bytes"]


def test_prune_says_what_it_spares_and_why(archive: Archive) -> None:
    old, young = put_old_and_young(archive)
    assert "spared" not in run("prune", "--keep", "90d")
    os.utime(old)  # a node has just brought its part
    running = archive.put(3, state="running", start_s=time.time() - 100 * DAY_S)
    os.utime(running)
    lines = run("prune", "--max-size", "1K").splitlines()
    assert lines[0].startswith("would delete 1 records")
    assert lines[2].endswith(", which is still too much")
    assert [line for line in lines if "spared" in line] == [
        "  spared: 1 that a node wrote to within the last hour",
        "  spared: 1 that have not ended, as far as they say; where nodes are gone for good, see --abandoned",
    ]
    said = json.loads(run("prune", "--keep", "90d", "--json"))
    assert said["spared"] == [{"record": str(old), "why": "fresh"}, {"record": str(running), "why": "unfinished"}]
    assert young.exists()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--keep", "90"],
        ["--keep", "-1d"],
        ["--keep", "1y"],
        ["--max-size", "5X"],
        ["--max-size", "-1"],
        ["--keep", "٣d"],
        ["--abandoned", "1h"],
        ["--abandoned", "6d"],
    ],
)
def test_prune_refuses_what_it_does_not_understand(archive: Archive, words: list[str]) -> None:
    with pytest.raises(UsageError):
        run("prune", *words)


@pytest.mark.parametrize(("text", "deleted"), [("0", 2), ("1K", 2), ("1M", 0), ("1GiB", 0), ("1TB", 0)])
def test_sizes(archive: Archive, text: str, deleted: int) -> None:
    put_old_and_young(archive)
    assert run("prune", "--max-size", text).startswith(f"would delete {deleted} records")


@pytest.mark.parametrize("text", ["500", "1", "00", "-1G", "1.5T", "500g", "B", ""])
def test_a_size_needs_its_unit(archive: Archive, text: str) -> None:
    put_old_and_young(archive)
    with pytest.raises(UsageError):
        run("prune", f"--max-size={text}")


def test_verify_lists_faults_and_fails(archive: Archive) -> None:
    old, _ = put_old_and_young(archive)
    assert invoke("verify").return_value == 0
    (old / "stdout.zst").write_bytes(b"")
    (old / "\x1b[2Jevil").touch(0o400)
    result = invoke("verify")
    assert result.return_value == 1
    assert f"corrupt: {old}/stdout.zst: " in result.output
    assert "\x1b" not in result.output
    assert result.output.endswith("2 records, 2 faults\n")
    said = json.loads(invoke("verify", "--json").output)
    assert [(fault["file"], fault["kind"]) for fault in said["damaged"]] == [
        ("stdout.zst", "corrupt"),
        ("\x1b[2Jevil", "extra"),
    ]


def test_export_for_xdmod(archive: Archive, tmp_path: Path) -> None:
    old, _ = put_old_and_young(archive)
    with pytest.raises(UsageError, match=r"no such directory.*/out: make it"):
        run("export-xdmod", str(tmp_path / "out"))
    (tmp_path / "out").mkdir()
    assert run("export-xdmod", str(tmp_path / "out")) == "2 scripts written, 0 were there\n"
    assert run("export-xdmod", "--since", "3d", str(tmp_path / "out")) == "0 scripts written, 1 were there\n"
    assert run("export-xdmod", "--since", "0d", str(tmp_path / "out")) == "0 scripts written, 0 were there\n"
    day = next(iter((tmp_path / "out").iterdir()))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / day.name).symlink_to(tmp_path)
    linked = invoke("export-xdmod", str(tmp_path / "other"))
    assert linked.return_value == 1
    assert f"stepguard: passed over: {tmp_path}/other/{day.name}: a link, or no directory: remove it" in linked.output
    (old / "manifest.json").write_text("{")
    result = invoke("export-xdmod", str(tmp_path / "out"))
    assert result.return_value == 1
    assert "0 scripts written, 1 were there, 1 records are unreadable\n" in result.output
    assert f"stepguard: passed over: {old}/manifest.json: " in result.output
    (archive.root / "other" / "2026").mkdir(parents=True)
    with pytest.raises(UsageError, match="lab, other"):
        run("export-xdmod", str(tmp_path / "out"))
    assert invoke("export-xdmod", "--cluster", "lab", str(tmp_path / "out")).return_value == 1


def test_rebuild_the_index(archive: Archive) -> None:
    for record in put_old_and_young(archive):
        for file in (record / "manifest.json", record / "stdout.zst", record / "script", record / "nodes/n1.json"):
            file.chmod(0o644)
    first, second = run("rebuild-index").splitlines()
    assert first == "2 records are in the index"
    assert second == "7 files have got the owner, group and mode that they should have"
    assert run("rebuild-index") == "2 records are in the index\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a directory to another user")
def test_what_others_may_write_to_stops_no_rebuild(archive: Archive) -> None:
    old, young = put_old_and_young(archive)
    archive.put(3, start_s=time.time(), state="running")
    (old / "nodes").chmod(0o777)
    os.chown(young, 1234, -1)
    result = invoke("rebuild-index")
    assert result.return_value == 1
    assert "3 records are in the index" in result.output
    for path in (old / "nodes", young):
        assert (
            f"stepguard: passed over: others than root may write to this directory: {path}: put it right"
            in result.output
        )
    assert (old / "manifest.json").stat().st_mode & 0o777 == 0o400, "what is beside it is put right"


WITHOUT_ARCHIVE = [["verify"], ["prune", "--keep", "90d", "--yes"], ["rebuild-index"], ["export-xdmod", "."]]


@pytest.mark.parametrize("words", WITHOUT_ARCHIVE)
def test_without_an_archive_it_says_what_to_do(archive: Archive, words: list[str]) -> None:
    archive.root.rmdir()
    with pytest.raises(StepguardError, match=r"No such file or directory: .*: run this where it is mounted"):
        run(*words)
    archive.root.write_text("a file\n")
    with pytest.raises(StepguardError, match=r"Not a directory: .*: \[archive\] dir must name a directory"):
        run(*words)


def test_where_root_may_not_write_nobody_is_told_to_be_root(archive: Archive) -> None:
    put_old_and_young(archive)
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    prune = [sys.executable, "-m", "stepguard", "archive", "prune", "--keep", "90d", "--yes"]
    command_line = ["unshare", "--mount", "sh", "-c", script, str(archive.root), *prune]
    done = subprocess.run(command_line, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert "Read-only file system" in done.stderr
    assert "mounted to be written" in done.stderr and "root" not in done.stderr.replace(str(archive.root), "")
