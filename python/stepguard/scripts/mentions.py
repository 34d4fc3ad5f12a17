# SPDX-License-Identifier: Apache-2.0
"""Scripts in languages that are not followed (csh, Perl, R, …): what is mentioned on which line, comments left out."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stepguard.scripts.directives import Line
from stepguard.scripts.facts import Job, Mention, Step, Use
from stepguard.scripts.values import Taint
from stepguard.scripts.variables import STALE, is_stale_count

_PRINTS = re.compile(r"^\s*(?:echo|printf|print|say|cat|puts|message|warn|die)\b")
_SRUN = re.compile(r"(?:^|[\s;&|(`\"'/])srun\s+((?:-[^\s]+(?:\s+\d[^\s]*)?\s+)*)")
_ALLOCATOR = re.compile(r"(?:^|[\s;&|(`\"'/])(sbatch|salloc)\s")
# scontrol show hostnames without a list takes the job's.
_READS = re.compile(
    rf"(?P<variable>{STALE.pattern})|\bscontrol\s+(?:-\S+\s+)*sho?w?\s+hostna\w*(?=\s*(?:[`|;)\"'&>]|$))"
)
_OPTION = re.compile(r"--auto-resume[= ](\S*?)(?=[\s\"',;)]|$)")


def gather(lines: Iterable[Line], job: Job) -> None:
    """Notes the mentions as facts of the job."""
    for at, text in lines:
        code = re.sub(r"(?:^|(?<=\s))#.*", "", text)
        if not code.strip() or _PRINTS.match(code):
            continue
        _option(at, code, job)
        for found in _READS.finditer(code):
            place = at + len(code[: found.start()].encode("utf-8", "surrogateescape"))
            variable = found["variable"] or "SLURM_JOB_NODELIST"
            taint = Taint(place, variable, is_stale_count(variable))
            # Its way is not followed: it may be right.
            job.uses.setdefault((place, True), Use(taint, "what is made of it", place, True))


def _option(at: int, code: str, job: Job) -> None:
    option = _OPTION.search(code)
    if option is None:
        return
    place = at + len(code[: option.start()].encode("utf-8", "surrogateescape"))
    step = _SRUN.search(code)
    allocator = _ALLOCATOR.search(code)
    if step is not None and step.start() < option.start() < step.end():
        guard = option[1] or "(none)"
        job.steps[at] = Step(at, guard, False, place, (), {}, (), False, "", False)
        job.starts_step = True
    elif step is not None:
        job.mentions[place] = Mention(place, "program" if option[1] == "1" else "argument", option[1])
    elif allocator is not None:
        job.mentions[place] = Mention(place, allocator[1], option[1])
