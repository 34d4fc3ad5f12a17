# SPDX-License-Identifier: Apache-2.0
"""Scripts in languages that are not followed (csh, Perl, R, …): what is mentioned on which line, comments left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile

from stepguard.scripts.directives import Line
from stepguard.scripts.facts import Job, Mention, Step, Use
from stepguard.scripts.options import GUARD, parse
from stepguard.scripts.values import Field, Piece, Taint
from stepguard.scripts.variables import HOSTNAMES_ALONE, STALE, is_stale_count

_PRINTS = re.compile(r"^[\s{]*(?:(?:BEGIN|END)\s*\{\s*)?(?:echo|printf?|println|print|say|cat|puts|message|warn|die)\b")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")
_MARKS = re.compile(r"[\"'`,()\[\]]")  # around the words of a command: system("srun", "-N", "2")
_SRUN = re.compile(r"(?:^|[\s;&|/])srun(?=\s)")
_WORD = re.compile(r"[^\s;&|]+|[;&|]")
_ALLOCATOR = re.compile(r"(?:^|[\s;&|(`\"'/])(sbatch|salloc)\s")
_READS = re.compile(rf"(?P<variable>{STALE.pattern})|{HOSTNAMES_ALONE.pattern}")
_OPTION = re.compile(r"--auto-resume[= ](\S*?)(?=[\s\"',;)]|$)")


def gather(lines: Iterable[Line], job: Job) -> None:
    """Notes the mentions as facts of the job."""
    for at, code in _commands(lines):
        if not code.strip() or _PRINTS.match(code):
            continue
        _option(at, code, job)
        for found in _READS.finditer(code):
            place = _place(at, code, found.start())
            variable = found["variable"] or "SLURM_JOB_NODELIST"
            taint = Taint(place, variable, is_stale_count(variable))
            # Its way is not followed: it may be right.
            job.uses.setdefault((place, True), Use(taint, "what is made of it", place, True))


def _commands(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines without comments, and those that a backslash continues as one: each byte stays where it was."""
    begun, before = -1, ""
    for at, text in lines:
        code = _COMMENT.sub(lambda found: " " * len(found[0].encode("utf-8", "surrogateescape")), text)
        begun, code = (at, code) if begun < 0 else (begun, f"{before} {code}")
        if code.rstrip("\r").endswith("\\"):
            before = code.replace("\\", " ")
        else:
            yield begun, code
            begun = -1
    if begun >= 0:
        yield begun, before


def _place(at: int, code: str, position: int) -> int:
    return at + len(code[:position].encode("utf-8", "surrogateescape"))


def _option(at: int, code: str, job: Job) -> None:
    option = _OPTION.search(code)
    if option is None:
        return
    place = _place(at, code, option.start())
    command = _MARKS.sub(" ", code)
    step = _SRUN.search(command)
    allocator = _ALLOCATOR.search(command)
    if step is not None and _has_guard(command[step.end() :]):
        start = _place(at, code, step.end() - len("srun"))
        job.steps[start] = Step(start, option[1] or "(none)", False, place, (), {}, (), False, "", False)
        job.starts_step = True
    elif step is not None:
        job.mentions[place] = Mention(place, "program" if option[1] == "1" else "argument", option[1])
    elif allocator is not None:
        job.mentions[place] = Mention(place, allocator[1], option[1])


def _has_guard(behind: str) -> bool:
    """Whether the option stands among those of srun, whose words these are."""
    words = takewhile(lambda word: word[0] not in ";&|", _WORD.finditer(behind))
    return parse([Field((Piece(word[0], word.start()),)) for word in words]).has(GUARD)
