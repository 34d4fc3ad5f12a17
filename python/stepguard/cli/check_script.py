# SPDX-License-Identifier: Apache-2.0
"""`stepguard check-script`: what somebody who knows Slurm would say about a job script.

Exit status: 0 nothing to change, 1 findings (errors or warnings), 2 no findings, but a file that could not be read, or
not wholly.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import FileIO
from pathlib import Path

import click

from stepguard.cli.check_files import CLEAN, UNREADABLE, check_files, show
from stepguard.cli.output import tell
from stepguard.errors import UsageError
from stepguard.report import screen
from stepguard.scripts.opening import read
from stepguard.scripts.rules import by_id, rules
from stepguard.scripts.telling import explained


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
    if fix and (form or with_info):
        raise UsageError("--fix prints a diff", f"--{form or 'info'}", "give only one of both")
    if write and "-" in files:
        raise UsageError("--write to the standard input", "-", "name a file, or take the diff without --write")
    if fix:
        return _fix(files, write)
    return check_files(files, form, with_info)


def _explain(name: str) -> int:
    if name == "all":
        show(f"{rule.id}  {rule.kind:<22}  {rule.title}" for rule in rules().values())
        return CLEAN
    asked = by_id(name)
    if asked is None:
        raise UsageError("no such rule", name, "one of " + ", ".join(rule.id for rule in rules().values()))
    show(explained(asked))
    return CLEAN


def _fix(files: Sequence[str], write: bool) -> int:
    from stepguard.scripts.fixing import difference, fixed

    failed = False
    for name in files:
        try:
            before = read(name)
            after = fixed(name, before)
            if write and after != before:
                _replace(Path(name), before, after)
            changes = difference(name, before, after)
            if screen.stdout_screen().is_terminal:
                show(changes.splitlines())
            else:  # for patch(1), to the byte
                screen.write([changes.encode("utf-8", "surrogateescape")])
        except OSError as error:
            tell(f"cannot be read or written: {name}: {error.strerror or error}")
            failed = True
    return UNREADABLE if failed else CLEAN


def _replace(path: Path, before: bytes, after: bytes) -> None:
    """Writes the file anew in its place, so that links and modes stay. Where there is no room it stays what it was."""
    with path.open("r+b", buffering=0) as file:
        try:
            _write(file, after)
        except OSError:
            _write(file, before)
            raise


def _write(file: FileIO, data: bytes) -> None:
    file.seek(0)
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
    file.truncate()
