# SPDX-License-Identifier: Apache-2.0
"""The kernel's log as the agent reads it: FIFOs and files in the form of /dev/kmsg, in a loop like the agent's."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stepguard.agent.health.kernel_log import kernel_log
from unit.agent.log_reader import BOOT, OTHER_BOOT, Read

_NO_LOG = "what is there is no log as /dev/kmsg gives it"


def _ends_with(said: list[str], words: str) -> bool:
    return said[-1:] == [words]


def record(sequence: int, text: str = "", priority: int = 4, at_us: int | None = None) -> str:
    at_us = int(time.monotonic() * 1e6) if at_us is None else at_us
    return f"{priority},{sequence},{at_us},-;{text or f'line {sequence}'}\n"


def records(*sequences: int) -> str:
    return "".join(record(sequence) for sequence in sequences)


@pytest.fixture(params=["file", "fifo"])
def feed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, Callable[[str], None]]]:
    """A feed and what writes to it."""
    path = tmp_path / "kmsg"
    if request.param == "fifo":
        os.mkfifo(path)
        descriptor = os.open(path, os.O_RDWR)
    else:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    yield path, lambda text: (os.write(descriptor, text.encode()), None)[1]
    os.close(descriptor)


Feed = tuple[Path, Callable[[str], None]]


def test_lines_come_as_they_are_written(feed: Feed, read: Read) -> None:
    path, write = feed
    write(records(5, 6))
    reader = read(path)
    reader.until(lambda: len(reader.lines) == 2)
    before_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    write(record(7, "seven") + " SUBSYSTEM=pci\n DEVICE=+pci:0000:0f:00.0\n")
    reader.until(lambda: len(reader.lines) == 3)
    assert reader.texts == ["line 5", "line 6", "seven"]
    assert before_s - 1 <= reader.lines[-1].at_s <= time.clock_gettime(time.CLOCK_BOOTTIME)
    assert (reader.log.document()["sequence"], reader.fails, reader.said()) == (7, [""], "")


def test_what_is_not_printable_comes_escaped(feed: Feed, read: Read) -> None:
    path, write = feed
    write(record(1, "p\\x79thon\\x0a\\x5cx41"))
    reader = read(path)
    reader.until(lambda: bool(reader.lines))
    assert reader.texts == ["python\n\\x41"]


def test_a_line_that_is_cut_is_read_once_it_is_whole(feed: Feed, read: Read) -> None:
    path, write = feed
    text = record(1, "whole")
    write(text[:9])
    reader = read(path)
    reader.drain()
    assert reader.lines == []
    write(text[9:])
    reader.until(lambda: reader.texts == ["whole"])


def test_what_comes_from_user_space_is_not_the_kernels(feed: Feed, read: Read) -> None:
    """Facility 1 is what the kernel gives to a write to /dev/kmsg, 3 is what a daemon says it is."""
    path, write = feed
    xid = "NVRM: Xid (PCI:0000:0f:00): 79, GPU has fallen off the bus."
    write(record(1, xid, priority=12) + record(2, xid, priority=3 << 3) + record(3, xid, priority=0 | 1 << 3))
    write(record(4, "real", priority=7))
    reader = read(path)
    reader.until(lambda: bool(reader.lines))
    assert (reader.texts, reader.told("lost"), reader.log.cursor()["sequence"]) == (["real"], 0, 4)


def test_what_was_overwritten_is_counted_by_sequence(feed: Feed, read: Read) -> None:
    path, write = feed
    write(records(10))
    reader = read(path)
    reader.until(lambda: len(reader.lines) == 1)
    reader.drain()
    write(records(14, 15, 20))
    reader.until(lambda: len(reader.lines) == 4)
    assert reader.told("lost") == 3 + 4
    assert "7 lines of the kernel's log were overwritten unread, after line 10" in reader.said()


def test_over_a_restart_nothing_is_lost_and_nothing_read_twice(feed: Feed, read: Read) -> None:
    path, write = feed
    write(records(1, 2, 3))
    first = read(path)
    first.until(lambda: len(first.lines) == 3)
    cursor = first.log.cursor()
    first.log.stop()
    write((records(1, 2, 3) if path.is_fifo() else "") + records(4, 5))  # /dev/kmsg begins with the oldest each time
    second = read(path, cursor=cursor)
    second.until(lambda: len(second.lines) == 2)
    second.drain()
    assert (second.texts, second.told("lost"), second.said()) == (["line 4", "line 5"], 0, "")
    second.log.stop()
    write(records(9))
    third = read(path, cursor=second.log.cursor())
    third.until(lambda: len(third.lines) == 1)
    assert "up to 3 lines of the kernel's log were overwritten unread, after line 5" in third.said()


def test_after_a_boot_all_is_new(feed: Feed, read: Read) -> None:
    path, write = feed
    write(records(0, 1))
    reader = read(path, cursor={"boot_id": OTHER_BOOT, "sequence": 7000, "offset_s": 5.0})
    reader.until(lambda: len(reader.lines) == 2)
    assert reader.log.cursor()["boot_id"] == BOOT


def test_what_happened_while_no_agent_ran_keeps_its_time(feed: Feed, read: Read) -> None:
    """By the log's own clock, which is not the agent's: hours apart here."""
    path, write = feed
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    clock_us = int(40_000 * 1e6)
    write(record(1, at_us=clock_us - 90_000_000) + record(2, at_us=clock_us))
    reader = read(path, cursor={"boot_id": BOOT, "sequence": 0, "offset_s": now_s - 40_000})
    reader.until(lambda: len(reader.lines) == 2)
    assert [round(line.at_s - now_s) for line in reader.lines] == [-90, 0]


def test_a_kept_number_that_no_record_has_yet_is_given_up(feed: Feed, read: Read) -> None:
    path, write = feed
    write(records(1, 2))
    reader = read(path, cursor={"boot_id": BOOT, "sequence": 10**18})
    reader.drain()
    write(records(3, 4))
    reader.until(lambda: len(reader.lines) == 2)
    assert (reader.texts, reader.told("lost")) == (["line 3", "line 4"], 0)
    assert "lines of the kernel's log before line 3 may be unread" in reader.said()


@pytest.mark.parametrize(
    "place", [{"after_s": 1e12}, {"offset_s": -1e9}, {"offset_s": 1e12}, {"sequence": 10**27}, {"sequence": 1 << 64}]
)
def test_a_place_that_cannot_be(read: Read, place: dict[str, float]) -> None:
    """All that comes would be too old, or have been read."""
    with pytest.raises(ValueError, match=r"future|no place"):
        read(Path("/dev/kmsg"), cursor={"boot_id": BOOT, "path": "/dev/kmsg", "at_s": 1.0, **place})


@pytest.mark.parametrize("name", ["kmsg", "kern.log"])
def test_the_file_that_takes_lines_from_others_is_not_read(tmp_path: Path, read: Read, name: str) -> None:
    (tmp_path / name).symlink_to("/proc/kmsg")
    reader = read(tmp_path / name)
    reader.turn()
    assert reader.fails == ["it is of /proc, which has no log that others can read as well: name /dev/kmsg"]


def test_garbage_is_passed_over(feed: Feed, read: Read) -> None:
    path, write = feed
    garbage = [
        "",
        "no head",
        f"4,{10**27},1,-;",
        f"4,1,{1 << 64},-;",
        "4,x,1,-;text",
        ";",
        "4,1;text",
        f"{'9' * 5000},1,1,-;",
        "-4,2,1,-;text",
        "\x00\xff",
    ]
    write("\n".join(garbage) + "\n" + record(3, "after"))
    reader = read(path)
    reader.until(lambda: reader.texts == ["after"])
    assert reader.log.document()["garbage"] == len(garbage) - 1  # an empty line is nothing
    write("x" * 40_000)
    reader.drain()
    write("x" * 40_000 + "\n")
    write(record(4, "and then"))
    reader.until(lambda: "and then" in reader.texts)
    assert len(reader.texts) == 2


@pytest.mark.parametrize(
    "content", ["Nov 30 05:00:00 n1 kernel: NVRM: Xid (PCI:0000:0f:00): 79, gone\n", "\0" * 200_000]
)
def test_what_is_no_log_of_the_kernels_is_not_read_in_silence(tmp_path: Path, read: Read, content: str) -> None:
    """A syslog file, zeros: nothing would ever be heard, and a node that nobody hears is not well."""
    path = tmp_path / "kmsg"
    path.write_text(content)
    for cursor in (None, {"boot_id": BOOT, "path": "/dev/kmsg", "sequence": 7000, "offset_s": 5.0}):
        reader = read(path, cursor=cursor)
        reader.until(functools.partial(_ends_with, reader.fails, _NO_LOG))


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty"])
def test_what_has_no_log_is_not_opened(read: Read, path: str) -> None:
    reader = read(Path(path))
    reader.until(lambda: bool(reader.fails))
    assert reader.fails == [_NO_LOG]
    assert reader.log.due_s > time.monotonic() + 30, "and it is not looked at again and again"


def test_a_hundred_thousand_lines(tmp_path: Path, read: Read) -> None:
    """None is lost, and others get their turn in between."""
    path = tmp_path / "kmsg"
    text = "usb 1-1: new high-speed USB device number 4 using xhci_hcd"
    path.write_text("".join(f"6,{number},{number},-;{text}\n" for number in range(100_000)))
    reader = read(path)
    cpu_s = time.process_time()
    reader.until(lambda: len(reader.lines) == 100_000)
    assert time.process_time() - cpu_s < 10
    assert max(reader.batches) < 2000
    assert reader.told("lost") == 0


def test_a_flood_is_read_in_batches(tmp_path: Path, read: Read) -> None:
    """Lines that come one by one do not wake it one by one."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    reader = read(path)
    reader.turn()
    for number in range(2000):
        os.write(descriptor, record(number).encode())
        if number % 10 == 0:
            reader.turn()
    reader.until(lambda: len(reader.lines) == 2000)
    assert len(reader.batches) < 200
    os.close(descriptor)


