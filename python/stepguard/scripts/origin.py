# SPDX-License-Identifier: Apache-2.0
"""Where a text stands in the file: `bash -c "…"` and here-documents hold scripts whose pieces come from elsewhere."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Origin:
    """Maps byte offsets of a text to those of the file.

    `pieces` are (offset in the text, offset in what it was made of), in order; None: the text is that. `outer` says
    where that stands in its turn. Pieces that begin at `as_points` stand in one place as a whole.
    """

    def __init__(
        self,
        pieces: list[tuple[int, int]] | None = None,
        outer: Origin | None = None,
        as_points: frozenset[int] = frozenset(),
    ) -> None:
        self._starts = [start for start, _ in pieces] if pieces else []
        self._offsets = [offset for _, offset in pieces] if pieces else []
        self._outer = outer
        self._as_points = as_points

    def at(self, position: int) -> int:
        """The place in the file of the text's byte `position`."""
        if self._starts:
            index = max(bisect_right(self._starts, position) - 1, 0)
            start = self._starts[index]
            position = self._offsets[index] + (0 if start in self._as_points else position - start)
        return position if self._outer is None else self._outer.at(position)

    def cuts(self, start: int, end: int) -> list[int]:
        """The offsets between `start` and `end` where something else begins."""
        if not self._starts:
            return []
        return self._starts[bisect_right(self._starts, start) : bisect_left(self._starts, end)]
