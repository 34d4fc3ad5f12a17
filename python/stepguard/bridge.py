# SPDX-License-Identifier: Apache-2.0
"""What the shim asks when somebody writes --auto-resume: may this be guarded, and if not, what to write instead.

Runs inside srun, sbatch and salloc, in an interpreter of its own, before every guarded step: nothing is imported here
that the answer "go on" does not need. What the command line and the environment can tell is judged here; what only
Slurm knows (shared nodes, for example) is judged by stepguard.resume.validation, and what a job script does by
stepguard.scripts.submission.

Exit statuses of the option, wherever it is refused: 2 for a place where it cannot work (PlacementError), by whichever
of both found it; 255 for a value that is neither 0 nor 1, which Slurm's own parser then refuses; 71 where the
installation is broken and plugstack.conf says on_broken=refuse (by default the step runs, unguarded, and says so).

STEPGUARD_SUPERVISED keeps an attempt from being guarded again, should srun be a site's wrapper that adds the option.
Its value says where the supervisor runs, as JOB.STEP: the attempt's srun is called from the same place and left alone;
a task of the guarded step is in another step of the job, and its --auto-resume is refused, for two supervisors would
resize one allocation against each other; in another job, submitted from within the step, the value means nothing.
"""

from __future__ import annotations

import os

from stepguard.errors import PlacementError

TYPE_CHECKING = False  # typing's own costs 3 ms of import
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

OPTION = "--auto-resume"
GUARD = "STEPGUARD_SUPERVISED"
INHERITED = "SLURM_SPANK__SLURM_SPANK_OPTION_stepguard_auto_resume"

# spank/bridge.h
SRUN, ALLOCATOR, SUBMISSION = 1, 2, 3
BROKEN, GUARDED, REFUSED, PLAIN, FOUND, DOUBT = 0, 1, 2, 3, 4, 5

_SCRIPT_SIZE_BYTES = 4 * 1024 * 1024  # slurmctld's own default bound, max_script_size
_LINE_CHARS = 2000  # a longer one holds data, not a step
_SHOWN_CHARS = 300


def answer(ffi: Any, question: Any, reply: Any) -> int:
    """Answers the shim: reads `question`, fills `reply` (both of spank/bridge.h), returns the decision."""
    data = bytes(ffi.buffer(question.words, question.words_size))
    words = [os.fsdecode(word) for word in data.split(b"\0")[:-1]]
    try:
        if question.program == ALLOCATOR:
            script = os.fsdecode(ffi.string(question.script)) if question.script else ""
            raise misplaced(words, question.command_at, bool(question.inherited), script)
        if question.program == SUBMISSION:
            script = os.fsdecode(ffi.string(question.script))
            decision, text = _check_script(script, words[1 : question.command_at], len(reply.text))
        else:
            decision, text = judge_srun(words, question.command_at, question.component, os.environ)
    except PlacementError as error:
        decision, text = REFUSED, f"stepguard: {error}"
    field = reply.guard if decision == GUARDED else reply.text
    encoded = text.encode("utf-8", "backslashreplace")[: len(field) - 1]
    ffi.memmove(field, encoded + b"\0", len(encoded) + 1)
    return decision