def test_what_is_not_there_is_said_once_and_tried_again(
    tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kmsg"
    reader = read(path)
    reader.turn()
    assert reader.fails == [f"No such file or directory: {path}"]
    assert "the kernel's log cannot be read: No such file or directory" in reader.said()
    assert reader.log.due_s > time.monotonic() + 50, "and it is not looked at again and again"
    reader.close()
    monkeypatch.setattr(kernel_log, "RETRY_S", 0.05)
    reader = read(path)
    reader.until(lambda: len(reader.fails) > 2)
    assert reader.said().count("the kernel's log cannot be read") == 1
    path.write_text(records(1))
    reader.until(lambda: reader.texts == ["line 1"])
    assert reader.fails[-1] == "" and "is read again" in reader.said()


def test_unread_where_nobody_wants_it(read: Read) -> None:
    reader = read("")
    reader.turn()
    assert (reader.fails, reader.lines, reader.log.due_s) == ([], [], float("inf"))


@pytest.mark.skipif(not os.access("/dev/kmsg", os.R_OK), reason="the kernel's log may not be read here")
def test_the_kernels_own(read: Read) -> None:
    reader = read(Path("/dev/kmsg"))
    reader.until(lambda: len(reader.lines) > 0)
    reader.drain()
    assert reader.log.document()["garbage"] == 0
    assert reader.fails == [""]
    assert all(line.at_s <= time.clock_gettime(time.CLOCK_BOOTTIME) for line in reader.lines)
