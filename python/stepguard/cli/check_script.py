# SPDX-License-Identifier: Apache-2.0
"""`stepguard check-script`: what somebody who knows Slurm would say about a job script.

Exit status: 0 nothing to change, 1 findings (errors or warnings), 2 no findings, but a file that could not be read, or
not wholly.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from stepguard.cli.output import tell
from stepguard.errors import UsageError, reason
from stepguard.report import screen
from stepguard.scripts.check import Report, check
from stepguard.scripts.rules import by_id, rules
from stepguard.scripts.telling import as_record, explained, told

CLEAN, FOUND, UNREADABLE = 0, 1, 2


@click.command(short_help="Read job scripts: is --auto-resume where it works, are node lists fresh?")
@click.option("--json", "form", flag_value="json", help="One JSON document.")
@click.option("--sarif", "form", flag_value="sarif", help="One SARIF 2.1.0 document, for code review tools.")
@click.option("--info", "with_info", is_flag=True, help="Also what is no fault.")
@click.option("--explain", metavar="RULE", help="Only say what a rule is about; `all` lists the rules.")
@click.option("--fix", is_flag=True, help="Print the changes that need no thought as a diff.")
@click.option("--write", is_flag=True, help="With --fix, make them.")
@click.argument("files", nargs=-1, metavar="FILE...")
def command(
    form: str | None, with_info: bool, explain: str | None, fix: bool, write: bool, files: tuple[str, ...]
) -> int:
    """Check job scripts and the programs that steps start. FILE may be -, the standard input.

    \b
    A line is left alone when it ends with
        # stepguard: ignore[RULE]
    """
    if explain is not None:
        return _explain(explain)
    if not files:
        raise UsageError("no file", "check-script", "name the job scripts to check")
    if write and not fix:
        raise UsageError("--write without --fix", "check-script", "give both, or neither")
    if fix:
        return _fix(files, write)
    reports, failed = _reports(files)
    if form == "json":
        screen.write_json({"schema": 1, "files": [as_record(report) for report in reports]}, indent=1)
    elif form == "sarif":
        from stepguard.scripts.sarif import document

        screen.write_json(document(reports), indent=1)
    else:
        for report in reports:
            _show(told(report, with_info))
    return _status(reports, failed)


def _reports(files: Sequence[str]) -> tuple[list[Report], bool]:
    """(What was found, whether a file could not be read)."""
    reports: list[Report] = []
    failed = False
    for name in files:
        try:
            reports.append(check(name, _read(name)))
        except OSError as error:
            tell(f"cannot be read: {name}: {reason(error)}")
            failed = True
    return reports, failed


def _read(name: str) -> bytes:
    return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()


def _status(reports: Sequence[Report], failed: bool) -> int:
    if any(report.failed for report in reports):
        return FOUND
    return UNREADABLE if failed or any(report.parse != "ok" for report in reports) else CLEAN


def _show(lines: Iterable[str]) -> None:
    page = screen.stdout_screen()
    screen.write_lines((line if page.utf8 else line.replace("→", "->").replace("…", "...") for line in lines), page)


def _explain(name: str) -> int:
    if name == "all":
        _show(f"{rule.id}  {rule.kind:<22}  {rule.title}" for rule in rules().values())
        return CLEAN
    asked = by_id(name)
    if asked is None:
        raise UsageError("no such rule", name, "one of " + ", ".join(rule.id for rule in rules().values()))
    _show(explained(asked))
    return CLEAN


def _fix(files: Sequence[str], write: bool) -> int:
    from stepguard.scripts.fixing import difference, fixed

    failed = False
    for name in files:
        try:
            before = _read(name)
            after = fixed(name, before)
            if write and after != before and name != "-":
                _replace(Path(name), after)
            changes = difference(name, before, after)
            if screen.stdout_screen().is_terminal:
                _show(changes.splitlines())
            else:  # for patch(1), to the byte
                screen.write([changes.encode("utf-8", "surrogateescape")])
        except OSError as error:
            tell(f"cannot be read or written: {name}: {reason(error)}")
            failed = True
    return UNREADABLE if failed else CLEAN


def _replace(path: Path, data: bytes) -> None:
    """Writes the file anew in its place, so that links and modes stay."""
    with path.open("r+b") as file:
        file.write(data)
        file.truncate()
