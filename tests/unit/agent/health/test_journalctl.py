# SPDX-License-Identifier: Apache-2.0
"""The journalctl that the agent keeps, and programs in its place that misbehave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepguard.agent.health.kernel_log import journald, kernel_log
from unit.agent.agent_process import BOOT_ID
from unit.agent.log_reader import Read, Reader


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a shell script in journalctl's place; what it was started with is in the file that is returned."""

    def make(script: str) -> Path:
        told = tmp_path / "argv"
        path = tmp_path / "bin/journalctl"
        path.parent.mkdir(exist_ok=True)
        told.touch()
        path.write_text(f'#!/bin/bash\necho "$$ $*" >>{told}\n{script}\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
        return told

    return make


def entry(number: int, message: object = None, **more: str) -> str:
    fields = {
        "__CURSOR": f"s=1;i={number:x};m={number:x}",
        "__MONOTONIC_TIMESTAMP": str(number),
        "_TRANSPORT": "kernel",
        "SYSLOG_FACILITY": "0",
        "PRIORITY": "3",
        "MESSAGE": f"line {number}" if message is None else message,
        **more,
    }
    return json.dumps(fields)


def says(*entries: str, then: str = "exec sleep 60") -> str:
    """A journalctl that says this."""
    lines = "\n".join(entries)
    return f"cat <<'EOF'\n{lines}\nEOF\n{then}"


def journal(read: Read, cursor: dict[str, Any] | None = None) -> Reader:
    return read("journald", cursor=cursor, boot_id=BOOT_ID)


def pid_of(reader: Reader) -> int:
    return int(reader.told("pid"))


def test_how_it_is_asked(program: Callable[[str], Path], read: Read) -> None:
    told = program(says(entry(5)))
    reader = journal(read)
    reader.until(lambda: bool(reader.lines))
    cursor = reader.log.cursor()
    reader.close()
    again = journal(read, cursor)
    again.until(lambda: len(told.read_text().splitlines()) == 2)
    first, second = (line.split()[1:] for line in told.read_text().splitlines())
    assert {"--follow", "--no-tail", "--output=json", "_TRANSPORT=kernel"} < set(first)
    assert f"_BOOT_ID={BOOT_ID.replace('-', '')}" in first
    assert set(second) - set(first) == {"--cursor=s=1;i=5;m=5"}


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ([78, 86, 255], "NV\ufffd"),
        (None, "line 7"),
        (["one", "two"], "one"),
        ([1, "x", 999], "x"),
        ({"a": 1}, ""),
        (7, ""),
        ("\\x41 is no escape here", "\\x41 is no escape here"),
    ],
)
def test_messages_of_all_kinds(program: Callable[[str], Path], read: Read, message: object, text: str) -> None:
    program(says(entry(7, message)))
    reader = journal(read)
    reader.until(lambda: bool(reader.lines))
    assert (reader.texts, reader.told("garbage")) == ([text], 0)


def test_garbage_is_passed_over(program: Callable[[str], Path], read: Read) -> None:
    nested = '{"a":' * 5000
    garbage = ["x", "[]", "{}", "null", '{"__CURSOR": 7}', entry(1, __CURSOR="--file=/etc/shadow"), nested]
    garbage += [entry(1, __MONOTONIC_TIMESTAMP="9" * 400), entry(1, __MONOTONIC_TIMESTAMP="-1"), "\u00b2"]
    huge = entry(3, "x" * (1 << 20))
    program(says(*garbage, entry(2), huge, entry(4, _TRANSPORT="syslog"), entry(5, PRIORITY="x")))
    reader = journal(read)
    reader.until(lambda: len(reader.lines) == 2)
    assert (reader.texts, reader.told("garbage")) == (["line 2", "line 5"], len(garbage) + 1)


