# SPDX-License-Identifier: Apache-2.0
"""What commands do to the shell that runs them, and what they print: builtins, tools, wrappers, shells."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.options import GUARD, behind_equals, is_guard, parse
from stepguard.scripts.programs import CODE_RUNNERS, HARMLESS, RUNNERS, SHELLS, WRAPPERS, base
from stepguard.scripts.shell import launching, uses
from stepguard.scripts.shell.builtins import BUILTINS
from stepguard.scripts.shell.carriers import conda, exec_, found, look_for_option, parallel, program, wrapper, xargs
from stepguard.scripts.shell.interpreters import by_code, is_script, python, python_code
from stepguard.scripts.shell.tools import TOOLS, everything, tool
from stepguard.scripts.values import (
    AS_POINT,
    CLEAN,
    UNKNOWN,
    Array,
    Field,
    Piece,
    Value,
    flat,
    key_of,
    split,
    text_of,
    unknown,
)
from stepguard.scripts.variables import INHERITED

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell

_RESIZE_SCRIPT = re.compile(r"resize\.sh$")
_NAMED_SRUN = re.compile(r"(?i)(?:^|_)srun(?:_(?:cmd|command|bin|exe|path))?$")  # $SRUN, of the caller's environment
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_TAKES_SETTING = re.compile(r"[-+][a-zA-Z]*[oO]|--(?:rcfile|init-file)")  # bash -euo pipefail
_PYTHON_SHEBANG = re.compile(r"#![^\n]*\bpython")
# What slurm_job_N_resize.sh sets (scontrol, 22.05 to 26.05).
_REFRESHED = ("SLURM_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NNODES", "SLURM_JOB_NUM_NODES")
_PRINTING = frozenset(
    ("echo", "printf", "grep", "egrep", "fgrep", "logger", "test", "[", "cat", "sed", "awk", "set", "sbatch", "salloc",
     "export", "alias", "type", "man", "read", "return", ":", "which", "srun")
)  # fmt: skip

Handler = Callable[["Shell", Sequence[Field], Value, int], Value]


def run(shell: Shell, fields: Sequence[Field], given: dict[str, Value], stdin: Value, at: int) -> Value:
    """Runs a command with `given` in its environment; `at` is where it stands. What it prints."""
    if not given:
        return _run(shell, fields, stdin, at)
    scope = shell.scope
    kept = {name: scope.variables.get(name) for name in given}
    exported = scope.exported
    if INHERITED in given:
        launching.mention(shell, at, "variable", "1")
    scope.variables.update(given)
    scope.exported = exported | set(given)
    printed = _run(shell, fields, stdin, at)
    scope.exported = exported
    for name, value in kept.items():
        if value is None:
            scope.variables.pop(name, None)
        else:
            scope.variables[name] = value
    return printed


def _run(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    name = fields[0].text
    if fields[0].pieces and shell.is_argument(fields[0].pieces[0]):  # run srun …, where run() { "$@"; }
        at = fields[0].at
    content = shell.scope.files.get(key_of(fields[0].pieces)) if shell.scope.files else None
    if content is not None and is_script(content):
        if _PYTHON_SHEBANG.match(text_of(content[:1])):
            return python_code(shell, content, fields[1:], stdin, at)
        return _script(shell, content, fields[1:], stdin)
    if not name or UNKNOWN in base(name) or (fields[0].maybe and not name.endswith("srun")):
        return _open(shell, fields, stdin, at)
    if name in shell.aliases and not fields[0].pieces[0].quoted:
        return _aliased(shell, name, fields, stdin, at)
    if name in shell.scope.functions:
        return shell.call(name, fields[1:], stdin)
    name = base(name)
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(shell, fields, stdin, at)
    if name in WRAPPERS:
        return wrapper(shell, name, fields, stdin, at)
    if name in SHELLS:
        return _shell(shell, fields, stdin, at)
    if is_guard(name):
        launching.mention(shell, fields[0].at, "command", name.partition("=")[2])
        return ()
    if name in HARMLESS and name not in RUNNERS:
        if name not in _PRINTING:
            look_for_option(shell, fields)
        shell.prepare(name, fields, at)
        return tool(shell, fields, stdin, at)
    printed = program(shell, fields, stdin, at)
    return by_code(shell, fields, stdin, printed, at) if name in CODE_RUNNERS else printed


def _aliased(shell: Shell, name: str, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    value = shell.aliases.pop(name)  # it is not expanded in itself
    words = [*split(tuple(piece._replace(quoted=False) for piece in value)), *fields[1:]]
    printed = _run(shell, words, stdin, at) if words else ()
    shell.aliases[name] = value
    return printed


def _open(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """A command whose name is not known: what stands behind it may be the command ($TIMER srun …)."""
    label = fields[0].pieces[0].label if fields[0].pieces else ""
    whole = fields[0].is_unknown  # not run_${N}.sh
    named = frozenset(taint for taint in fields[0].taints if whole or not taint.is_count)
    uses.note(shell, named, "which command is run", at, softly=True)  # sed 's/^/ssh /' hosts | sh
    if _NAMED_SRUN.search(label) or parse(fields[1:]).has(GUARD):  # no other program has the option
        return launching.srun(shell, fields, stdin, at)
    for index, field in enumerate(fields[1:], 1):
        if base(field.text) in _HANDLERS or base(field.text) in WRAPPERS:
            return _run(shell, fields[index:], stdin, at)
        if field.text and not field.is_unknown:
            break
    look_for_option(shell, fields)
    return launching.program(shell, fields, stdin, at)


# -- wrappers and shells ----------------------------------------------------------------------------------------------


def _env(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    given: dict[str, Value] = {}
    exported = shell.scope.exported
    left = exported
    position = 1
    while position < len(fields):
        text = fields[position].text
        if text in ("-", "-i", "--ignore-environment"):
            left = set()
        elif text in ("-u", "--unset", "-C", "--chdir", "-S") and position + 1 < len(fields):
            position += 1
            left = left - {fields[position].text} if "u" in text else left
        elif text.startswith(("-u", "--unset=")):
            left = left - {text.removeprefix("--unset=").removeprefix("-u")}
        elif _ASSIGNED.match(text):
            given[text.partition("=")[0]] = behind_equals(fields[position])
        elif not text.startswith("-") or text.startswith("--auto"):
            break
        position += 1
    if position >= len(fields):
        return everything(at)
    shell.scope.exported = left
    printed = run(shell, fields[position:], given, stdin, at)
    shell.scope.exported = exported
    return printed


def _eval(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    code = flat(Array(tuple(fields[1:])))
    # What stands in a variable is run here, but for what the function was called with.
    here = tuple(
        piece._replace(at=at, label=AS_POINT if piece.text else piece.label)
        if piece.used_at >= 0 and not shell.is_argument(piece)
        else piece
        for piece in code
    )
    return shell.nested(here, None, stdin)


def _shell(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """bash -c TEXT, bash FILE, or a script on stdin: bash -s ARGUMENTS."""
    arguments: Sequence[Field] = ()
    for index, field in enumerate(fields[1:], 1):
        text = field.text
        if text.startswith("-") and not text.startswith("--") and "c" in text and index + 1 < len(fields):
            child = shell.child()
            child.scope.positional = tuple(fields[index + 3 :])
            if index + 2 < len(fields):
                child.scope.variables["0"] = fields[index + 2].pieces
            return _finished(shell, child, child.nested(fields[index + 1].pieces, child, stdin))
        if text == "-s":
            arguments = fields[index + 1 :]
            break
        if _TAKES_SETTING.fullmatch(fields[index - 1].text):
            continue
        if text and not text.startswith(("-", "+")):
            content = shell.scope.files.get(key_of(field.pieces))
            if content is not None and is_script(content):
                return _script(shell, content, fields[index + 1 :], stdin)
            return program(shell, fields, stdin, field.at if field.at < at else at)
    child = shell.child()
    child.scope.positional = tuple(arguments[1:] if arguments and arguments[0].text == "--" else arguments)
    return _finished(shell, child, child.nested(stdin, child))


def _script(shell: Shell, content: Value, arguments: Sequence[Field], stdin: Value) -> Value:
    child = shell.child()
    child.scope.positional = tuple(arguments)
    return _finished(shell, child, child.nested(content, child, stdin))


def _finished(shell: Shell, child: Shell, printed: Value) -> Value:
    shell.whole = shell.whole and child.whole
    shell.scope.files.update(child.scope.files)
    return printed


def _source(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    if len(fields) < 2:
        return ()
    name = key_of(fields[1].pieces)
    if _RESIZE_SCRIPT.search(name):
        for variable in _REFRESHED:
            shell.scope.variables[variable] = (unknown(at, CLEAN, variable),)
        return ()
    content = stdin if name in ("/dev/stdin", "/dev/fd/0") else shell.scope.files.get(name)
    printed = shell.nested(content, None, stdin) if content else ()
    shell.scope.ended = False  # mostly by return
    return printed


def _stepguard(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    texts = [field.text for field in fields]
    if "supervise" in texts[1:2] and "--" in texts[:-1]:
        command = fields[texts.index("--") + 1 :]
        guard = Field((Piece(f"--{GUARD}=1", fields[1].at),))  # what it is short for
        return _run(shell, [command[0], guard, *command[1:]], stdin, command[0].at)
    if any(text.startswith(("--expand", "--fold")) for text in texts):
        return tool(shell, fields, stdin, at)
    return (unknown(at),)


_HANDLERS: dict[str, Handler] = {
    **BUILTINS,
    **TOOLS,
    "exec": exec_,
    "which": found,
    "conda": conda,
    "env": _env,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "stepguard": _stepguard,
    "xargs": xargs,
    "parallel": parallel,
    "python": python,
    "python3": python,
    "srun": launching.srun,
    "sbatch": launching.sbatch,
    "salloc": launching.sbatch,
}
