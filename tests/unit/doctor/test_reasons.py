# SPDX-License-Identifier: Apache-2.0
"""Reasons of nodes that almost ask for an action."""

from __future__ import annotations

import pytest

from stepguard.doctor.reasons import check_reasons
from stepguard.doctor.result import Level
from unit.health.building import node


@pytest.mark.parametrize(
    "reason", ["", "Action:Replace", "Action:Reboot : Not responding", "NHC: disk", "stepguard: replace: xid 79"]
)
def test_reasons_that_are_meant_as_they_are(reason: str) -> None:
    assert check_reasons([node(reason=reason)]).level is Level.OK


def test_near_misses_are_named_with_their_nodes() -> None:
    nodes = [node("n1", "action:replace"), node("n2", "action:replace"), node("n3", "Action: Reboot"), node("n4")]
    result = check_reasons(nodes)
    assert result.level is Level.WARN
    assert "n[1-2]: 'action:replace' is almost Action:Replace: other case of letters" in result.found
    assert "n3: 'Action: Reboot' is almost Action:Reboot: blanks in it" in result.found
    assert "stepguard node replace" in result.advice


def test_many_of_them_are_counted() -> None:
    result = check_reasons([node(f"n{number}", f"Action:Replace {number}") for number in range(9)])
    assert "and 4 more" in result.found
