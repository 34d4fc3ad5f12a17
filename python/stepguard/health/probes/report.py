# SPDX-License-Identifier: Apache-2.0
"""From findings to a probe's report."""

from __future__ import annotations

from collections.abc import Iterable

from stepguard.health.model import Action, Finding, Judgement, Report, Status, worst
from stepguard.health.probes.files import Tree
from stepguard.health.tools.conclusion import printable

_MAX_FINDINGS = 1000
_MAX_REASON_CHARS = 500


def conclude(name: str, findings: Iterable[Finding], well: str, values: dict[str, object] | None = None) -> Report:
    """A report that is as bad as its worst finding, and names it; `well` is what it says without one."""
    found = list(findings)
    status = worst((finding.status for finding in found), of_none=Status.OK)
    reason = well if status is Status.OK else _reason([one for one in found if one.status is status])
    return Report(name, status, reason, found[:_MAX_FINDINGS], values or {})


def unknown(name: str, reason: str) -> Report:
    """A report of a probe that could not look."""
    return Report(name, Status.UNKNOWN, printable(reason, _MAX_REASON_CHARS))


def unreadable(tree: Tree) -> list[Finding]:
    """What could not be read, in one finding."""
    if not tree.errors:
        return []
    path, why = next(iter(tree.errors.items()))
    more = f", and {len(tree.errors) - 1} more" if len(tree.errors) > 1 else ""
    return [Finding(Status.UNKNOWN, "", "not-readable", Action.CHECK, f"{path}: {why}{more}")]


def of_judgement(said: Judgement, what: str) -> list[Finding]:
    """The findings of a tool's output; where no device explains the judgement, one of the whole."""
    found = [
        Finding(one.status, one.device, what, Action.CHECK, one.reason)
        for one in said.devices
        if one.status is not Status.OK
    ]
    if said.status is Status.OK or any(one.status is said.status for one in found):
        return found
    return [Finding(said.status, "", what, Action.CHECK, said.reason), *found]


def _reason(findings: list[Finding]) -> str:
    first = findings[0]
    more = f"; and {len(findings) - 1} more" if len(findings) > 1 else ""
    return printable(f"{first.device}{': ' if first.device else ''}{first.what}: {first.evidence}", 450) + more
