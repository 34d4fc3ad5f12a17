# SPDX-License-Identifier: Apache-2.0
"""The kernel's lines in files of syslog daemons."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from unit.agent.log_reader import BOOT, OTHER_BOOT, Read
from unit.agent.syslog_daemon import Syslog, again, begun, line

pytestmark = pytest.mark.usefixtures("often")


def test_lines_come_as_they_are_written(daemon: Syslog, read: Read) -> None:
    reader = begun(daemon, read, "one")
    before_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    daemon.says("forged", tag="alice")
    daemon.says("two")
    reader.until(lambda: len(reader.lines) == 2)
    assert reader.texts == ["one", "two"]
    assert before_s <= reader.lines[-1].at_s <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert (reader.fails, reader.said(), reader.told("path")) == ([""], "", str(daemon.path))


@pytest.mark.parametrize("is_trusted", [True, False])
def test_they_are_trusted_where_the_administrator_says_so(daemon: Syslog, read: Read, is_trusted: bool) -> None:
    daemon.says("one")
    reader = read(daemon.path, is_trusted=is_trusted)
    reader.until(lambda: bool(reader.lines))
    assert reader.lines[0].is_trusted is reader.told("is_trusted") is is_trusted


def test_over_restarts_nothing_is_lost_and_nothing_read_twice(daemon: Syslog, read: Read) -> None:
    first = begun(daemon, read, "one", "same", "same")
    daemon.says("two")
    second = again(first, read)
    second.until(lambda: bool(second.lines))
    third = again(second, read)
    third.drain()
    assert (second.texts, third.texts, third.fails, third.said()) == (["two"], [], [""], "")


def test_lines_of_another_boot(daemon: Syslog, read: Read) -> None:
    """Those from before count for nothing, those from after do, whether there is a cursor or not."""
    uptime_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    daemon.says("of last year", ago_s=300 * 86400)
    daemon.says("of the boot before", ago_s=uptime_s + 100)
    daemon.says("of this boot", ago_s=uptime_s - 30)
    fresh = read(daemon.path)
    fresh.until(lambda: bool(fresh.lines))
    assert fresh.texts == ["of this boot"]
    assert fresh.lines[0].at_s == pytest.approx(31, abs=2)
    fresh.close()
    daemon.says("and before it died", ago_s=uptime_s + 1)
    daemon.says("and later")
    after = read(daemon.path, cursor={**fresh.log.cursor(), "boot_id": OTHER_BOOT})
    after.until(lambda: bool(after.lines))
    assert after.texts == ["and later"]


def test_very_long_lines_and_zeros(daemon: Syslog, read: Read) -> None:
    reader = begun(daemon, read, "one")
    daemon.writes(b"x" * 300_000)
    reader.drain()
    reader = again(reader, read)  # in the middle of it
    daemon.writes(b"x" * 300_000 + line("no line of its own"))
    daemon.says("y" * 100_000)
    daemon.writes(b"\0" * 5000 + line("after"))
    reader.until(lambda: reader.texts[-1:] == ["after"])
    assert len(reader.lines) == 2 and len(reader.texts[0]) < 1 << 13


def test_a_file_without_the_kernels_lines(daemon: Syslog, read: Read) -> None:
    daemon.says("I am not", tag="sshd[7]")
    reader = read(daemon.path)
    reader.until(lambda: bool(reader.fails))
    assert reader.fails[0] == "it has no line of the kernel's yet"
    daemon.says("I am")
    reader.until(lambda: bool(reader.lines))
    assert (reader.texts, reader.fails[-1]) == (["I am"], "")


def test_a_file_that_comes_later(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "kern.log"
    reader = read(path)
    reader.until(lambda: len(reader.fails) > 2)
    assert reader.fails[0] == f"No such file or directory: {path}"
    Syslog(path).says("one")
    reader.until(lambda: bool(reader.lines))
    assert (reader.texts, reader.fails[-1], reader.said().count("cannot be read")) == (["one"], "", 1)


@pytest.mark.parametrize("kind", ["fifo", "directory", "device"])
def test_what_is_no_file(tmp_path: Path, read: Read, kind: str) -> None:
    path = tmp_path / "kern.log"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    reader = read(path)
    reader.until(lambda: bool(reader.fails))
    assert reader.fails[0] == "it is no file that lines can be read from"


@pytest.mark.parametrize(
    "place",
    [
        {"offset": "x"},
        {"offset": 1 << 70, "tail": "00"},
        {"offset": 1 << 60, "tail": "00"},
        {"offset": 3},
        {"offset": 3, "tail": "zz"},
        {"offset": -7, "tail": "00"},
        {"offset": 0, "tail": 7},
        {"offset": 1, "tail": "0" * 8},
        {"at_s": "x"},
        {"at_s": float("nan")},
        {"at_s": 1e300},
    ],
)
def test_a_cursor_that_is_none(daemon: Syslog, read: Read, place: dict[str, object]) -> None:
    """It is refused, and the agent begins without; or it is a place that is in no file."""
    daemon.says("one", ago_s=-5)
    cursor = {"boot_id": BOOT, "path": str(daemon.path), "at_s": 1.0, "after_s": None, **place}
    try:
        reader = read(daemon.path, cursor=cursor)
    except (TypeError, ValueError):
        return
    reader.until(lambda: bool(reader.lines))
    assert reader.texts == ["one"]


def test_from_kmsg_to_a_file(daemon: Syslog, read: Read, tmp_path: Path) -> None:
    """What has been told is not told again, not by the next agent either."""
    kmsg = tmp_path / "kmsg"
    kmsg.write_text(f"3,1,{int(time.monotonic() * 1e6)},-;one\n")
    reader = read(kmsg)
    reader.until(lambda: bool(reader.lines))
    cursor = reader.log.cursor()
    daemon.says("one")
    other = read(daemon.path, cursor=cursor)
    other.drain()
    daemon.says("two", ago_s=-5)
    time.sleep(1.2)
    other = again(other, read)
    daemon.says("three")
    other.until(lambda: bool(other.lines))
    other.drain()
    assert other.texts[-1] == "three" and "one" not in other.texts


def test_a_hundred_thousand_lines(daemon: Syslog, read: Read) -> None:
    daemon.writes(line("usb 1-1: new high-speed USB device number 4 using xhci_hcd") * 50_000)
    daemon.writes(line("session opened", tag="sshd[77]") * 50_000)
    reader = read(daemon.path)
    cpu_s = time.process_time()
    reader.until(lambda: len(reader.lines) == 50_000)
    reader.drain()
    assert time.process_time() - cpu_s < 10
    assert max(reader.batches) < 5000
