# SPDX-License-Identifier: Apache-2.0
"""What sbatch tells of a job script before it submits it. Called only where the script mentions --auto-resume and the
job's nodes (spank/mentions.c), in a process of its own that sbatch waits for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from stepguard.scripts.check import check
from stepguard.scripts.judging import is_exclusive
from stepguard.scripts.options import parse
from stepguard.scripts.rules import Finding
from stepguard.scripts.telling import printable
from stepguard.scripts.values import Field, Piece

# What is read within half a second; more than that is data, and left to check-script.
_MAX_BYTES = 64 * 1024
_MAX_LINES = 8  # of findings; one says how many more there are, and one of sbatch's how to go on
_MAX_CHARS = 300
_SHARING = "not-exclusive"  # the partition may see to it (slurm.conf(5), OverSubscribe=EXCLUSIVE)


class Told(NamedTuple):
    """`text` is empty where nothing should be changed; `is_certain` whether anything in it should be for sure."""

    text: str
    is_certain: bool


def told(path: str, options: Sequence[str], environment: Mapping[str, str], size_bytes: int) -> Told:
    """Errors and warnings, a line each, and how many more there are.

    `options` and `environment` are sbatch's. The text takes less than `size_bytes` in UTF-8. Raises OSError when the
    script cannot be read.
    """
    with Path(path).open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        return Told("", False)
    findings = [finding for finding in check(path, data).findings if finding.severity != "info"]
    if _is_exclusive(options, environment):
        findings = [finding for finding in findings if finding.rule.kind != _SHARING]
    return Told(_text(path, findings, size_bytes), any(finding.rule.kind != _SHARING for finding in findings))


def _is_exclusive(options: Sequence[str], environment: Mapping[str, str]) -> bool:
    line = parse([Field((Piece(word, 0),)) for word in options], allocator=True)
    return is_exclusive(line) or environment.get("SBATCH_EXCLUSIVE") == "exclusive"


def _text(path: str, findings: Sequence[Finding], size_bytes: int) -> str:
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