def judge_srun(
    words: Sequence[str], command_at: int, component: int, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Whether an srun with --auto-resume=1 becomes a guarded step: (GUARDED, the value of STEPGUARD_SUPERVISED), or
    (PLAIN, "") for a supervisor's own attempt.

    `command_at` is the index of the program in `words`, `component` the one of a heterogeneous command line that Slurm
    is reading. Raises PlacementError with the way out.
    """
    here = place(environment)
    if environment.get(GUARD) == here:
        return PLAIN, ""
    if component > 0:
        raise _no_het(words)
    check_srun(words, command_at, environment)
    return GUARDED, here


def _check_script(path: str, options: Sequence[str], size_bytes: int) -> tuple[int, str]:
    from stepguard.scripts.submission import told  # 50 ms of import

    text, is_certain = told(path, options, os.environ, size_bytes)
    return (FOUND if is_certain else DOUBT if text else PLAIN), text


def place(environment: Mapping[str, str]) -> str:
    """Where a program runs, as JOB.STEP; "-" for what it is not in."""
    return f"{environment.get('SLURM_JOB_ID') or '-'}.{environment.get('SLURM_STEP_ID') or '-'}"


def check_srun(words: Sequence[str], command_at: int, environment: Mapping[str, str]) -> None:
    """Raises PlacementError, with the way out, for an srun whose step cannot be guarded.

    `words` begin with srun, and `words[command_at]` is its program (srun(1), 22.05 to 26.05).
    """
    given = _telling_options(words, command_at)
    if ":" in words[command_at:] or "het-group" in given:
        raise _no_het(words)
    if environment.get("SLURM_HET_SIZE"):
        raise PlacementError(
            f"{OPTION} does not work in a heterogeneous job",
            shown(words),
            "submit the components as jobs of their own, or remove the option",
        )
    if "no-allocate" in given:
        raise PlacementError(f"{OPTION} needs slurmctld", shown(words), "remove --no-allocate, or remove the option")
    if "async" in given:  # since 26.05
        raise PlacementError(
            f"{OPTION} needs an srun that stays until its step ends",
            shown(words),
            "remove --async and put the command into the background with &",
        )
    if not environment.get("SLURM_JOB_ID") and "jobid" not in given:
        raise PlacementError(
            f"{OPTION} works inside an allocation only",
            shown(words),
            "put this line into a script for sbatch, or call it under salloc",
        )
    if environment.get("SLURM_STEPMGR"):  # since 24.05, in jobs with --stepmgr
        raise PlacementError(
            f"{OPTION} does not work with --stepmgr",
            shown(words),
            "submit the job without --stepmgr, or remove the option",
        )
    if environment.get(GUARD, "").partition(".")[0] == (environment.get("SLURM_JOB_ID") or "-"):
        raise PlacementError(
            f"{OPTION} within a step that is guarded already",
            shown(words),
            "remove it here: the outer step is started again as a whole",
        )


def _telling_options(words: Sequence[str], command_at: int) -> frozenset[str]:
    """The long names of srun's options on the command line, if one that matters here may be among them."""
    marks = ("--het", "--pac", "--no-a", "--as", "--jobi")
    options = words[1:command_at]
    if not any(word.startswith(marks) or (word[:1] == "-" and "Z" in word) for word in options):
        return frozenset()
    from stepguard.slurm.srun_arguments import parse  # exact, but 10 ms of import

    return frozenset(option.name for option in parse(words, command_at).options)


def _no_het(words: Sequence[str]) -> PlacementError:
    return PlacementError(
        f"{OPTION} guards no step of several components",
        shown(words),
        "start each component by an srun of its own, or remove the option",
    )


def misplaced(words: Sequence[str], command_at: int, inherited: bool, script: str) -> PlacementError:
    """The refusal of the option on sbatch or salloc: quotes where it stands and what to write instead.

    `words[command_at]`, if there is one, is the job script (salloc: the command), found at the path `script` ("": it
    cannot be read). `inherited`: the option stands neither on the command line nor in the script.
    """
    program = words[0].rpartition("/")[2]
    what = f"{OPTION} guards one step and belongs on its srun, not on {program}"
    lines = _read_lines(script) if script and program != "salloc" else []
    step = _srun_line(lines)
    instead = f"on line {step[0]} of {script} write: {step[1]}" if step else f"write srun {OPTION}=1 in the job"
    if inherited:
        return PlacementError(what, f"{INHERITED} is set", f"unset it, and {instead}")
    kept = _without_option(words[:command_at])
    if len(kept) < command_at:
        corrected = shown([*kept, *words[command_at:]])
        return PlacementError(what, shown(words), f"write {corrected}, and {instead}")
    for number, line in enumerate(lines, 1):
        if line.startswith(("#SBATCH", "#SCRON")) and len(_without_option(line.split())) < len(line.split()):
            where = f"{shown([script])} line {number}: {_printable(line)}"
            return PlacementError(what, where, f"remove it there, and {instead}")
    return PlacementError(what, "the job script", f"remove it there, and {instead}")


def _without_option(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if len(name) < len("--au") or not OPTION.startswith(name):
            kept.append(word)
        elif not equals:
            next(rest, None)
    return kept


def _read_lines(script: str) -> list[str]:
    """The lines of the shim's script, which is a file; none when it can be read no more."""
    try:
        fd = os.open(script, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    with open(fd, "rb") as file:  # noqa: PTH123 - of a descriptor
        return os.fsdecode(file.read(_SCRIPT_SIZE_BYTES)).splitlines()


def _srun_line(lines: Sequence[str]) -> tuple[int, str] | None:
    """The number of the first line that starts a step, and that line with the option."""
    import re

    command = re.compile(
        r"^\s*(?:[^#'\"]*(?:[;&|(!{]|\b(?:then|do|else|if|exec|time)\s))?\s*(?:\w+=\S*\s+)*(?:/\S+/)?srun(?=\s)"
    )
    for number, line in enumerate(lines, 1):
        if len(line) < _LINE_CHARS and (found := command.match(line)):
            rest = " ".join(_without_option(line[found.end() :].split()))
            return number, _printable(f"{found.group().lstrip()} {OPTION}=1 {rest}")
    return None


def shown(words: Sequence[str]) -> str:
    """A command line for a message: quoted for the shell, on one line, cut when it is long."""
    import shlex

    return _printable(" ".join(shlex.quote(word) for word in words))


def _printable(text: str) -> str:
    from stepguard.escaping import visible  # for messages alone: a right placement is told nothing

    cut = text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
    return visible(cut)
