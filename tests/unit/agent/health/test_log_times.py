# SPDX-License-Identifier: Apache-2.0
"""Log files whose lines have the times of a clock that was set, or was wrong at a boot."""

from __future__ import annotations

import time

import pytest

from unit.agent.log_reader import OTHER_BOOT, Read, Reader
from unit.agent.syslog_daemon import Syslog, again, begun, line

pytestmark = pytest.mark.usefixtures("often")
_BANNER = "Linux version 6.1.0-13-amd64 (debian-kernel@lists.debian.org) #1 SMP"


def uptime_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def after_a_boot(daemon: Syslog, read: Read) -> Reader:
    """The next agent, of the next boot."""
    first = begun(daemon, read, "of the boot before")
    cursor = {**first.log.cursor(), "boot_id": OTHER_BOOT}
    first.close()
    return read(daemon.path, cursor=cursor)


def test_a_line_of_the_future_hides_none(daemon: Syslog, read: Read) -> None:
    """The clock was ahead at the boot, and was set back."""
    daemon.says(_BANNER, ago_s=-7000)
    daemon.says("xid", ago_s=min(300, uptime_s() / 2))
    reader = read(daemon.path)
    reader.until(lambda: len(reader.lines) == 2)
    daemon.says("another", ago_s=60)
    reader.until(lambda: len(reader.lines) == 3)
    assert (reader.texts, reader.said()) == ([_BANNER, "xid", "another"], "")
    assert all(one.at_s <= uptime_s() for one in reader.lines)


@pytest.mark.parametrize("is_running", [True, False])
@pytest.mark.parametrize("is_copied", [True, False])
def test_after_a_rotation_all_is_new(daemon: Syslog, read: Read, is_running: bool, is_copied: bool) -> None:
    """Also where the clock was set back."""
    reader = begun(daemon, read, "one")
    if not is_running:
        cursor = reader.log.cursor()
        reader.close()
    if is_copied:
        daemon.copy_truncate()
    else:
        daemon.rename()
        daemon.open()
    daemon.says("two", ago_s=600)
    if not is_running:
        reader = read(daemon.path, cursor=cursor)
    reader.until(lambda: reader.texts[-1:] == ["two"])
    reader.drain()
    assert (reader.texts.count("two"), reader.texts.count("one"), reader.said()) == (1, is_running, "")


def test_a_boot_whose_clock_was_behind(daemon: Syslog, read: Read) -> None:
    """Its lines are dated before it; they count once a line of this boot has come behind them."""
    reader = after_a_boot(daemon, read)
    behind_s = uptime_s() + 3600
    daemon.says(_BANNER, ago_s=behind_s)
    daemon.says("xid", ago_s=behind_s - 1)
    reader.drain()
    assert reader.texts == []
    reader = again(reader, read)
    daemon.says("next")
    reader.until(lambda: len(reader.lines) == 3)
    assert reader.texts == [_BANNER, "xid", "next"]
    assert [round(one.at_s) for one in reader.lines[:2]] == [0, 1]
    reader = again(reader, read)
    reader.drain()
    assert reader.texts == []


@pytest.mark.parametrize("is_stamped", [True, False])
def test_a_boot_before_is_none_whose_clock_was_behind(daemon: Syslog, read: Read, is_stamped: bool) -> None:
    """It went on for longer than this one, or is followed by another one's first line."""
    reader = after_a_boot(daemon, read)
    before_s = 2 * uptime_s() + 3600
    daemon.says(_BANNER, "xid", ago_s=before_s)
    if is_stamped:
        daemon.says(f"[{uptime_s() + 900:12.6f}] last", ago_s=before_s)
    else:
        daemon.says("last", ago_s=before_s - uptime_s() - 900)
    daemon.says("next", ago_s=0)
    reader.until(lambda: bool(reader.lines))
    assert reader.texts == ["next"]
    other = read(daemon.path, cursor={**reader.log.cursor(), "boot_id": OTHER_BOOT})
    daemon.says(_BANNER, "xid", ago_s=before_s)
    daemon.says(_BANNER, "next")
    other.until(lambda: len(other.lines) == 2)
    assert other.texts == [_BANNER, "next"]


def test_a_file_that_holds_nothing_of_what_was_read(daemon: Syslog, read: Read) -> None:
    """What is from before the last line may have been read: it is passed over, which is said."""
    reader = begun(daemon, read, "one")
    daemon.path.with_name("tmp").write_bytes(line("old", ago_s=100) + line("two", ago_s=-5))
    daemon.path.with_name("tmp").rename(daemon.path)
    reader.until(lambda: len(reader.lines) == 2)
    reader.drain()
    assert reader.texts == ["one", "two"]
    assert f"1 lines of {daemon.path} are from before the last one that was read, and were passed over" in reader.said()


@pytest.mark.parametrize("between", [1, 2000])
def test_a_file_of_more_than_a_year(daemon: Syslog, read: Read, between: int) -> None:
    """Its times tell no year: a line of a year ago looks like one of today, but those behind it go back by months."""
    day_s = 86_400.0
    daemon.says("xid of last year", ago_s=365 * day_s + min(100.0, uptime_s() / 2))
    daemon.says("xid, nearly a year ago", ago_s=364.5 * day_s)
    for number in range(between):
        daemon.says(f"of {number}", ago_s=(300 - 290 * number / between) * day_s)
    daemon.says("xid of today")
    reader = read(daemon.path)
    reader.until(lambda: reader.texts[-1:] == ["xid of today"])
    assert [text for text in reader.texts if "xid" in text] == ["xid of today"]
