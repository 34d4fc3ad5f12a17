# SPDX-License-Identifier: Apache-2.0
"""Changes to a script that need no thought, as edits of its bytes; fixing.py tries them.

The option leaves an #SBATCH line for the job's sruns, and a program's arguments for its srun; a bad value becomes 0 or
1; a job with guarded steps gets --exclusive. All else is left to a person: where a node list should come from depends
on what it is for, and a late directive, moved up, asks for something that the job never had.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from stepguard.scripts.check import Report, jobs_of
from stepguard.scripts.directives import options_of
from stepguard.scripts.facts import Job, Mention, Step
from stepguard.scripts.options import GUARD
from stepguard.scripts.source import BOM, Source, source
from stepguard.scripts.values import text_of

_YES = re.compile(r"|1|[2-9]\d*|y|yes|true|on|enabled?|always", re.IGNORECASE)
_NO = re.compile(r"0|n|no|false|off|disabled?|never", re.IGNORECASE)
# The words before srun that start it (timeout 3h, exec, A=b), and srun itself.
_SRUN = re.compile(rb"""(?:[^\s#;&|()<>"'`]+[ \t]+){0,8}?(?:[\w.~$/{}-]*/)?srun(?=[ \t\r\n\\])""")
_NAME = rb"""["']?--au[a-z-]*["']?"""
_ON_DIRECTIVE = re.compile(rb"[ \t]+--au[a-z-]*(?:=\S*|[ \t]+[01](?=\s|$))?(?=\s|$)")
_ARGUMENT = re.compile(rb"""(?P<quote>["']?)--au[a-z-]*=\w*(?P=quote)(?=[\s)]|$)""")
_BEHIND_EQUALS = re.compile(_NAME + rb"""=["']?(?P<value>\w*)(?=["'\s)]|$)""")
_BEHIND_BLANK = re.compile(_NAME + rb"[ \t]+(?P<value>\w+)(?=\s|$)")
_BARE = re.compile(_NAME + rb"(?=\s|$)")
_BLANKS_BEFORE = re.compile(rb"(?:[ \t]|\\\r?\n)+$")
_MAX_BLANKS = 1024
_EMPTY_DIRECTIVE = re.compile(rb"[ \t]*#SBATCH[ \t]*(?:#.*)?\r?\n?")


class Edit(NamedTuple):
    """The bytes from `start` to `end` become `text`."""

    start: int
    end: int
    text: bytes = b""


class Change(NamedTuple):
    """Edits that belong together. On so many lines more than before there is a guarded step then."""

    edits: tuple[Edit, ...]
    guards: int = 0


class _Script(NamedTuple):
    """A file's bytes, and its places in what is read of them: without a byte order mark and the CR of each line."""

    data: bytes
    shift: int
    returns: list[int]

    @classmethod
    def of(cls, data: bytes) -> _Script:
        shift = len(data) - len(data.removeprefix(BOM))
        returns = [found.start() - shift - index for index, found in enumerate(re.finditer(rb"\r\n", data))]
        return cls(data, shift, returns)

    def at(self, place: int) -> int:
        """The offset in the bytes of a place in what is read."""
        return place + self.shift + bisect_left(self.returns, place)

    def line(self, at: int) -> tuple[int, int]:
        """Where the line around the offset begins and ends, its end included."""
        end = self.data.find(b"\n", at) + 1
        return max(self.data.rfind(b"\n", 0, at) + 1, self.shift), end or len(self.data)


def changes(report: Report, data: bytes) -> Iterator[Change]:
    """What may be changed in the bytes that the report is of. Whether it mends anything, a new report tells."""
    text = source(report.file, data)
    script = _Script.of(data)
    kinds = {finding.rule.kind for finding in report.findings}
    for job in jobs_of(text).jobs:
        if "bad-auto-resume-value" in kinds:
            yield from _values(script, job)
        if "misplaced-auto-resume" in kinds and _is_followed(report, text):
            yield from _arguments(script, job)
            yield from _directives(script, job)
        if "not-exclusive" in kinds:
            yield from _exclusive(script, job)


def _is_followed(report: Report, text: Source) -> bool:
    """Whether all steps of the file are known."""
    return report.parse == "ok" and text.language == "shell"


def _meant(value: str) -> str:
    """The switch that a value means: 0, 1, or "" when it is not clear."""
    return "1" if _YES.fullmatch(value) else "0" if _NO.fullmatch(value) else ""


# -- values -----------------------------------------------------------------------------------------------------------


def _values(script: _Script, job: Job) -> Iterator[Change]:
    for step in job.steps.values():
        if step.guard in ("", "0", "1", "?"):
            continue
        at = script.at(step.option_at)
        if at and script.data[at - 1 : at] in (b'"', b"'"):
            at -= 1
        edit = _value(script.data, at, step)
        if edit is not None:
            yield Change((edit,))


def _value(data: bytes, at: int, step: Step) -> Edit | None:
    found = _BEHIND_EQUALS.match(data, at)
    if found is not None:
        meant = _meant(found["value"].decode())
        return Edit(*found.span("value"), meant.encode()) if meant else None
    found = _BEHIND_BLANK.match(data, at)
    # The word behind the option is a value only where a program is left without it: true and yes are programs, too.
    meant = _meant(found["value"].decode()) if found is not None and step.program else ""
    if found is not None and meant:
        return Edit(found.start("value") - 1, found.end("value"), b"=" + meant.encode())
    bare = _BARE.match(data, at)
    return Edit(bare.end(), bare.end(), b"=1") if bare is not None else None


# -- places -----------------------------------------------------------------------------------------------------------


def _arguments(script: _Script, job: Job) -> Iterator[Change]:
    """The option leaves a program's arguments for the srun before them."""
    for mention in job.mentions.values():
        before = [step for step in job.steps.values() if step.is_misplaced and step.at < mention.at]
        if mention.place != "program" or not before:
            continue
        step = max(before, key=lambda step: step.at)
        edits = (_without_argument(script, mention), _on_srun(script, step, _meant(mention.value)))
        if step.guard == "" and None not in edits:
            yield Change(tuple(edit for edit in edits if edit is not None), int(_meant(mention.value) == "1"))


def _without_argument(script: _Script, mention: Mention) -> Edit | None:
    """Takes a word out, with the blanks before it, and with its line when nothing else is on that."""
    data = script.data
    at = script.at(mention.at)
    if at and data[at - 1 : at] in (b'"', b"'"):
        at -= 1
    found = _ARGUMENT.match(data, at)
    if found is None:
        return None
    blanks = _BLANKS_BEFORE.search(data[max(at - _MAX_BLANKS, 0) : at])
    start, end = at - (len(blanks[0]) if blanks is not None else 0), found.end()
    line_start, line_end = script.line(start)
    is_alone = start == line_start and not data[end:line_end].strip()
    return Edit(start, line_end if is_alone else end)


def _directives(script: _Script, job: Job) -> Iterator[Change]:
    """The option leaves an #SBATCH line for all sruns of the job, unless one of them says already what is meant."""
    for at, text in job.directives:
        given = next((given for given in options_of((at, text)).options if given.name == GUARD), None)
        edit = _without_option(script, script.at(at)) if given is not None else None
        if given is None or edit is None:
            continue
        meant = _meant(text_of(given.value))
        steps = list(job.steps.values())
        if meant == "0" or any(step.guard for step in steps):
            yield Change((edit,))
            continue
        placed = [_on_srun(script, step, meant) for step in steps]
        if placed and None not in placed:
            edits = [edit for edit in placed if edit is not None]
            yield Change((edit, *edits), len({script.line(edit.start) for edit in edits}))


def _without_option(script: _Script, at: int) -> Edit | None:
    """Takes the option off a directive, or the whole line when nothing is left."""
    start, end = script.line(at)
    line = script.data[start:end]
    found = _ON_DIRECTIVE.search(line)
    if found is None:
        return None
    is_empty = _EMPTY_DIRECTIVE.fullmatch(line[: found.start()] + line[found.end() :])
    return Edit(start, end) if is_empty else Edit(start + found.start(), start + found.end())


def _on_srun(script: _Script, step: Step, meant: str) -> Edit | None:
    found = _SRUN.match(script.data, script.at(step.at))
    if found is None or not meant:
        return None
    return Edit(found.end(), found.end(), b" --auto-resume=" + meant.encode())


# -- the job ----------------------------------------------------------------------------------------------------------


def _exclusive(script: _Script, job: Job) -> Iterator[Change]:
    """Adds --exclusive behind the last directive, unless a late one says it: to move that is for a person."""
    late = [script.data[slice(*script.line(script.at(at)))] for at, _ in job.late_directives]
    if not job.directives or any(b"--exclusive" in line for line in late):
        return
    start, end = script.line(script.at(job.directives[-1][0]))
    line = script.data[start:end]
    indent = line[: len(line) - len(line.lstrip(b"\t"))]
    ending = b"\r\n" if line.endswith(b"\r\n") else b"\n"
    missing = b"" if line.endswith(b"\n") else ending
    yield Change((Edit(end, end, missing + indent + b"#SBATCH --exclusive" + (b"" if missing else ending)),))
