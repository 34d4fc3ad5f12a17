# SPDX-License-Identifier: Apache-2.0
"""GPUs that have failed job after job ("lemons"): each time repaired, or not found out. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stepguard.config import Health


@dataclass(frozen=True)
class Failure:
    """A job that a GPU has failed. `at_s` is in seconds since 1970; `gpu` its UUID, or PCI address."""

    gpu: str
    job_id: str
    at_s: float


@dataclass(frozen=True)
class Offender:
    """A GPU that has failed several jobs, oldest first."""

    gpu: str
    job_ids: tuple[str, ...]
    last_s: float


def offenders(failures: Iterable[Failure], config: Health, now_s: float) -> list[Offender]:
    """The GPUs that have failed `lemon_jobs` different jobs within the last `lemon_window_s`, the worst first.

    A requeued job that the same GPU fails again is one job: its program may be the one that the GPU cannot bear.
    """
    jobs: dict[str, dict[str, float]] = {}
    for one in failures:
        if now_s - config.lemon_window_s < one.at_s <= now_s:
            times = jobs.setdefault(one.gpu, {})
            times[one.job_id] = max(one.at_s, times.get(one.job_id, one.at_s))
    found = [
        Offender(gpu, tuple(sorted(times, key=lambda job: (times[job], job))), max(times.values()))
        for gpu, times in jobs.items()
        if len(times) >= config.lemon_jobs
    ]
    return sorted(found, key=lambda one: (-len(one.job_ids), -one.last_s, one.gpu))
