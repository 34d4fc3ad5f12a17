# SPDX-License-Identifier: Apache-2.0
"""Reports as SARIF 2.1.0 (OASIS), which code review tools show at the line."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from stepguard import __version__
from stepguard.scripts.check import Report
from stepguard.scripts.rules import Finding, rules
from stepguard.scripts.telling import PARTS

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
    if unread := [_notification(report) for report in reports if report.parse != "ok"]:
        failed = any(report.error for report in reports)
        run["invocations"] = [{"executionSuccessful": not failed, "toolExecutionNotifications": unread}]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _notification(report: Report) -> dict[str, object]:
    """Why a file without results is not clean, or may have more of them."""
    place: dict[str, object] = {"artifactLocation": {"uri": _uri(report.file)}}
    if report.unread_line:
        place["region"] = {"startLine": report.unread_line}
    told = f"cannot be read: {report.error}" if report.error else PARTS[report.parse]
    return {
        "level": "error" if report.error else "warning",
        "message": {"text": told},
        "locations": [{"physicalLocation": place}],
    }


def _uri(name: str) -> str:
    """A file as SARIF names it (3.4.3, 3.10): relative to where the tool ran, without dots, or of the scheme file."""
    path = posixpath.normpath(name)
    return ("file://" if path.startswith("/") else "") + quote(path, errors="surrogateescape")


def _result(name: str, finding: Finding) -> dict[str, object]:
    place = {
        "artifactLocation": {"uri": _uri(name)},
        "region": {"startLine": finding.line, "startColumn": finding.column},
    }
    return {
        "ruleId": finding.rule.id,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}. Instead: {finding.fix}"},
        "locations": [{"physicalLocation": place}],
    }
