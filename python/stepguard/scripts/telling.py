# SPDX-License-Identifier: Apache-2.0
"""Reports for people, and as records for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from stepguard.escaping import visible
from stepguard.scripts.check import Report
from stepguard.scripts.rules import Finding, Rule

_WIDTH = 100
_SHOWN_CHARS = 160
PARTS = {
    "partial": "read in part: there may be more to find",
    "not-a-script": "no script that can be read",
}


def told(report: Report, with_info: bool = False) -> Iterator[str]:
    """The report for a person; `with_info`: also what is no fault."""
    name = printable(report.file)
    shown = [finding for finding in report.findings if with_info or finding.severity != "info"]
    known: set[str] = set()
    for finding in shown:
        yield from _finding(name, finding, finding.rule.id not in known)
        known.add(finding.rule.id)
    hidden = len(report.findings) - len(shown)
    more = f" ({hidden} more with --info)" if hidden else ""
    if report.parse != "ok":
        where = f"{name}:{report.unread_line}: not understood from here on" if report.unread_line else name
        yield f"{where}: {PARTS[report.parse]}{more}"
    elif not shown:
        yield f"{name}: clean{more}"


def _finding(name: str, finding: Finding, with_why: bool) -> Iterator[str]:
    yield f"{name}:{finding.line}:{finding.column}: {finding.severity} {finding.rule.id} {printable(finding.message)}"
    yield f"    {printable(finding.text.strip())}"
    if with_why:
        yield from textwrap.wrap(finding.rule.why, _WIDTH, initial_indent="    why: ", subsequent_indent="         ")
    yield from textwrap.wrap(
        finding.fix, _WIDTH, initial_indent="    → ", subsequent_indent="      ", break_on_hyphens=False
    )
    yield ""


def explained(rule: Rule) -> Iterator[str]:
    """A rule for a person."""
    yield f"{rule.id} {rule.kind} ({rule.severity}): {rule.title}"
    yield from textwrap.wrap(rule.why, _WIDTH)
    yield from textwrap.wrap(f"→ {rule.instead}", _WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    yield f"source: {rule.source}"


def as_record(report: Report) -> dict[str, object]:
    """The report as in --json."""
    error = {"error": report.error} if report.error else {}
    return {
        "file": report.file.encode("utf-8", "backslashreplace").decode(),
        "parse": report.parse,
        "guarded_steps": [{"line": step.line, "conditional": step.conditional} for step in report.guarded_steps],
        "findings": [
            {
                "rule": finding.rule.id,
                "kind": finding.rule.kind,
                "severity": finding.severity,
                "line": finding.line,
                "column": finding.column,
                "message": printable(finding.message),
                "fix": printable(finding.fix),
            }
            for finding in report.findings
        ],
        **error,
    }


def printable(text: str, max_chars: int = _SHOWN_CHARS * 4) -> str:
    """On one line, cut when it is long, and without what a terminal would obey."""
    cut = text if len(text) <= max_chars else text[:max_chars] + "…"
    return visible(cut.replace("\t", " "))
