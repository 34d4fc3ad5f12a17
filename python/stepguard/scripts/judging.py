# SPDX-License-Identifier: Apache-2.0
"""From the facts of a job script to findings: which rule, how severe, where, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepguard.scripts.directives import Line, options_of
from stepguard.scripts.facts import Job, Mention, Step, Use
from stepguard.scripts.options import GUARD, CommandLine
from stepguard.scripts.values import UNKNOWN, text_of

_INCOMPATIBLE = {
    "het-group": "guards no step of several components",
    "no-allocate": "needs slurmctld",
    "async": "needs an srun that stays until its step ends",
}
_COMPONENTS = "guards no step of several components"
_EXCLUSIVE = ("", "exclusive")
# Further up, sbatch would refuse it.
_INSTEAD_OF_LATE = "Remove --auto-resume here and write it on srun: srun --auto-resume=1 … PROGRAM"
_ALLOCATING = ("srun --", "sbatch --", "salloc --")
_OF_ANOTHER_JOB = ("sbatch", "salloc")


class Judgement(NamedTuple):
    """A finding before it has a line."""

    kind: str
    severity: str
    at: int
    message: str
    fix: str = ""


class _Directive(NamedTuple):
    at: int
    line: CommandLine
    text: str


def judge(job: Job, is_entry: bool) -> Iterator[Judgement]:
    """All that there is to say about a job script. `is_entry`: a program that a step starts."""
    directives = [_Directive(at, options_of((at, text)), text) for at, text in job.directives]
    mentions = [*_in_directives(directives), *job.mentions.values()]
    misplaced = [mention for mention in mentions if mention.place != "argument"]
    steps = sorted(job.steps.values(), key=lambda step: step.at)
    guarding = [step.option_at for step in steps if step.guard not in ("", "0")]
    guarded = bool(guarding) or any(mention.value != "0" for mention in misplaced)
    yield from (_misplaced(mention) for mention in mentions)
    yield from (_late(line) for line in job.late_directives)
    yield from _values(steps)
    yield from _stale(job, guarded or is_entry)
    guarded_steps = [step for step in steps if is_guarded(step)]
    yield from _incompatible(guarded_steps, directives)
    if guarded:
        yield from _unguarded(steps, guarded_steps)
    if guarded_steps:
        yield from _setups(job, steps, guarded_steps)
    asked = [mention.at for mention in misplaced if mention.place not in _OF_ANOTHER_JOB]
    places = [step.at for step in guarded_steps] + asked or guarding
    if guarded and places and job.directives and not any(is_exclusive(directive.line) for directive in directives):
        yield Judgement("not-exclusive", "warning", min(places), "the allocation may share its nodes with other jobs")


def is_guarded(step: Step) -> bool:
    """Whether srun takes the step for one to guard."""
    return step.guard in ("1", "?")


# -- placement --------------------------------------------------------------------------------------------------------


def _in_directives(directives: list[_Directive]) -> Iterator[Mention]:
    for directive in directives:
        for given in directive.line.options:
            if given.name == GUARD:
                yield Mention(directive.at, "directive", text_of(given.value))


def _misplaced(mention: Mention) -> Judgement:
    told = {
        "directive": "sbatch refuses --auto-resume: it guards one step and belongs on its srun",
        "sbatch": "sbatch refuses --auto-resume: it guards one step and belongs on its srun",
        "salloc": "salloc refuses --auto-resume: it guards one step and belongs on its srun",
        "program": "--auto-resume stands behind the program's name and is its argument; the step is not guarded",
        "argument": "--auto-resume is the program's own argument here; srun does not see it",
        "command": "--auto-resume is an option of srun; another command does not know it",
        "variable": "the option's own variable is set by hand, which refuses every srun in the job",
    }[mention.place]
    return Judgement("misplaced-auto-resume", "info" if mention.place == "argument" else "error", mention.at, told)


def _late(line: Line) -> Judgement:
    told = "sbatch does not read this line: a command stands before it"
    fix = _INSTEAD_OF_LATE if any(given.name == GUARD for given in options_of(line).options) else ""
    return Judgement("late-directive", "warning", line[0], told, fix)


def _values(steps: list[Step]) -> Iterator[Judgement]:
    for step in steps:
        if step.guard not in ("", "0", "1", "?"):
            told = "has no value" if step.guard == "(none)" else f"has the value {step.guard}"
            yield Judgement("bad-auto-resume-value", "error", step.option_at, f"--auto-resume {told}; it takes 0 or 1")


def _incompatible(steps: list[Step], directives: list[_Directive]) -> Iterator[Judgement]:
    if not steps:
        return
    for directive in directives:
        for given in directive.line.options:
            if given.name == "stepmgr":
                yield Judgement(
                    "incompatible-option", "error", directive.at, "--auto-resume does not work with --stepmgr"
                )
    is_het_job = any(field.text in ("hetjob", "packjob") for d in directives for field in d.line.program)
    for step in steps:
        found = next((name for name in _INCOMPATIBLE if name in step.options), "")
        if found:
            yield Judgement(
                "incompatible-option", "error", step.at, f"--auto-resume with --{found}: it {_INCOMPATIBLE[found]}"
            )
        elif step.is_het or is_het_job:
            yield Judgement("incompatible-option", "error", step.at, f"--auto-resume {_COMPONENTS}")


def is_exclusive(line: CommandLine) -> bool:
    """Whether options of sbatch ask for nodes that no other job shares."""
    return any(
        given.name == "exclusive"
        and (not given.has_value or text_of(given.value) in _EXCLUSIVE or UNKNOWN in text_of(given.value))
        for given in line.options
    )


# -- steps ------------------------------------------------------------------------------------------------------------


def _unguarded(steps: list[Step], guarded: list[Step]) -> Iterator[Judgement]:
    if not guarded:
        return
    for step in steps:
        if step.guard or step.setup or step.is_misplaced:
            continue
        if any(_alternative(step, other) for other in guarded):
            continue
        same = any(set(step.program) & set(other.program) for other in guarded)
        told = "the same program runs guarded elsewhere in this job" if same else "this step is not guarded; others are"
        yield Judgement("unguarded-step", "warning" if same else "info", step.at, told)


def _alternative(one: Step, other: Step) -> bool:
    """Whether only one of both can run: they stand in two arms of one if or case."""
    arms = dict(one.branch)
    return any(arms.get(number, arm) != arm for number, arm in other.branch)


def _setups(job: Job, steps: list[Step], guarded: list[Step]) -> Iterator[Judgement]:
    last = max(step.at for step in guarded)
    found = {setup.at: setup.what for setup in job.setups.values()}
    for step in steps:
        if step.setup and not is_guarded(step) and not any(_alternative(step, other) for other in guarded):
            found[step.at] = step.setup
    for at, what in sorted(found.items()):
        if at < last:
            told = f"{what}: a node that joins the guarded step later has nothing of it"
            yield Judgement("setup-outside-step", "warning", at, told)


# -- stale values -----------------------------------------------------------------------------------------------------


def _stale(job: Job, guarded: bool) -> Iterator[Judgement]:
    worst: dict[int, Use] = {}
    for use in job.uses.values():
        before = worst.get(use.taint.at)
        if before is None or (before.softly and not use.softly):
            worst[use.taint.at] = use
    for use in worst.values():
        severity = "info" if not guarded else "warning" if use.softly else "error"
        yield Judgement("stale-nodelist", severity, use.taint.at, _path(use), _cure(use))


def _path(use: Use) -> str:
    taint = use.taint
    names = [taint.variable, *dict.fromkeys(name.lstrip("$") for name in taint.path)]
    if len(names) > 1 and use.sink.split(",")[0].split(" in ")[0] == names[-1]:
        names.pop()
    steps = " → ".join(names)
    # Each attempt of a guarded step has these variables anew, for all nodes of the job.
    wrong = "may not be the step's own" if taint.in_step else "stale after a resume"
    return f"{steps} → {use.sink} on line {{line:{use.sink_at}}}: {wrong}"


def _cure(use: Use) -> str:
    is_count = use.taint.is_count
    if use.sink.startswith(_ALLOCATING):
        if use.taint.path:  # one of the nodes, mostly
            return f"Ask just before: {'$(stepguard nodes --count)' if is_count else '$(stepguard nodes), or --first'}"
        return f"Ask there: $(stepguard nodes {'--count' if is_count else '--list'})"
    them = "--count), or SLURM_STEP_NUM_NODES" if is_count else "--first), --list, or SLURM_STEP_NODELIST"
    where = "" if use.taint.in_step else "Ask where it is used, for a step inside of it: "
    return f"{where}$(stepguard nodes {them}"
