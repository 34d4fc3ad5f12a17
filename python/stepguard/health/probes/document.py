# SPDX-License-Identifier: Apache-2.0
"""A report as JSON, and back: what a probe's child prints."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from stepguard.health.model import Action, Finding, Report, Status


def to_document(report: Report) -> dict[str, object]:
    """It shares the report's values."""
    findings = [dataclasses.asdict(finding) for finding in report.findings]
    return {**vars(report), "findings": findings}


def from_document(document: object) -> Report:
    """Raises ValueError when that is no report."""
    if not isinstance(document, dict) or not isinstance(document.get("values"), dict):
        raise ValueError("not a report")
    findings = document.get("findings")
    if not isinstance(findings, list):
        raise ValueError("a report without findings")
    return Report(
        probe=_text(document, "probe"),
        status=Status(_text(document, "status")),
        reason=_text(document, "reason"),
        findings=[to_finding(finding) for finding in findings],
        values=document["values"],
    )


def from_bytes(content: bytes) -> Report:
    """Raises ValueError when that is not the JSON of a report."""
    try:
        return from_document(json.loads(content))
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def to_finding(finding: object) -> Finding:
    """Raises ValueError when that is no finding."""
    if not isinstance(finding, dict):
        raise ValueError("a finding that is none")
    return Finding(
        status=Status(_text(finding, "status")),
        device=_text(finding, "device"),
        what=_text(finding, "what"),
        action=Action(_text(finding, "action")),
        evidence=_text(finding, "evidence"),
    )


def _text(values: Mapping[str, object], key: str) -> str:
    value = values.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is no text")
    return value
