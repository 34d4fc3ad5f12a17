# SPDX-License-Identifier: Apache-2.0
"""Changes that need no thought: the option leaves an #SBATCH line, a late directive moves up, a bad value becomes 1.

All else is left to a person: where a node list should come from depends on what it is for.
"""

from __future__ import annotations

import difflib
import re

from stepguard.scripts.check import check

_OPTION_ON_DIRECTIVE = re.compile(r"\s+--auto-r\w*(?:-\w+)?(?:=\S*|[ \t]+[01](?=\s|$))?")
_BAD_VALUE = re.compile(r"(--auto-resume)=(?:true|yes|on|enable[d]?|TRUE|True|Yes|[2-9]\d*)?(?=[\s\"')]|$)")
_EMPTY_DIRECTIVE = re.compile(r"#SBATCH\s*(?:#.*)?")


def fixed(name: str, data: bytes) -> bytes:
    """The file with these changes; the same bytes where there are none."""
    report = check(name, data)
    lines = data.decode("utf-8", "surrogateescape").splitlines(keepends=True)
    late: list[int] = []
    for finding in report.findings:
        index = finding.line - 1
        if index >= len(lines):
            continue
        if finding.rule.kind == "misplaced-auto-resume" and lines[index].startswith("#SBATCH"):
            lines[index] = _without_option(lines[index])
        elif finding.rule.kind == "bad-auto-resume-value":
            lines[index] = _BAD_VALUE.sub(r"\1=1", lines[index], count=1)
        elif finding.rule.kind == "late-directive":
            late.append(index)
        elif finding.rule.kind == "not-exclusive" and report.guarded_steps:
            late.append(-1)
    return "".join(_moved(lines, late)).encode("utf-8", "surrogateescape")


def _without_option(line: str) -> str:
    rest = _OPTION_ON_DIRECTIVE.sub("", line.rstrip("\r\n"), count=1)
    ending = line[len(line.rstrip("\r\n")) :]
    return "" if _EMPTY_DIRECTIVE.fullmatch(rest) else rest + ending


def _moved(lines: list[str], late: list[int]) -> list[str]:
    """The late directives behind the last one that sbatch reads; -1 stands for a new --exclusive."""
    if not late:
        return lines
    place = 1 if lines and lines[0].startswith("#!") else 0
    for index, line in enumerate(lines):
        if line.startswith("#SBATCH") and index not in late:
            place = index + 1
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    moved = [lines[index] for index in late if index >= 0]
    if -1 in late and not any("--exclusive" in line for line in moved):
        ending = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
        moved.append(f"#SBATCH --exclusive{ending}")
    moved = [line if line.endswith("\n") else line + "\n" for line in moved]
    head = [line for index, line in enumerate(lines[:place]) if index not in late]
    tail = [line for index, line in enumerate(lines[place:], place) if index not in late]
    return [*head, *moved, *tail]


def difference(name: str, before: bytes, after: bytes) -> str:
    """What changes, as a unified diff."""
    one, other = (text.decode("utf-8", "surrogateescape").splitlines(keepends=True) for text in (before, after))
    lines = difflib.unified_diff(one, other, f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)
