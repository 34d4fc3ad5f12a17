# SPDX-License-Identifier: Apache-2.0
"""The kernel that the benchmark of a node's health plays."""

from __future__ import annotations

import itertools

from bench.health import LINES_A_XID, kernel_lines
from stepguard.health.catalogue import shipped
from stepguard.health.kernel.recognize import sightings


def test_one_line_in_so_many_is_an_xid_and_the_others_tell_nothing() -> None:
    lines = list(itertools.islice(kernel_lines(), 20 * LINES_A_XID))
    found = [[one.source for one in sightings(line, shipped())] for line in lines]
    assert found == [["xid"] if place % LINES_A_XID == 0 else [] for place in range(len(lines))]
    assert len(set(lines[:: 2 * LINES_A_XID])) == 1, "one comes again and again"
    assert len(set(lines[LINES_A_XID :: 2 * LINES_A_XID])) == 10, "the other never"
