# SPDX-License-Identifier: Apache-2.0
"""Each line of the corpus tells what stands beside it there, and no more."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from stepguard.health.catalogue import shipped
from stepguard.health.kernel import LogLine, recognize

CORPUS = Path(__file__).parents[3] / "data/health/kernel/lines.toml"
CASES: list[dict[str, Any]] = tomllib.loads(CORPUS.read_text())["case"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["text"][:60])
def test_a_line(case: dict[str, Any]) -> None:
    line = LogLine(1, None, "", "kernel", case["text"], True)
    found = [[e.source, "" if e.code is None else e.code, e.device, e.fault_class, e.action] for e in recognize(line)]
    assert found == case["events"]


@pytest.mark.parametrize("case", [case for case in CASES if case["events"]], ids=lambda case: case["text"][:60])
def test_a_site_can_name_all_that_a_line_tells(case: dict[str, Any]) -> None:
    line = LogLine(1, None, "", "kernel", case["text"], True)
    rows: dict[str, dict[str, object]] = {}
    for event in recognize(line):
        name = event.row if event.code is None else event.code
        rows.setdefault(event.source, {})[str(name)] = {"class": "storage", "action": "check"}
    found = recognize(line, shipped().with_site(rows))
    assert {(event.fault_class, event.action) for event in found} == {("storage", "check")}


def test_an_event_is_trusted_as_its_line_is() -> None:
    text = "NVRM: Xid (PCI:0000:0f:00): 79, GPU has fallen off the bus."
    trusted = [recognize(LogLine(7, 12.5, "n1", "kernel", text, is_kernel))[0] for is_kernel in (True, False)]
    assert [(event.trusted, event.line, event.at_s, event.text) for event in trusted] == [
        (True, 7, 12.5, text),
        (False, 7, 12.5, text),
    ]
