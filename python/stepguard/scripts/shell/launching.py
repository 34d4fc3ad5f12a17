# SPDX-License-Identifier: Apache-2.0
"""Commands that start something: srun, sbatch, salloc, other launchers, programs. Here values decide where it runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.facts import Job, Mention, Step
from stepguard.scripts.options import GUARD, CommandLine, Given, arguments, exported_by, parse
from stepguard.scripts.programs import (
    INTERPRETERS,
    base,
    is_python,
    may_start,
    only_tells,
)
from stepguard.scripts.shell import setup, uses
from stepguard.scripts.shell.arguments import deciding, is_launcher, own_name
from stepguard.scripts.values import (
    UNKNOWN,
    Field,
    Taints,
    Value,
    key_of,
    taints_of,
    texts_of,
    unknown,
)

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell

# Options of srun and sbatch that say where a step or job runs; those in the second set are replaced in srun's next
# attempt, and only later steps get them stale.
_PLACING = frozenset(("nodelist", "nodefile", "exclude"))
_SIZING = frozenset(("nodes", "ntasks", "ntasks-per-node", "relative", "gpus", "minnodes"))
_NO_STEP = frozenset(("help", "usage", "version"))
_SENTENCE = re.compile(r"[A-Za-z]+:?\s(?!.*\s-)[^=/]*")  # "nodes: $LIST", but no command
_SCRIPT_IN_TEXT = re.compile(r"[\w./-]+\.(?:py|sh|R|jl)\b")


def shown_at(field: Field) -> int:
    """Where a reader looks for a word: where the variable that holds it is expanded, else where it stands."""
    first = field.pieces[0] if field.pieces else None
    return first.used_at if first is not None and first.used_at >= 0 else field.at


def mention(shell: Shell, at: int, place: str, value: str) -> None:
    """Notes an --auto-resume that is no option of srun."""
    shell.job.mentions.setdefault(at, Mention(at, place, value))


# -- srun -------------------------------------------------------------------------------------------------------------


def srun(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """srun: notes the step, judges what its options decide, and goes on in the program that it starts."""
    lines = [parse(component) for component in _components(fields[1:])]
    line = CommandLine(tuple(given for one in lines for given in one.options), lines[0].program)
    if any(line.has(name) for name in _NO_STEP) or (not line.program and not line.options):
        return (unknown(at),)
    taints = _options(shell, line, "srun", at)
    guard, conditional, option = _guard(line)
    told = [one for each in lines for one in arguments(_own_words(each.program))]
    misplaced = [one for one in told if one.is_for_srun and guard == ""]
    step = Step(
        at,
        guard,
        conditional or bool(shell.branch),
        option.field.at if option is not None else -1,
        tuple(name for each in lines for name in work(each.program)),
        {given.name: texts_of(given.value)[0] for given in line.options},
        shell.branch,
        len(lines) > 1,
        setup.of_step(line, shell.scope.variables),
        bool(misplaced),
    )
    shell.job.starts_step = True
    _note(shell, step, option)
    for one in told:
        mention(shell, shown_at(one.field), "program" if one in misplaced else "argument", one.value)
    printed: Value = ()
    mentions = len(shell.job.mentions)
    for each in lines:
        printed += _component(shell, each, guard, stdin, at)
    if any(one.place != "argument" for one in list(shell.job.mentions.values())[mentions:]):
        shell.job.steps[at] = shell.job.steps[at]._replace(is_misplaced=True)
    return (*printed, unknown(at, taints)) if taints or not printed else printed


def _components(fields: Sequence[Field]) -> list[Sequence[Field]]:
    """The command lines of a step of several components: srun OPTIONS PROGRAM : OPTIONS PROGRAM (srun(1))."""
    ends = [index for index, field in enumerate(fields) if field.text == ":"]
    return [fields[begin:end] for begin, end in zip([0, *(end + 1 for end in ends)], [*ends, len(fields)], strict=True)]


def _component(shell: Shell, line: CommandLine, guard: str, stdin: Value, at: int) -> Value:
    """Goes on in the program of a component; what it prints."""
    if not line.program:
        return ()
    child = shell.child(in_step=True)
    child.guarded_step = guard not in ("", "0")
    child.scope.positional = ()
    _hand_on(child, line)
    if line.has("multi-prog"):  # a file that says for each rank what it runs, and no script
        content = shell.scope.files.get(key_of(line.program[0].pieces), ())
        uses.note(child, taints_of((*line.program[0].pieces, *content)), "srun --multi-prog", at)
        return ()
    printed = child.start(line.program, stdin, line.program[0].at)
    shell.whole = shell.whole and child.whole
    return printed


def _hand_on(child: Shell, line: CommandLine) -> None:
    """Leaves a new process the variables that --export hands on."""
    exported = exported_by(line)
    child.scope.keep_exported((child.scope.exported if exported.names is None else exported.names) - exported.given)


def _own_words(program: Sequence[Field]) -> Sequence[Field]:
    """The words behind the program's name, up to another srun, which has its own."""
    inner = (index for index, field in enumerate(program) if base(field.text) == "srun")
    return program[1 : next(inner, len(program))]


