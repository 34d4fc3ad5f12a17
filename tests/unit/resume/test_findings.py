# SPDX-License-Identifier: Apache-2.0
"""What nodes tell, as the evidence on an attempt that began at 100 s."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stepguard.config import Resume
from stepguard.resume.findings import program_findings, standing_findings, told_findings, unwell
from stepguard.resume.pulse import Pulse
from stepguard.resume.told import Told

BEGAN_S = 100.0


def xid(code: str, action: str, fault_class: str, at_s: float, status: str = "fail") -> Told:
    return Told("agent", action, f"xid {code}", "xid", code, "0f:00", True, fault_class, status, at_s, at_s)


@pytest.fixture
def watch() -> Any:
    told = {
        "n1": [xid("48", "reset-gpu", "hardware-reset", 40), xid("79", "replace", "hardware-replace", 120)],
        "n2": [xid("13", "restart-application", "application", 50, "warn"), Told("fault-file", "check", "fans")],
        "n3": [xid("43", "restart-application", "application", 130, "warn")],
    }
    pulse = Pulse(Resume(), dict.fromkeys(told, ("127.0.0.1", 1)), 0.0, BEGAN_S)
    for name, ones in told.items():
        pulse.heard({"node": name, "told": [one.aged(200) for one in ones]}, 200)
    return SimpleNamespace(pulse=pulse)


def test_each_fault_is_of_one_kind(watch: Any) -> None:
    nodes = ("n1", "n2", "n3")
    assert [(one.node, one.code) for one in told_findings(watch, nodes)] == [("n1", "79")]
    [standing] = standing_findings(watch, nodes)
    assert (standing.node, standing.action) == ("n1", "reset-gpu")
    assert standing.text == "xid 48 (agent: reset-gpu), known before the step began"
    assert [(one.node, one.code) for one in program_findings(watch, nodes, BEGAN_S)] == [("n3", "43")]
    assert unwell(watch, nodes) == ("n1: xid 48", "n1: xid 79", "n2: fans")


def test_only_the_nodes_of_the_step_count(watch: Any) -> None:
    assert standing_findings(watch, ("n2", "n3")) == standing_findings(watch, ()) == ()
    assert unwell(watch, ("n3",)) == ()
