# SPDX-License-Identifier: Apache-2.0
"""What comes of a strategy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Placement:
    """The nodes on which the next attempt runs, in the job's order."""

    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Requeued:
    """The job is back in the queue; this run of it is over."""


@dataclass(frozen=True)
class Failed:
    """It was tried and did not work."""

    why: str


Outcome = Placement | Requeued | Failed
