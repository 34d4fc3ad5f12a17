# SPDX-License-Identifier: Apache-2.0
"""Times as people read and type them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from stepguard.errors import UsageError
from stepguard.report.times import duration, moment, parsed, size, zone

NOW_S = 1795000000.0  # 2026-11-18 11:06:40 UTC


@pytest.fixture(autouse=True)
def paris(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("text", "time_s"),
    [
        ("now", NOW_S),
        ("2d", NOW_S - 2 * 86400),
        ("3h", NOW_S - 3 * 3600),
        ("30m", NOW_S - 1800),
        ("1w", NOW_S - 7 * 86400),
        ("now-2days", NOW_S - 2 * 86400),
        ("now-1hour", NOW_S - 3600),
        ("today", 1794956400),  # 2026-11-17 23:00 UTC
        ("14:30", 1795008600),
        ("14:30:05", 1795008605),
        ("2026-11-01", 1793487600),
        ("2026-11-01T14:30", 1793539800),
        ("2026-11-01T14:30:05", 1793539805),
        ("2026-07-01T00:00", 1782856800),  # in summer
    ],
)
def test_parsed(text: str, time_s: float) -> None:
    assert parsed(text, "--since", NOW_S) == time_s


@pytest.mark.parametrize("text", ["", "x", "2026-13-01", "25:00", "2d3h", "-1d", "2026-11-01T", "\u0662d", "999999w "])
def test_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="--since: write 2d"):
        parsed(text, "--since", NOW_S)


def test_moment() -> None:
    assert moment(NOW_S) == "2026-11-18 12:06:40"
    assert moment(None) == ""
    assert moment(1e18) == "?"
    assert zone(NOW_S) == "UTC+01:00"
    assert zone(1782856800) == "UTC+02:00"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, ""),
        (-1, "?"),
        (0, "0.0 s"),
        (7.26, "7.3 s"),
        (60, "00:01:00"),
        (3661, "01:01:01"),
        (90061, "1-01:01:01"),
    ],
)
def test_duration(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_size() -> None:
    assert [size(number) for number in (None, 0, 1023, 1536, 5 << 30, 1 << 60)] == [
        "?",
        "0 bytes",
        "1023 bytes",
        "1.5 KiB",
        "5.0 GiB",
        "1048576.0 TiB",
    ]
