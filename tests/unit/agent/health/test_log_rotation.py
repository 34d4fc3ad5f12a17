# SPDX-License-Identifier: Apache-2.0
"""Files of syslog daemons that are rotated, cut off, or gone."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from unit.agent.log_reader import Read
from unit.agent.syslog_daemon import Syslog, again, begun, line

pytestmark = pytest.mark.usefixtures("often")


def test_a_last_line_without_an_end(daemon: Syslog, read: Read) -> None:
    whole = line("two")
    reader = begun(daemon, read, "one")
    daemon.writes(whole[:-9])
    reader.drain()
    assert reader.texts == ["one"]
    reader = again(reader, read)
    daemon.writes(whole[-9:])
    reader.until(lambda: reader.texts == ["two"])
    daemon.writes(line("three")[:-1])
    daemon.rename()
    daemon.open()
    daemon.says("four")
    reader.until(lambda: "four" in reader.texts)
    assert reader.texts == ["two", "three", "four"]


def test_a_file_that_is_renamed(daemon: Syslog, read: Read) -> None:
    """The daemon writes on into the old one for a while; the new one is there at once, or when something is said."""
    reader = begun(daemon, read, "one")
    daemon.rename()
    reader.drain()
    daemon.says("two, late")
    reader.until(lambda: len(reader.lines) == 2)
    daemon.path.touch()
    reader.drain()
    daemon.says("three, late")
    daemon.open()
    daemon.says("four")
    reader.until(lambda: len(reader.lines) == 4)
    assert (reader.texts[1:], reader.fails) == (["two, late", "three, late", "four"], [""])
    assert reader.said() == ""


@pytest.mark.parametrize("name", ["kern.log.1", "kern.log-20261130"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_file_that_is_renamed_while_no_agent_runs(daemon: Syslog, read: Read, name: str, times: int) -> None:
    first = begun(daemon, read, "one")
    for number in range(times):
        daemon.says(f"old {number}")
        daemon.rename(f"{name}{'' if number == 0 else number}")
        time.sleep(0.01)  # the file system's clock
        daemon.open()
    daemon.says("new")
    second = again(first, read)
    second.until(lambda: "new" in second.texts)
    assert second.texts == [*(f"old {number}" for number in range(times)), "new"]
    assert second.said() == ""


def test_a_file_that_is_copied_and_cut_off(daemon: Syslog, read: Read) -> None:
    """Also where what was said last had not been read yet, and where more is there by now than there was."""
    reader = begun(daemon, read, "one")
    daemon.says("two")
    daemon.copy_truncate()
    daemon.says(*(f"new {number}" for number in range(9)))
    reader.until(lambda: len(reader.lines) == 11)
    assert (reader.texts[1], reader.texts[2], reader.texts[-1]) == ("two", "new 0", "new 8")
    daemon.says("three")
    daemon.copy_truncate()
    daemon.says("four")
    second = again(reader, read)
    second.until(lambda: len(second.lines) == 2)
    assert (second.texts, second.said()) == (["three", "four"], "")


@pytest.mark.parametrize("is_shorter", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_file_that_was_edited(daemon: Syslog, read: Read, is_shorter: bool, in_place: bool) -> None:
    """What has been read is not read again, whether lines were taken out or not."""
    daemon.says("old", "older", ago_s=60)
    daemon.says("two")
    reader = read(daemon.path)
    reader.until(lambda: len(reader.lines) == 3)
    reader.drain()
    edited = daemon.path.read_bytes().split(b"\n", 1)[1] if is_shorter else daemon.path.read_bytes()
    target = daemon.path if in_place else daemon.path.with_name("tmp")
    target.write_bytes(edited.replace(b"older", b"olden"))
    target.rename(daemon.path)
    reader.drain()
    time.sleep(1.1)  # a line of the same second as the last one counts
    daemon.open()
    daemon.says("three")
    reader.until(lambda: reader.texts[-1] == "three")
    assert [text for text in reader.texts if text.startswith("old")] == ["old", "older"]


@pytest.mark.parametrize("is_running", [True, False])
def test_lines_of_one_second_in_a_file_that_was_edited(daemon: Syslog, read: Read, is_running: bool) -> None:
    """`sed -i 1d`, twice: what was read is known by itself, not by its time."""
    reader = begun(daemon, read, *(f"xid on GPU {number}" for number in range(5)))
    for _ in range(2):
        if not is_running:
            cursor = reader.log.cursor()
            reader.close()
        edited = daemon.path.with_name("tmp")
        edited.write_bytes(daemon.path.read_bytes().partition(b"\n")[2])
        edited.rename(daemon.path)
        daemon.open()
        if not is_running:
            reader = read(daemon.path, cursor=cursor)
        reader.drain()
    daemon.says("and more")
    reader.until(lambda: reader.texts[-1:] == ["and more"])
    assert len(reader.lines) == (6 if is_running else 1)
    assert f"{daemon.path} was written anew, and is read on behind the last line that was read" in reader.said()


def test_a_file_that_is_copied_and_cut_off_again_and_again(daemon: Syslog, read: Read) -> None:
    """Faster than it is looked at; a copy of everything is there."""
    reader = begun(daemon, read, "one")
    expected = ["one"]
    for number in range(12):
        texts = [f"{number}.{line}" for line in range(50)]
        expected += texts
        daemon.says(*texts[:30])
        if number % 3 == 0:
            reader.turn()
        daemon.says(*texts[30:])
        daemon.copy_truncate(f"kern.log-{number:02}")
        if number % 2 == 0:
            reader.turn()
        time.sleep(0.01)  # the file system's clock
    daemon.says("last")
    reader.until(lambda: reader.texts[-1] == "last")
    assert (reader.texts, reader.said()) == ([*expected, "last"], "")


def test_what_was_read_before_a_rotation_is_not_read_again_where_the_place_is_lost(daemon: Syslog, read: Read) -> None:
    """Whatever the times: the clock was set back after it."""
    daemon.says("old", ago_s=-900)
    daemon.rename()
    time.sleep(0.01)  # the file system's clock
    daemon.open()
    daemon.says("two")
    reader = read(daemon.path)
    reader.until(lambda: reader.texts == ["old", "two"])
    reader.drain()
    os.truncate(daemon.path, 0)
    reader.drain()
    daemon.says("three", ago_s=1000)
    reader.until(lambda: reader.texts[-1] == "three")
    reader.drain()
    assert reader.texts == ["old", "two", "three"]
    assert f"the place where {daemon.path} was left is in no file: lines may be lost" in reader.said()


def test_somebodys_copy_of_an_old_file_is_not_new(daemon: Syslog, read: Read) -> None:
    daemon.says("old")
    old = daemon.rename("kern.log.2")
    time.sleep(0.01)  # the file system's clock
    daemon.open()
    daemon.says("one")
    reader = read(daemon.path)
    reader.until(lambda: reader.texts == ["old", "one"])
    reader.drain()
    shutil.copy(old, daemon.path.with_name("kern.log.copy"))
    time.sleep(0.01)
    daemon.rename()
    daemon.open()
    daemon.says("two")
    reader.until(lambda: reader.texts[-1] == "two")
    assert reader.texts == ["old", "one", "two"]


def test_a_file_behind_a_link_is_rotated_where_it_lies(daemon: Syslog, read: Read, tmp_path: Path) -> None:
    link = tmp_path / "elsewhere/kern.log"
    link.parent.mkdir()
    link.symlink_to(daemon.path)
    daemon.says("one")
    reader = read(link)
    reader.until(lambda: bool(reader.lines))
    cursor = reader.log.cursor()
    reader.close()
    daemon.says("two")
    daemon.rename()
    daemon.open()
    daemon.says("three")
    reader = read(link, cursor=cursor)
    reader.until(lambda: len(reader.lines) == 2)
    assert (reader.texts, reader.said()) == (["two", "three"], "")


def test_a_daemon_that_leaves_a_hole(daemon: Syslog, read: Read) -> None:
    """It goes on where it was before the file was cut off: zeros, of any size."""
    reader = begun(daemon, read, "one")
    os.truncate(daemon.path, 0)
    with daemon.path.open("r+b") as file:
        file.seek(1 << 40)
        file.write(line("two"))
    reader.until(lambda: len(reader.lines) == 2)
    assert reader.texts == ["one", "two"]


def test_what_was_compressed_is_lost(daemon: Syslog, read: Read) -> None:
    """Lines from before are not told again."""
    first = begun(daemon, read, "one")
    old = daemon.rename("kern.log.1.gz")
    old.write_bytes(b"\x1f\x8b")
    daemon.open()
    daemon.says("from before", ago_s=100)
    daemon.says("new", ago_s=-5)
    daemon.rename()
    time.sleep(0.01)  # the file system's clock
    daemon.open()
    daemon.says("newer", ago_s=-5)
    second = again(first, read)
    second.until(lambda: len(second.lines) == 2)
    assert second.texts == ["new", "newer"]
    assert f"the place where {daemon.path} was left is in no file: lines may be lost" in second.said()


def test_files_beside_it_that_are_older_than_the_boot_are_not_looked_at(daemon: Syslog, read: Read) -> None:
    daemon.says("of this boot")
    old = daemon.rename("kern.log.2")
    time.sleep(0.01)  # the file system's clock
    daemon.open()
    daemon.says("too")
    daemon.rename()
    shutil.copy(old, daemon.path.with_name("kern.log.3"))
    os.utime(daemon.path.with_name("kern.log.3"), (1e9, 1e9))
    daemon.path.with_name("kern.log.4").symlink_to("/etc/passwd")
    os.mkfifo(daemon.path.with_name("kern.log.5"))
    daemon.open()
    reader = read(daemon.path)
    reader.until(lambda: len(reader.lines) == 2)
    assert reader.texts == ["of this boot", "too"]


def test_a_file_in_whose_place_something_else_comes(daemon: Syslog, read: Read) -> None:
    reader = begun(daemon, read, "one")
    daemon.rename()
    os.mkfifo(daemon.path)
    reader.until(lambda: reader.fails[-1] != "")
    assert reader.fails[-1] == "it is no file that lines can be read from"
    daemon.path.unlink()
    daemon.says("two")
    daemon.open()
    daemon.says("three")
    reader.until(lambda: len(reader.lines) == 3)
    assert reader.texts == ["one", "two", "three"]
