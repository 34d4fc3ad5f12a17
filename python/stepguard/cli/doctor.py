# SPDX-License-Identifier: Apache-2.0
"""`stepguard doctor`: checks this installation on this host and says what to change. Read-only.

Exit status: 0 when nothing failed (warnings and what could not be found out included), 1 when something did.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from stepguard import __version__
from stepguard.agent.check import local_problems
from stepguard.archive.preparation import prepare
from stepguard.config import Config, Resume
from stepguard.doctor.examine import Examination
from stepguard.doctor.result import Level, Result
from stepguard.errors import PlacementError
from stepguard.escaping import visible
from stepguard.report.screen import stdout_screen, write_json, write_lines
from stepguard.resume.reach import answering
from stepguard.resume.validation import check_job
from stepguard.slurm.records import Job

SCHEMA = 1
_MIN_WIDTH, _MAX_WIDTH = 60, 120


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(as_json: bool) -> int:
    """Check this installation on this host, and say what to change. Changes nothing."""
    prefix = installed_prefix(Path(sys.executable).parents[1])
    results = Examination(prefix, os.environ, refusal, answering, agent_problems).run()
    if as_json:
        checks = [result.as_record() for result in results]
        write_json({"schema": SCHEMA, "stepguard": __version__, "checks": checks}, indent=1)
    else:
        width = min(max(shutil.get_terminal_size().columns, _MIN_WIDTH), _MAX_WIDTH)
        screen = stdout_screen()
        write_lines(shown(results, width, "→" if screen.utf8 else "->"), screen)
    return int(any(result.level is Level.FAIL for result in results))


def agent_problems(config: Config) -> list[str]:
    """What would keep agent and archiver from their work, as far as the archive's file system, which may hang, is not
    touched for it."""
    return [*local_problems(config), *map(str, prepare(config.archive)[1])]


def installed_prefix(python_prefix: Path) -> Path | None:
    """PREFIX, when our Python is PREFIX/venv of a `make install`; else None."""
    prefix = python_prefix.parent
    return prefix if python_prefix.name == "venv" and (prefix / "bin/stepguard").exists() else None


def refusal(job: Job, config: Resume) -> str:
    """What auto-resume says to a guarded step of this job; empty when it takes it."""
    try:
        check_job(job, config)
    except PlacementError as error:
        return str(error)
    return ""


def shown(results: Sequence[Result], width: int, arrow: str = "→") -> list[str]:
    """The results for a person: the worst first, what to do beneath, a count at the end."""
    levels = list(Level)
    names = max(len(result.check) for result in results)
    lines = []
    for result in sorted(results, key=lambda result: levels.index(result.level)):
        head = f"{result.level.value:<8}{result.check:<{names}}  "
        lines += _wrapped(result.found, head, width)
        if result.advice:
            lines += _wrapped(result.advice, " " * len(head) + f"{arrow} ", width)
    counts = Counter(result.level for result in results)
    return [*lines, "", ", ".join(f"{counts[level]} {level.value}" for level in levels if counts[level])]


def _wrapped(text: str, head: str, width: int) -> list[str]:
    indent = " " * len(head)
    return textwrap.wrap(
        visible(text),
        width,
        initial_indent=head,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
