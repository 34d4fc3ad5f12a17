# SPDX-License-Identifier: Apache-2.0
"""Which spare is taken first."""

from __future__ import annotations

import pytest

from stepguard.resume.strategies.spare import by_preference


@pytest.mark.parametrize(
    ("offences", "order"),
    [
        ({}, ("n2", "n5", "n1", "n3", "n4")),
        ({"n1": 3}, ("n2", "n5", "n3", "n4", "n1")),
        ({"n1": 5, "n3": 3}, ("n2", "n5", "n4", "n3", "n1")),
        ({"n2": 9}, ("n2", "n5", "n1", "n3", "n4")),  # the step is on it already
    ],
)
def test_order(offences: dict[str, int], order: tuple[str, ...]) -> None:
    names = ["n1", "n2", "n3", "n4", "n5"]
    assert by_preference(names, {"n2", "n5"}, lambda name: offences.get(name, 0)) == order
