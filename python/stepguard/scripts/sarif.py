# SPDX-License-Identifier: Apache-2.0
"""Reports as SARIF 2.1.0 (OASIS), which code review tools show at the line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from stepguard import __version__
from stepguard.scripts.check import Report
from stepguard.scripts.rules import Finding, rules

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def document(reports: Sequence[Report]) -> dict[str, Any]:
    """One run over all files."""
    table = [
        {
            "id": rule.id,
            "name": rule.kind,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": rule.why},
            "help": {"text": rule.instead},
            "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        }
        for rule in rules().values()
    ]
    results = [_result(report.file, finding) for report in reports for finding in report.findings]
    driver = {"name": "stepguard check-script", "version": __version__, "rules": table}
    run: dict[str, Any] = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    if unread := [_notification(report) for report in reports if report.error]:
        run["invocations"] = [{"executionSuccessful": False, "toolExecutionNotifications": unread}]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _notification(report: Report) -> dict[str, object]:
    place = {"artifactLocation": {"uri": quote(report.file, errors="surrogateescape")}}
    return {
        "level": "error",
        "message": {"text": f"cannot be read: {report.error}"},
        "locations": [{"physicalLocation": place}],
    }


def _result(name: str, finding: Finding) -> dict[str, object]:
    place = {
        "artifactLocation": {"uri": quote(name, errors="surrogateescape")},
        "region": {"startLine": finding.line, "startColumn": finding.column},
    }
    return {
        "ruleId": finding.rule.id,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}. Instead: {finding.fix}"},
        "locations": [{"physicalLocation": place}],
    }
