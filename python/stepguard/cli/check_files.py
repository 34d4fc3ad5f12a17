# SPDX-License-Identifier: Apache-2.0
"""What `stepguard check-script` does with files. Without click, which would take as long as a script does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stepguard.cli.output import tell
from stepguard.report import screen
from stepguard.scripts.check import Report, check
from stepguard.scripts.opening import read
from stepguard.scripts.telling import as_record, told

CLEAN, FOUND, UNREADABLE = 0, 1, 2
_FORMS = {"--json": "json", "--sarif": "sarif"}
_INFO = "--info"


def main(words: Sequence[str]) -> int | None:
    """Runs the verb; the exit status, or None where click is to read the words: all but files and their reports."""
    files = [word for word in words if word == "-" or not word.startswith("-")]
    options = [word for word in words if word not in files]
    if not files or not all(option in _FORMS or option == _INFO for option in options):
        return None
    forms = [_FORMS[option] for option in options if option in _FORMS]
    try:
        return check_files(files, forms[-1] if forms else None, _INFO in options)
    except KeyboardInterrupt:
        return 130


def check_files(files: Sequence[str], form: str | None, with_info: bool) -> int:
    """Checks them and prints the reports, as json, sarif or (None) for a person; the exit status."""
    reports = [_report(name) for name in files]
    if form == "json":
        screen.write_json({"schema": 1, "files": [as_record(report) for report in reports]}, indent=1)
    elif form == "sarif":
        from stepguard.scripts.sarif import document

        screen.write_json(document(reports), indent=1)
    else:
        for report in reports:
            if not report.error:
                show(told(report, with_info))
    if any(report.failed for report in reports):
        return FOUND
    return UNREADABLE if any(report.parse != "ok" for report in reports) else CLEAN


def _report(name: str) -> Report:
    """What was found in a file; why it could not be read is told at once."""
    try:
        return check(name, read(name))
    except OSError as error:
        said = error.strerror or str(error)
        tell(f"cannot be read: {name}: {said}")
        return Report(name, "not-a-script", error=said)


def show(lines: Iterable[str]) -> None:
    """Prints lines for a person, in ASCII where the locale knows nothing else."""
    page = screen.stdout_screen()
    screen.write_lines((line if page.utf8 else line.replace("→", "->").replace("…", "...") for line in lines), page)
