# SPDX-License-Identifier: Apache-2.0
"""What comes of a strategy."""

from __future__ import annotations

from typing import NamedTuple


class Placement(NamedTuple):
    """The nodes on which the next attempt runs, in the job's order; `proven` are new ones that have the plugin."""

    nodes: tuple[str, ...]
    proven: tuple[str, ...] = ()


class Requeued(NamedTuple):
    """The job is back in the queue; this run of it is over."""


class Failed(NamedTuple):
    """It was tried and did not work."""

    why: str


Outcome = Placement | Requeued | Failed
