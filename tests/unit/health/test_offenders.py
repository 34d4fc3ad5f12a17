# SPDX-License-Identifier: Apache-2.0
"""Which GPUs have failed job after job."""

from __future__ import annotations

import pytest

from stepguard.config import Health
from stepguard.health.offenders import Failure, Offender, offenders

NOW, DAY = 10_000_000.0, 86_400.0
RULES = Health(lemon_jobs=3, lemon_window_s=7 * DAY)


def failures(gpu: str, *jobs: tuple[str, float]) -> list[Failure]:
    """Jobs, and how many days ago they failed."""
    return [Failure(gpu, job_id, NOW - days * DAY) for job_id, days in jobs]


@pytest.mark.parametrize(
    ("jobs", "is_one"),
    [
        ([("1", 1), ("2", 2), ("3", 3)], True),
        ([("1", 1), ("2", 2)], False),
        ([("1", 1), ("1", 2), ("1", 3), ("2", 3)], False),
        ([("1", 1), ("2", 2), ("3", 8)], False),
        ([("1", 1), ("2", 2), ("3", -1)], False),
        ([("1", 9), ("1", 1), ("2", 2), ("3", 3)], True),
    ],
)
def test_a_gpu_that_failed_several_jobs_within_the_window(jobs: list[tuple[str, float]], is_one: bool) -> None:
    assert bool(offenders(failures("GPU-1", *jobs), RULES, NOW)) is is_one


def test_it_is_the_gpu_and_not_the_node_that_offends() -> None:
    spread = failures("GPU-1", ("1", 1), ("2", 2)) + failures("GPU-2", ("3", 1), ("4", 2))
    assert offenders(spread, RULES, NOW) == []


def test_the_worst_is_first_with_its_jobs_in_order() -> None:
    told = failures("GPU-1", ("7", 1), ("5", 3), ("6", 2))
    told += failures("GPU-9", ("1", 4), ("2", 3), ("3", 2), ("4", 1))
    assert offenders(told, RULES, NOW) == [
        Offender("GPU-9", ("1", "2", "3", "4"), NOW - DAY),
        Offender("GPU-1", ("5", "6", "7"), NOW - DAY),
    ]
    assert offenders(reversed(told), RULES, NOW) == offenders(told, RULES, NOW)
