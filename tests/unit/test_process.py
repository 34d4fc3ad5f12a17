# SPDX-License-Identifier: Apache-2.0
"""Programs are started clean, bounded in time, and their ends are told exactly."""

from __future__ import annotations

import os
import select
import signal
import sys
import time

import pytest

from stepguard import process
from stepguard.errors import ProcessError


def test_run_returns_status_and_output_with_undecodable_bytes() -> None:
    done = process.run(
        [sys.executable, "-c", "import os; os.write(1, b'\\xff'); os.write(2, b'e'); exit(3)"], timeout_s=10
    )
    assert (done.status, done.stdout, done.stderr) == (3, "\udcff", "e")


def test_run_ends_what_takes_too_long() -> None:
    begin_s = time.monotonic()
    with pytest.raises(ProcessError, match=r"no answer within 0\.2 s: sleep"):
        process.run(["sleep", "30"], timeout_s=0.2)
    assert time.monotonic() - begin_s < 5


def test_what_was_started_answers_later_and_is_ended_with_its_context() -> None:
    with process.start(["sh", "-c", "cat; echo done"], timeout_s=10) as running:
        assert running.completed().stdout == "done\n"
    begin_s = time.monotonic()
    with pytest.raises(ValueError, match="ours"), process.start(["sleep", "30"], timeout_s=10):
        raise ValueError("ours")
    assert time.monotonic() - begin_s < 5


@pytest.mark.parametrize("start", [process.spawn, lambda argv: process.run(argv, timeout_s=1)])
def test_an_absent_program_is_named(start: object) -> None:
    assert callable(start)
    with pytest.raises(ProcessError, match="/nonexistent/program"):
        start(["/nonexistent/program"])


def test_a_spawned_program_inherits_no_blocked_or_ignored_signal() -> None:
    readable, writable = os.pipe()
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    old_handler = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        child = process.spawn(["cat", "/proc/self/status"], stdout=writable)
    finally:
        signal.signal(signal.SIGUSR1, old_handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
    os.close(writable)
    status = os.read(readable, 1 << 16).decode()
    os.close(readable)
    assert child.reap() == 0
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    assert int(masks["SigBlk"], 16) == 0
    # 32 and 33 are glibc's own; its posix_spawn leaves them ignored.
    assert int(masks["SigIgn"], 16) & 0x7FFFFFFF == 0


def test_pidfd_is_readable_at_the_end_and_the_signal_is_told() -> None:
    child = process.spawn(["sleep", "30"])
    assert child.poll() is None
    child.send_signal(signal.SIGTERM)
    assert select.select([child.pidfd], [], [], 10)[0]
    assert child.poll() == -signal.SIGTERM
    child.send_signal(signal.SIGTERM)
    assert child.poll() == -signal.SIGTERM
