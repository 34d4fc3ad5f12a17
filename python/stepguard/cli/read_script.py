# SPDX-License-Identifier: Apache-2.0
"""`stepguard read-script`: what the archiver starts to have a script checked (archive/script_check.py).

The script comes on stdin; `{"schema":1,"findings":[…],"left_out":0}` goes to stdout, the findings as those of
`check-script --json`, the worst where there are too many. Whatever a script makes of its reader, that is nobody then,
has nothing open but these two, and ends.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import resource
import sys

import click

from stepguard import scripts
from stepguard.archive.script_check import FINDINGS_MAX
from stepguard.report.screen import write_json
from stepguard.scripts.check import Report, check
from stepguard.scripts.rules import SEVERITIES
from stepguard.scripts.telling import as_record

# The kernel's own number for a user that is none (/proc/sys/kernel/overflowuid). Not the job's owner: sites' epilogs
# kill all that a job's owner runs on the node.
_NOBODY = 65534
# Seconds of a processor, and bytes. Of the worst scripts that were thought of, a few would take longer, none half of
# the memory.
_LIMITS = (
    (resource.RLIMIT_CPU, 2, 3),
    (resource.RLIMIT_AS, 256 << 20, 256 << 20),
    (resource.RLIMIT_FSIZE, 1 << 20, 1 << 20),
    (resource.RLIMIT_CORE, 0, 0),
)


@click.command(hidden=True)
def command() -> int:
    """Check the script on stdin, as nobody."""
    _load_all()
    _confine()
    write_json(_document(check("", sys.stdin.buffer.read())))
    return 0


def _load_all() -> None:
    """What is loaded when it is first needed: nobody may not be let to where it lies, a checkout below /root."""
    for module in pkgutil.walk_packages(scripts.__path__, f"{scripts.__name__}."):
        importlib.import_module(module.name)
    check("", b"#!/bin/sh\nsrun --auto-resume=2 true\n")  # the grammar and the rules


def _confine() -> None:
    """Gives up all rights, where there are any to give up, and all but a little of what a process may take."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    for limit, soft, hard in _LIMITS:
        resource.setrlimit(limit, (soft, hard))


def _document(report: Report) -> dict[str, object]:
    worst = sorted(report.findings, key=lambda one: SEVERITIES.index(one.severity))[:FINDINGS_MAX]
    kept = [one for one in report.findings if one in worst]
    told = as_record(Report(report.file, report.parse, findings=tuple(kept)))
    return {"schema": 1, "findings": told["findings"], "left_out": len(report.findings) - len(kept)}
