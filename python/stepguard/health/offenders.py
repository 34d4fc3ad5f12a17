# SPDX-License-Identifier: Apache-2.0
"""Nodes on whose GPUs job after job has failed ("lemons"): each time repaired, or not found out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stepguard.config import Health


@dataclass(frozen=True)
class Failure:
    """A job that a GPU of a node has failed. `at_s` is in seconds since 1970; `gpu` its UUID, or PCI address."""

    node: str
    gpu: str
    job_id: str
    at_s: float


@dataclass(frozen=True)
class Offender:
    """A GPU that has failed several jobs, oldest first."""

    node: str
    gpu: str
    job_ids: tuple[str, ...]
    last_s: float


def offenders(failures: Iterable[Failure], config: Health, now_s: float) -> list[Offender]:
    """The GPUs that have failed `lemon_jobs` different jobs within the last `lemon_window_s`, the worst first.

    A requeued job that the same GPU fails again is one job: its program may be the one that the GPU cannot bear.
    """
    jobs: dict[tuple[str, str], dict[str, float]] = {}
    for one in failures:
        if now_s - config.lemon_window_s < one.at_s <= now_s:
            times = jobs.setdefault((one.node, one.gpu), {})
            times[one.job_id] = max(one.at_s, times.get(one.job_id, one.at_s))
    found = [
        Offender(node, gpu, tuple(sorted(times, key=lambda job: (times[job], job))), max(times.values()))
        for (node, gpu), times in jobs.items()
        if len(times) >= config.lemon_jobs
    ]
    return sorted(found, key=lambda one: (-len(one.job_ids), -one.last_s, one.node, one.gpu))


def last_choice(nodes: Sequence[str], found: Iterable[Offender]) -> list[str]:
    """The nodes as they stand, but those with an offender at the end, the worst last."""
    jobs: dict[str, int] = {}
    for one in found:
        jobs[one.node] = max(len(one.job_ids), jobs.get(one.node, 0))
    return sorted(nodes, key=lambda node: jobs.get(node, 0))
