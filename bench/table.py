# SPDX-License-Identifier: Apache-2.0
"""What was measured, as rows: for people as a table, for programs as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.budgets import Budget
from bench.figures import Figure, difference, ratio

_HEAD = ("", "median [range]", "", "over base", "ratio", "budget", "")


@dataclass(frozen=True)
class Row:
    """One quantity. `base` is what the same rounds gave for what it is compared with, None where it stands alone."""

    part: str
    what: str
    unit: str
    value: Figure
    base: Figure | None = None
    budget: Budget | None = None

    @property
    def over(self) -> Figure | None:
        """What the value is over its base, round by round."""
        return None if self.base is None else difference(self.value, self.base)

    @property
    def ratio(self) -> Figure | None:
        """The value over its base, round by round."""
        return None if self.base is None else ratio(self.value, self.base)

    @property
    def met(self) -> bool | None:
        """Whether it keeps within its budget; None without one."""
        return None if self.budget is None else self.budget.met(self.value, self.over, self.ratio)

    def as_record(self) -> dict[str, Any]:
        """The row for JSON, with all samples."""
        return {
            "part": self.part,
            "what": self.what,
            "unit": self.unit,
            **_record("value", self.value),
            **_record("over_base", self.over),
            **_record("ratio", self.ratio),
            "budget": self.budget
            and {
                "limit": self.budget.limit,
                "over_base": self.budget.over_base,
                "ratio": self.budget.ratio,
                "source": self.budget.source,
            },
            "met": self.met,
        }


def _record(name: str, figure: Figure | None) -> dict[str, Any]:
    if figure is None:
        return {}
    return {name: {"median": figure.median, "min": figure.low, "max": figure.high, "samples": list(figure.samples)}}


def table(rows: Sequence[Row]) -> str:
    """All rows, part by part, in columns as wide as they need to be."""
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [_line(_HEAD, widths)]
    part = None
    for row, line in zip(rows, cells[1:], strict=True):
        if row.part != part:
            part = row.part
            lines += ["", part]
        lines.append(_line(line, widths))
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first column to the left, the others to the right."""
    first, *others = (
        cell.rjust(width) if column else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    )
    return "  ".join([f"  {first}", *others]).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    budget = row.budget
    return (
        row.what,
        shown(row.value, row.unit),
        row.unit,
        "" if row.over is None else shown(row.over, row.unit, signed=True),
        "" if row.ratio is None else shown(row.ratio, "ratio"),
        "" if budget is None else _bound(budget, row.unit),
        {None: "", True: "met", False: "MISSED"}[row.met],
    )


def _bound(budget: Budget, unit: str) -> str:
    if budget.ratio:
        return f"ratio {number(budget.limit, 'ratio')}"
    return f"{'+' if budget.over_base else ''}{number(budget.limit, unit)} {unit}"


_DIGITS = {"Ir": 0, "ms": 1, "s": 2, "MiB": 1, "ratio": 3, "%": 2, "RPCs": 0, "/s": 0, "lines": 0}


def number(value: float, unit: str, signed: bool = False) -> str:
    """A number with as many digits as its unit deserves."""
    return f"{value:{'+' if signed else ''},.{_DIGITS[unit]}f}"


def shown(figure: Figure, unit: str, signed: bool = False) -> str:
    """The median, with the range where there is more than one sample."""
    median = number(figure.median, unit, signed)
    if len(figure.samples) == 1:
        return median
    return f"{median} [{number(figure.low, unit, signed)} {number(figure.high, unit, signed)}]"
