# SPDX-License-Identifier: Apache-2.0
"""Tables and labelled values fit the terminal that they are for."""

from __future__ import annotations

import pytest

from stepguard.report.layout import labelled, section, table
from stepguard.report.screen import Emphasized, Screen, columns, fitted

HEADER = ("JOB", "NAME", "EMPTY", "STATE")
ROWS = [("12", "train-" + "x" * 60, "", "running"), ("1234", "\u6f22\u5b57", "", "failed")]


def test_a_table_without_a_terminal_is_as_wide_as_it_needs() -> None:
    lines = list(table(HEADER, ROWS, Screen()))
    assert lines[0].split() == ["JOB", "NAME", "STATE"]
    assert lines[1] == f"12    {'train-' + 'x' * 60}  running"
    assert lines[2].index("failed") == lines[1].index("running") - 2  # two characters of two columns


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_table_fits(width: int) -> None:
    lines = list(table(HEADER, ROWS, Screen(width, bold=True), "  "))
    assert isinstance(lines[0], Emphasized)
    assert max(columns(line) for line in lines[1:]) <= width
    assert ("~" in lines[1]) == (width < 85)
    assert lines[1].endswith("running")


def test_values_are_wrapped_beneath_themselves() -> None:
    assert list(labelled("comment", "one two three " * 3, Screen(40))) == [
        "  comment     one two three one two",
        "              three one two three",
    ]
    assert list(labelled("comment", "", Screen())) == []
    assert next(labelled("comment", "x" * 100, Screen(40))) == "  comment     " + "x" * 26


def test_a_section_of_nothing_is_none() -> None:
    assert list(section("Findings", ["", ""], Screen())) == []
    assert list(section("Findings", ["a"], Screen())) == ["", "Findings", "a"]


def test_fitted() -> None:
    assert fitted("abcdef", 3) == "abc"
    assert fitted("\u6f22\u5b57", 3) == "\u6f22"
    assert Screen(10).clipped("0123456789") == "0123456789"
    assert Screen(10).clipped("0123456789a") == "0123456..."
    assert Screen().clipped("x" * 1000) == "x" * 1000
