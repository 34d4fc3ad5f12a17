# SPDX-License-Identifier: Apache-2.0
"""The arithmetic: samples, their median and range, and comparisons of the samples of one round with one another."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """The samples of one quantity, in the order they were taken; at least one."""

    samples: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.samples:
            raise ValueError("a figure needs a sample")

    @property
    def median(self) -> float:
        """The middle sample, or the mean of the middle two."""
        return statistics.median(self.samples)

    @property
    def low(self) -> float:
        """The smallest sample."""
        return min(self.samples)

    @property
    def high(self) -> float:
        """The largest sample."""
        return max(self.samples)


def figure(samples: Sequence[float], scale: float = 1.0) -> Figure:
    """A figure of these samples, each times `scale`. Raises ValueError when there is none."""
    return Figure(tuple(sample * scale for sample in samples))


def difference(variant: Figure, base: Figure) -> Figure:
    """Variant less base, round by round. Raises ValueError when they have not the same rounds."""
    return Figure(tuple(ours - theirs for ours, theirs in zip(variant.samples, base.samples, strict=True)))


def ratio(variant: Figure, base: Figure) -> Figure:
    """Variant over base, round by round. Raises ValueError when they have not the same rounds."""
    return Figure(tuple(ours / theirs for ours, theirs in zip(variant.samples, base.samples, strict=True)))