@pytest.mark.parametrize("cursor", [{"heard_us": 1 << 60}, {"heard_us": "x"}, {"mark": None}, {"heard_us": []}])
def test_a_place_that_is_none(read: Read, cursor: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        journal(read, {"boot_id": BOOT_ID, "path": "journald", **cursor})


@pytest.mark.parametrize("cursor", [{"cursor": "--file=/etc/shadow"}, {"cursor": 7}, {"cursor": "x" * 4000}])
def test_a_cursor_that_is_none_is_not_given_on(
    program: Callable[[str], Path], read: Read, cursor: dict[str, Any]
) -> None:
    told = program(says(entry(9)))
    reader = journal(read, {"boot_id": BOOT_ID, "path": "journald", "heard_us": 5, "mark": 1, **cursor})
    reader.until(lambda: bool(reader.lines))
    assert "--file" not in told.read_text() and "--cursor" not in told.read_text()


def test_without_a_line_of_this_boot_nobody_is_well(
    program: Callable[[str], Path], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for a moment; it is told after a while, and asked anew after a longer one."""
    monkeypatch.setattr(journald, "_ANSWER_S", 0.3)
    monkeypatch.setattr(journald, "_GIVE_UP_S", 1.2)
    program("exec sleep 60")
    reader = journal(read)
    reader.turn()
    assert (reader.fails, reader.told("why")) == (["it has told no line yet"], "it has told no line yet")
    reader.until(lambda: len(reader.fails) == 2)
    assert reader.fails[1] == "in 0 s it has told no line of this boot's kernel"
    assert f"the kernel's log cannot be read yet: {reader.fails[1]}" in reader.said()
    reader.until(lambda: len(reader.fails) == 3)
    assert reader.fails[2] == "it has no line of this boot's kernel"
    assert not Path(f"/proc/{reader.told('pid')}").exists()


def test_one_that_reads_a_slow_disk_is_heard(
    program: Callable[[str], Path], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journald, "_ANSWER_S", 0.2)
    told = program(f"sleep 0.6\n{says(entry(1))}")
    reader = journal(read)
    reader.until(lambda: bool(reader.lines))
    assert (reader.fails[-1], len(told.read_text().splitlines())) == ("", 1)


def test_one_that_was_killed_is_no_zombie(program: Callable[[str], Path], read: Read) -> None:
    program(says(entry(1)))
    reader = journal(read)
    reader.until(lambda: bool(reader.lines))
    pid = pid_of(reader)
    reader.log.stop()
    assert not Path(f"/proc/{pid}").exists()


def test_one_that_ends_is_started_again(
    program: Callable[[str], Path], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it said is told once."""
    monkeypatch.setattr(kernel_log, "RETRY_S", 0.2)
    told = program("echo 'No journal files were found.' >&2; exit 1")
    reader = journal(read)
    reader.until(lambda: len(told.read_text().splitlines()) > 3)
    assert reader.fails[1] == "journalctl has ended with status 1: No journal files were found."
    said = reader.said()
    assert (said.count("journalctl says: No journal"), said.count("cannot be read")) == (1, 1)
    program(says(entry(1)))
    reader.until(lambda: bool(reader.lines))
    assert reader.fails[-1] == "" and "is read again: journald" in reader.said()


def test_one_that_has_been_heard_for_long_is_started_at_once(
    program: Callable[[str], Path], read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_log, "_SOON_S", 0.05)
    program(says(entry(1)))
    reader = journal(read)
    reader.until(lambda: bool(reader.lines))
    monkeypatch.setattr(kernel_log, "RETRY_S", 0.0)
    program(says(entry(1), entry(2)))
    os.kill(pid_of(reader), signal.SIGKILL)
    reader.until(lambda: len(reader.lines) == 2)
    assert (reader.texts, reader.fails[1:]) == (["line 1", "line 2"], ["", ""])


@pytest.mark.parametrize("is_there", [True, False])
def test_one_that_hangs_is_ended(
    program: Callable[[str], Path], read: Read, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    monkeypatch.setattr(journald, "_CHECK_S", 0.2)
    program(says(entry(1)))
    reader = journal(read)
    reader.until(lambda: bool(reader.lines))
    reader.drain()
    pid = pid_of(reader)
    assert reader.fails[-1] == "", "one that waits for lines does not hang"
    os.kill(pid, signal.SIGSTOP)
    reader.until(lambda: reader.fails[-1] != "")
    assert reader.fails[-1] == f"journalctl hangs (pid {pid}, state T)"


@pytest.mark.parametrize("missing", ["journalctl", "setpriv"])
def test_a_program_that_is_missing(
    program: Callable[[str], Path], read: Read, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    program("exit")
    monkeypatch.setenv("PATH", str(tmp_path if missing == "journalctl" else tmp_path / "bin"))
    reader = journal(read)
    reader.until(lambda: bool(reader.fails))
    assert reader.fails[0] == f"{missing} is not installed"


def test_it_dies_with_the_agent(program: Callable[[str], Path], read: Read, tmp_path: Path) -> None:
    """Killed, with SIGKILL."""
    told = program("exec sleep 60 >&- 2>&-")  # one that would not notice
    agent = (
        "import selectors, time; from stepguard.agent.log import Log; from stepguard.config import Health\n"
        "from stepguard.agent.health.kernel_log import KernelLog\n"
        "log = KernelLog(Health(kernel_log='journald'), 'b', selectors.DefaultSelector(), Log(), print, print, {})\n"
        "log.turn(); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", agent]) as process:
        end_s = time.monotonic() + 20
        while not told.exists() or not told.read_text().strip():
            assert time.monotonic() < end_s
            time.sleep(0.02)
        process.kill()
    pid = int(told.read_text().split()[0])
    while Path(f"/proc/{pid}").exists() and ") Z " not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def test_a_thousand_lines_a_second(program: Callable[[str], Path], read: Read) -> None:
    program(says(*(entry(number) for number in range(1, 50_001))))
    reader = journal(read)
    cpu_s = time.process_time()
    reader.until(lambda: len(reader.lines) == 50_000)
    assert time.process_time() - cpu_s < 10  # 0.6 s where nothing else runs
    assert max(reader.batches) < 2000


def test_nothing_wakes_it_where_nothing_happens(program: Callable[[str], Path], read: Read) -> None:
    program(says(entry(1)))
    reader = journal(read)
    reader.until(lambda: bool(reader.lines))
    reader.drain()
    assert reader.log.due_s > time.monotonic() + 30
