# SPDX-License-Identifier: Apache-2.0
"""Checks one file: what it is, what it does, what there is to say about it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import FileIO
from typing import NamedTuple

from stepguard.scripts import directives
from stepguard.scripts.facts import Job
from stepguard.scripts.judging import Judgement, is_guarded, judge
from stepguard.scripts.mentions import gather
from stepguard.scripts.origin import Origin
from stepguard.scripts.rules import SEVERITIES, Finding, rules
from stepguard.scripts.scope import Budget, Scope
from stepguard.scripts.shell import uses
from stepguard.scripts.shell.reader import NOTHING, Reading, read
from stepguard.scripts.shell.walk import Shell
from stepguard.scripts.source import Source, source

_MAX_STATEMENTS = 6000
_MAX_NESTED_BYTES = 128 * 1024
_IGNORE = re.compile(r"#\s*stepguard:\s*ignore(?:\[([\w, -]*)\])?")
_PLACE = re.compile(r"\{line:(\d+)\}")


class GuardedStep(NamedTuple):
    line: int
    conditional: bool


@dataclass(frozen=True)
class Report:
    """What was found in one file. `parse` is ok, partial (what could not be read may hold more) or not-a-script."""

    file: str
    parse: str
    guarded_steps: tuple[GuardedStep, ...] = ()
    findings: tuple[Finding, ...] = ()
    unread_line: int = 0  # the first that could not be read, 0 where it is not one line
    error: str = ""  # why the file could not be opened or read

    @property
    def failed(self) -> bool:
        """Whether anything should be changed."""
        return any(finding.severity != "info" for finding in self.findings)


def check_file(path: str) -> Report:
    """Checks a file. Raises OSError when it cannot be read."""
    with FileIO(path) as file:
        return check(path, file.readall())


def check(name: str, data: bytes) -> Report:
    """Checks the bytes of a file of that name."""
    text = source(name, data)
    if text.language == "none":
        return Report(name, "not-a-script")
    jobs, whole, is_entry, unread = jobs_of(text)
    judgements = [judgement for job in jobs for judgement in judge(job, is_entry and job is jobs[0])]
    steps = sorted(
        {
            text.place(step.at)[0]: step.conditional
            for job in jobs
            for step in sorted(job.steps.values(), key=lambda step: -step.at)
            if is_guarded(step)
        }.items()
    )
    parse = "ok" if whole and not text.cut and text.language != "other" else "partial"
    line = text.place(min(unread))[0] if unread else 0
    return Report(name, parse, tuple(GuardedStep(*step) for step in steps), _findings(text, judgements), line)


class Jobs(NamedTuple):
    """The job scripts in a file. `is_entry`: a step starts it as a program. `unread`: places that were left out."""

    jobs: list[Job]
    whole: bool
    is_entry: bool
    unread: list[int]


def jobs_of(text: Source) -> Jobs:
    """What the file does."""
    try:
        reading = read(text.data) if text.language == "shell" else NOTHING
    except RecursionError:  # what nests deeper than anybody writes
        reading = NOTHING._replace(broken_at=0)
    jobs, whole, unread = _walk(text, reading, in_step=False)
    first = jobs[0]
    is_entry = first.reads_task_variable and not first.starts_step and not first.directives and text.language != "other"
    if is_entry and len(jobs) == 1:
        jobs, whole, unread = _walk(text, reading, in_step=True)
    return Jobs(jobs, whole, is_entry, unread)


def _walk(text: Source, reading: Reading, in_step: bool) -> tuple[list[Job], bool, list[int]]:
    job = Job()
    job.directives, job.late_directives = directives.read_directives(list(directives.lines_of(text.data)))
    shell = Shell(job, Scope(), Budget(_MAX_STATEMENTS, _MAX_NESTED_BYTES), in_step)
    shell.keeps_last_stage = text.keeps_last_stage
    try:
        whole = _gather(text, reading, job, shell)
    except RecursionError:
        whole = False
    unread = [reading.broken_at] if reading.broken_at >= 0 else shell.budget.unread
    return [job, *shell.inner_jobs], whole and not shell.budget.spent, unread


def _gather(text: Source, reading: Reading, job: Job, shell: Shell) -> bool:
    """Notes what the file does; whether all of it was read."""
    whole = True
    if text.language == "shell":
        job.late_directives = _outside(job.late_directives, reading.documents)
        shell.run(reading.statements)
        shell.run_mentioned_functions(text.data)
        uses.left_files(shell)
        if not text.data.startswith(b"#!") and not job.starts_step:
            uses.environment(shell, "what sources this file", len(text.data))
        whole = reading.whole and shell.whole
    elif text.language == "other":
        gather(directives.lines_of(text.data), job)
    elif text.language == "python":
        from stepguard.scripts.python.reader import follow

        result = follow(text.data, Origin(), shell)
        shell.scope.files |= result.files
        uses.left_files(shell)
        job.late_directives = _outside(job.late_directives, result.texts)
        whole = result.whole and shell.whole
    return whole


def _outside(lines: list[directives.Line], spans: tuple[tuple[int, int], ...]) -> list[directives.Line]:
    return [line for line in lines if not any(start <= line[0] < end for start, end in spans)]


def _findings(text: Source, judgements: list[Judgement]) -> tuple[Finding, ...]:
    """One finding of a kind a line, the worst, in the order of lines; without what the line says is to be ignored."""
    kept: dict[tuple[int, str], Finding] = {}
    table = rules() if judgements else {}
    for judgement in judgements:
        line, column = text.place(judgement.at)
        shown = text.line(line)
        rule = table[judgement.kind]
        if _ignored(shown, rule.id, rule.kind):
            continue
        message = _PLACE.sub(lambda found: str(text.place(int(found[1]))[0]), judgement.message)
        finding = Finding(rule, judgement.severity, line, column, message, judgement.fix or rule.instead, shown)
        before = kept.get((line, rule.kind))
        if before is None or SEVERITIES.index(finding.severity) < SEVERITIES.index(before.severity):
            kept[line, rule.kind] = finding
    return tuple(sorted(kept.values(), key=lambda finding: (finding.line, finding.column, finding.rule.id)))


def _ignored(line: str, *names: str) -> bool:
    found = _IGNORE.search(line)
    if found is None:
        return False
    listed = [name.strip().lower() for name in (found[1] or "").split(",") if name.strip()]
    return not listed or any(name.lower() in listed for name in names)
