# SPDX-License-Identifier: Apache-2.0
"""Every example is read as its author expects; precision and recall are printed (pytest -s)."""

from __future__ import annotations

import pytest

from stepguard.scripts.check import Report, check
from unit.scripts.corpus import Example, examples

EXAMPLES = examples()


def _found(report: Report) -> set[tuple[str, str, int]]:
    return {(finding.rule.kind, finding.severity, finding.line) for finding in report.findings}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.path.name)
def test_example(example: Example) -> None:
    report = check(example.path.name, example.path.read_bytes())
    assert _found(report) == example.findings, example.about
    assert [tuple(step) for step in report.guarded_steps] == example.steps, example.about
    assert report.parse == example.parse, example.about


def test_precision_and_recall() -> None:
    right = wrong = missed = 0
    for example in EXAMPLES:
        found = _found(check(example.path.name, example.path.read_bytes()))
        right += len(found & example.findings)
        wrong += len(found - example.findings)
        missed += len(example.findings - found)
    precision, recall = right / (right + wrong), right / (right + missed)
    print(f"\n{len(EXAMPLES)} scripts, {right} findings: precision {precision:.3f}, recall {recall:.3f}")
    assert len(EXAMPLES) >= 120
    assert precision >= 0.98
    assert recall >= 0.98
