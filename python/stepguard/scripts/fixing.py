# SPDX-License-Identifier: Apache-2.0
"""Makes the changes that need no thought, and shows them.

A change is kept when the script, read anew, has less to find and nothing else, and is guarded where the change says so.
So what is found after it was found before it, and a second round changes nothing.
"""

from __future__ import annotations

import difflib
import io
from collections import Counter

from stepguard.scripts.changes import Change, changes
from stepguard.scripts.check import Report, check

_MAX_TRIES = 64  # each reads the whole script


def fixed(name: str, data: bytes) -> bytes:
    """The file with these changes; the same bytes where there are none."""
    report = check(name, data)
    tries = 0
    found = True
    while found and report.findings:
        found = False
        for change in changes(report, data):
            tries += 1
            if tries > _MAX_TRIES:
                return data
            changed = applied(data, change)
            after = check(name, changed)
            if _is_better(report, after, change):
                data, report, found = changed, after, True
                break
    return data


def applied(data: bytes, change: Change) -> bytes:
    """The bytes with all edits of the change."""
    for edit in sorted(change.edits, reverse=True):
        data = data[: edit.start] + edit.text + data[edit.end :]
    return data


def _is_better(before: Report, after: Report, change: Change) -> bool:
    guarded = len(after.guarded_steps) - len(before.guarded_steps)
    return after.parse == before.parse and _kinds(after) < _kinds(before) and guarded >= change.guards


def _kinds(report: Report) -> Counter[tuple[str, str]]:
    return Counter((finding.rule.kind, finding.severity) for finding in report.findings)


def difference(name: str, before: bytes, after: bytes) -> str:
    """What changes, as a unified diff."""
    lines = difflib.unified_diff(_lines(before), _lines(after), f"a/{name}", f"b/{name}")
    return "".join(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n" for line in lines)


def _lines(data: bytes) -> list[str]:
    """The lines as patch(1) counts them: nothing but LF ends one."""
    return list(io.StringIO(data.decode("utf-8", "surrogateescape"), newline="\n"))