def _guard(line: CommandLine) -> tuple[str, bool, Given | None]:
    """The option's value ("" without it, "?" where it is open), whether it is there on some paths only, the option."""
    found = [given for given in line.options if given.name == GUARD]
    if not found:
        return "", False, None
    certain = [given for given in found if not given.maybe]
    # The last one counts; of those that may be there, any may be the last.
    found = found[max((index for index, given in enumerate(found) if not given.maybe), default=0) :]
    option = next((given for given in reversed(found) if _values(given) != ["0"]), found[-1])
    texts = list(dict.fromkeys(text for given in found for text in _values(given)))
    bad = [text for text in texts if text not in ("0", "1") and UNKNOWN not in text]
    open_ = len(texts) > 1 or UNKNOWN in texts[0]
    if bad and not (len(texts) > 1 and set(texts) - set(bad)):
        return bad[0] or "(none)", not certain, option
    if bad:
        return bad[0] or "(none)", True, option
    if all(text == "0" for text in texts):
        return "0", False, option
    return "1" if not open_ else "?", not certain or open_, option


def _values(option: Given) -> list[str]:
    return texts_of(option.value) if option.has_value else [""]


def _note(shell: Shell, step: Step, option: Given | None) -> None:
    """A step that is met again, in a function that is called twice, is one step."""
    before = shell.job.steps.get(step.at)
    if before is not None:
        plain = before.at_times_plain or (before.guard in ("", "0")) != (step.guard in ("", "0"))
        kept = before if before.guard not in ("", "0") else step
        step = kept._replace(conditional=(before.conditional and step.conditional) or plain, at_times_plain=plain)
    shell.job.steps[step.at] = step


def _options(shell: Shell, line: CommandLine, program: str, at: int) -> Taints:
    """Judges what the options of srun or sbatch decide; what the output of the step depends on."""
    found: Taints = frozenset()
    for given in line.options:
        taints = taints_of(given.value)
        content = shell.scope.files.get(key_of(given.value)) if given.value else None
        if given.name in _PLACING:
            taints |= taints_of(content or ())
            uses.note(shell, taints, f"{program} --{given.name}", at)
            found |= taints
        elif given.name in _SIZING:
            uses.note(shell, taints, f"{program} --{given.name}", at, softly=True)
        elif given.name == "export" and taints:
            uses.note(shell, taints, f"{program} --export", at)
    uses.by_control(shell, program, at)
    return found


def work(program: Sequence[Field]) -> tuple[str, ...]:
    """The words that tell which work a command line is: programs and scripts."""
    texts = [field.text for field in program]
    if not texts:
        return ()
    scripts = [found for text in texts for found in _SCRIPT_IN_TEXT.findall(text)]
    if scripts:
        return tuple(dict.fromkeys(scripts))
    words = [text for text in texts if not text.startswith("-")]
    found = next((base(text) for text in words if base(text) not in INTERPRETERS), base(texts[0]))
    return (found,)


# -- sbatch and salloc ------------------------------------------------------------------------------------------------


def sbatch(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """sbatch and salloc: the option does not belong here; a script in --wrap or on stdin is a job of its own."""
    name = base(fields[0].text)
    line = parse(fields[1:], allocator=True)
    for given in line.options:
        if given.name == GUARD:
            mention(shell, shown_at(given.field), name, texts_of(given.value)[0] if given.value else "")
    _options(shell, line, name, at)
    for one in arguments(line.program[1:]) if name == "sbatch" else ():
        mention(shell, shown_at(one.field), "program" if one.is_for_srun else "argument", one.value)
    if name == "salloc":
        if line.program:
            child = shell.child()
            child.start(line.program, stdin, line.program[0].at)
            shell.whole = shell.whole and child.whole
        return ()
    wrapped = line.last("wrap")
    if wrapped is not None:
        _submitted(shell, line, wrapped.value, has_script=False)
    elif line.program:
        content = shell.scope.files.get(key_of(line.program[0].pieces))
        if content:
            _submitted(shell, line, content, has_script=True)
    elif stdin:
        _submitted(shell, line, stdin, has_script=True)
    return (unknown(at),)


def _submitted(shell: Shell, line: CommandLine, script: Value, has_script: bool) -> None:
    """A job script within the script."""
    from stepguard.scripts.directives import read_directives

    job = Job(has_script=has_script)
    job.directives, job.late_directives = read_directives(script)
    shell.inner_jobs.append(job)
    child = shell.child(in_step=False, job=job)
    child.scope.functions.clear()
    _hand_on(child, line)
    child.nested(script, child)
    shell.whole = shell.whole and child.whole


# -- launchers and programs -------------------------------------------------------------------------------------------


def program(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """Any other program. What it is told decides where something runs if it is a launcher, or a task of a step."""
    name = base(fields[0].text)
    launches = is_launcher(fields)
    words = fields[1:]
    what = name if UNKNOWN not in name else "a program"
    own = own_name(fields)
    every = launches or shell.in_step or may_start(own)
    tells = not every and only_tells(own)
    told = [field for field in words if launches or shell.in_step or not _SENTENCE.fullmatch(field.text)]
    for option, decided in () if tells else deciding([fields[0], *told], shell.scope.files, every):
        uses.note(shell, decided, f"{what} {option}" if option else f"an argument of {what}", at)
    if every and (text := shell.scope.files.get(key_of(fields[0].pieces))):
        uses.note(shell, taints_of(text), f"the text of {what}", at)
    uses.environment(shell, what, at, may_be_told=every or is_python(name) or "/" in fields[0].text)
    uses.known_files(shell, what, at)
    if every:
        uses.by_control(shell, what, at)
    shell.prepare(name, fields, at)
    taints = taints_of(stdin) | taints_of(piece for field in fields for piece in field.pieces)
    for field in words:
        content = shell.scope.files.get(key_of(field.pieces))
        if content:
            taints |= taints_of(content)
    if taints and not shell.in_step:
        uses.may_write(shell, fields, taints, at)
    if every and taints_of(stdin) and name not in ("ssh", "rsh"):
        uses.note(shell, taints_of(stdin), f"the input of {what}", at)
    return (unknown(at, taints),)
