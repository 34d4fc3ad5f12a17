# SPDX-License-Identifier: Apache-2.0
"""Lines of a syslog daemon's file, and their times."""

from __future__ import annotations

import time

import pytest

from stepguard.agent.health.kernel_log import syslog


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Nov 30 05:00:00 n1 kernel: it", ("it", 3)),
        ("Nov  3 05:00:00 n1 kernel: [   12.345678] it", ("it", 3)),
        ("<4>Nov  3 05:00:00 n1 kernel: [12345.345678] it", ("it", 4)),
        ("Nov  3 2026 05:00:00 n1 kernel: it", ("it", 3)),
        ("Nov  3 05:00:00 n1 kernel:[12345.345678] it", ("it", 3)),
        ("Nov  3 05:00:00 n1 kernel: message repeated 3 times: [ it]", ("it", 3)),
        ("Nov  3 05:00:00 n1 kernel: message repeated 3 times: [ [   12.345678] it]", ("it", 3)),
        ("Nov  3 05:00:00 n1 alice: message repeated 3 times: [ it]", None),
        ("Nov  3 05:00:00 n1 alice:[12345.345678] it", None),
        ("Nov  3 05:00:00 n1 xkernel:[12345.345678] it", None),
        ("2026-11-30T05:00:00.123456+01:00 n1 kernel: it", ("it", 3)),
        ("2026-11-30T05:00:00Z n1 kernel: it\r", ("it", 3)),
        ("<3>1 2026-11-30T05:00:00.1Z n1 kernel - - - it", ("it", 3)),
        ("\0\0\0Nov 30 05:00:00 n1 kernel: it", ("it", 3)),
        ("Nov 30 05:00:00 n1 kern.err kernel: [   12.345678] it", ("it", 3)),
        ("Nov 30 05:00:00 n1 user.err kernel: it", None),
        ("Nov 30 05:00:00 n1 kern.err kernel[7]: it", None),
        ("<12>Nov 30 05:00:00 n1 kernel: it", None),
        ("<11>1 2026-11-30T05:00:00.1Z n1 kernel - - - it", None),
        ("Nov 30 05:00:00 n1 kernel[77]: it", None),
        ("Nov 30 05:00:00 n1 alice: kernel: it", None),
        ("Nov 30 05:00:00 n1 kernel-x: it", None),
        ("[   12.345678] kernel: it", None),
        ("kern  :err   : [   12.345678] kernel: it", None),
        ('{"MESSAGE": "it", "_TRANSPORT": "kernel"}', None),
        ("  > Nov 30 05:00:00 n1 kernel: it", None),
        ("n1: Nov 30 05:00:00 n1 kernel: it", None),
        ("6,1,1,-;kernel: it", None),
        ("kernel", None),
        ("", None),
    ],
)
def test_lines(text: str, told: tuple[str, int] | None) -> None:
    found = syslog.said(text.encode(), time.time())
    assert (None if found is None else (found.text, found.level)) == told


@pytest.mark.parametrize(
    ("now", "said", "at"),
    [
        ("2026-11-30 05:00:00", "Nov 30 04:59:59", "2026-11-30 05:00:00"),
        ("2027-01-01 00:00:10", "Dec 31 23:59:59", "2027-01-01 00:00:00"),
        ("2026-12-31 23:59:59", "Jan  1 00:00:01", "2027-01-01 00:00:02"),
        ("2026-11-30 05:00:00", "Dec  2 05:00:00", "2025-12-02 05:00:01"),
        ("2026-11-30 05:00:00", "Nov 30 2024 04:59:59", "2024-11-30 05:00:00"),
        ("2026-03-01 05:00:00", "Feb 29 05:00:00", "2026-03-01 05:00:01"),
    ],
)
def test_times_without_a_year(now: str, said: str, at: str) -> None:
    now_s, at_s = (time.mktime(time.strptime(one, "%Y-%m-%d %H:%M:%S")) for one in (now, at))
    found = syslog.said(f"{said} n1 kernel: it".encode(), now_s)
    assert found is not None and found.at_s == at_s
