# SPDX-License-Identifier: Apache-2.0
"""What sbatch tells of a job script before it submits it. Called only where the script mentions --auto-resume and the
job's nodes (spank/mentions.c), in a process of its own that sbatch waits for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from stepguard.scripts.check import check
from stepguard.scripts.rules import Finding
from stepguard.scripts.telling import printable

# What is read within half a second; more than that is data, and left to check-script.
_MAX_BYTES = 64 * 1024
_MAX_LINES = 8  # of findings; one says how many more there are, and one of sbatch's how to go on
_MAX_CHARS = 300


def told(path: str, size_bytes: int) -> str:
    """Errors and warnings, a line each, and how many more there are; "" where nothing should be changed.

    The text takes less than `size_bytes` in UTF-8. Raises OSError when the script cannot be read.
    """
    with Path(path).open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        return ""
    findings = [finding for finding in check(path, data).findings if finding.severity != "info"]
    name = printable(path, _MAX_CHARS)
    lines = list(_lines(name, findings[:_MAX_LINES]))
    while lines:
        left = len(findings) - len(lines)
        more = f"stepguard: … and {left} more: stepguard check-script {printable(shlex.quote(path), _MAX_CHARS)}"
        text = "\n".join([*lines, more] if left else lines)
        if len(text.encode()) < size_bytes:
            return text
        lines.pop()
    return ""


def _lines(name: str, findings: Sequence[Finding]) -> Iterator[str]:
    """A line each; what to write instead only where that was not told before."""
    known: set[str] = set()
    for finding in findings:
        said = f"{finding.severity} {finding.rule.id}: {finding.message}"
        if finding.fix not in known:
            said += f": fix: {finding.fix}"
            known.add(finding.fix)
        yield f"stepguard: {name}:{finding.line}: {printable(said, _MAX_CHARS)}"
