# SPDX-License-Identifier: Apache-2.0
"""The kernel's lines by way of journald: the real one, its files and the real journalctl."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.journald import PROGRAM, Journald
from stepguard.agent.health.kernel_log import choice, kernel_log
from unit.agent.agent_process import BOOT_ID
from unit.agent.log_reader import Read, Reader

XID = "NVRM: Xid (PCI:0000:0f:00): 79, pid=77, name=python, GPU has fallen off the bus."
needs_journald = pytest.mark.skipif(
    not PROGRAM.exists() or os.geteuid() != 0, reason="needs systemd-journald, and root"
)


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Journald]:
    with Journald(tmp_path / "journald") as made:
        monkeypatch.setenv("PATH", f"{made.on_path()}:{os.environ['PATH']}")
        yield made


def journal(read: Read, cursor: dict[str, Any] | None = None) -> Reader:
    return read("journald", cursor=cursor, boot_id=BOOT_ID)


@needs_journald
def test_what_the_kernel_says(real: Journald, read: Read) -> None:
    before_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    real.says("Linux version 6.1", XID)
    reader = journal(read)
    reader.until(lambda: len(reader.lines) == 2)
    real.says("bytes \udcff, and a line\\x0aend", priority=4)
    reader.until(lambda: len(reader.lines) == 3)
    assert reader.texts == ["Linux version 6.1", XID, "bytes \ufffd, and a line\nend"]
    assert [line.level for line in reader.lines] == [3, 3, 4]
    now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert all(before_s - 1 <= line.at_s <= now_s and line.is_trusted for line in reader.lines)
    assert (reader.fails[1:], reader.told("garbage"), reader.told("path")) == ([""], 0, "journald")


@needs_journald
def test_what_a_program_says_is_not_the_kernels(real: Journald, read: Read) -> None:
    """To /dev/kmsg, as root alone can, and by `logger`, which all can."""
    real.says(XID, priority=12)
    real.says(XID, f"kernel: {XID}", priority=3 << 3)
    in_namespace = ["nsenter", f"--target={real.pid}", "--mount", "logger", "--socket=/run/systemd/journal/dev-log"]
    subprocess.run([*in_namespace, "-p", "kern.err", "-t", "kernel", XID], check=True)
    real.says("and this is")
    reader = journal(read)
    reader.until(lambda: bool(reader.lines))
    reader.drain()
    assert reader.texts == ["and this is"]


@needs_journald
def test_over_restarts_nothing_is_lost_and_nothing_read_twice(real: Journald, read: Read) -> None:
    real.says("one", "two", "two")
    first = journal(read)
    first.until(lambda: len(first.lines) == 3)
    cursor = json.loads(json.dumps(first.log.cursor()))
    first.close()
    second = journal(read, cursor)
    second.drain()
    assert second.lines == []
    assert second.fails == [""], "a kernel that says nothing is well"
    real.says("three")
    second.until(lambda: bool(second.lines))
    second.close()
    real.says("four")
    third = journal(read, second.log.cursor())
    third.until(lambda: bool(third.lines))
    assert (second.texts, third.texts, third.said()) == (["three"], ["four"], "")


@needs_journald
def test_another_file_of_the_journals(real: Journald, read: Read) -> None:
    """journald begins a new one; the old one is removed with what was read last."""
    real.says("one")
    reader = journal(read)
    reader.until(lambda: bool(reader.lines))
    real.ctl("--rotate")
    real.says("two")
    reader.until(lambda: len(reader.lines) == 2)
    cursor = reader.log.cursor()
    reader.close()
    real.says("three")
    real.ctl("--rotate")
    real.ctl("--vacuum-files=1")
    real.says("four")
    again = journal(read, cursor)
    again.until(lambda: "four" in again.texts)
    assert again.texts in (["four"], ["three", "four"])
    assert "journald has not kept the kernel's line that was read last" in again.said()


@needs_journald
def test_a_cursor_that_journalctl_refuses(real: Journald, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "RETRY_S", 0.1)
    real.says("one", "two")
    first = journal(read)
    first.until(lambda: len(first.lines) == 2)
    cursor = {**first.log.cursor(), "cursor": "s=garbage"}
    first.close()
    real.says("three")
    second = journal(read, cursor)
    second.until(lambda: bool(second.lines))
    assert second.texts == ["three"], "known by its time"


@needs_journald
def test_another_boots_lines_are_not_this_ones(real: Journald, read: Read) -> None:
    real.says("one")
    reader = read("journald", boot_id="0f" * 16)
    reader.drain()
    assert reader.lines == []


@needs_journald
def test_journald_where_kmsg_cannot_be_read(
    real: Journald, read: Read, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And kmsg again, once it can be; what both have is told once."""
    kmsg = tmp_path / "kmsg"
    monkeypatch.setattr(choice, "_KMSG", str(kmsg))
    real.says("one")
    reader = read("auto", boot_id=BOOT_ID)
    reader.until(lambda: bool(reader.lines))
    why = f"{kmsg}: No such file or directory"
    assert (reader.told("path"), reader.told("instead"), reader.fails) == ("journald", why, [why, ""])
    assert f"the kernel's log is read from journald: {why}" in reader.said()
    cursor = reader.log.cursor()
    reader.close()
    now_us = int(time.monotonic() * 1e6)
    time.sleep(1.2)  # what comes within a second of the last line may be that line, told by another clock
    kmsg.write_text(f"3,1,{now_us},-;one\n3,2,{int(time.monotonic() * 1e6)},-;two\n")
    again = read("auto", boot_id=BOOT_ID, cursor=cursor)
    again.until(lambda: bool(again.lines))
    again.drain()
    assert (again.texts, again.told("path"), again.told("instead")) == (["two"], str(kmsg), "")
