# SPDX-License-Identifier: Apache-2.0
"""What commands do to the shell that runs them, and what they print: builtins, tools, wrappers, shells."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from stepguard.scripts import launching
from stepguard.scripts.builtins import BUILTINS
from stepguard.scripts.options import behind_equals, is_guard
from stepguard.scripts.programs import COMMANDS, HARMLESS, LAUNCHERS, NAMES_LAUNCHER, RUNNERS, SHELLS, WRAPPERS, base
from stepguard.scripts.tools import TOOLS, everything, tool
from stepguard.scripts.values import (
    CLEAN,
    UNKNOWN,
    Array,
    Field,
    Piece,
    Value,
    flat,
    key_of,
    taints_of,
    unknown,
)
from stepguard.scripts.variables import INHERITED

if TYPE_CHECKING:
    from stepguard.scripts.shell import Shell

_RESIZE_SCRIPT = re.compile(r"resize\.sh$")
_TEXT_FOLLOWS = re.compile(r"-[a-z]*c")  # bash -lc TEXT
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
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
    content = shell.scope.files.get(key_of(fields[0].pieces)) if shell.scope.files else None
    if content is not None and _is_script(content):
        return _script(shell, content, fields[1:], stdin)
    if UNKNOWN in name or (fields[0].maybe and not name.endswith("srun")):
        return _open(shell, fields, stdin, at)
    if name in shell.scope.functions:
        return shell.call(name, fields[1:], stdin)
    name = base(name)
    handler = _HANDLERS.get(name)
    if handler is not None:
        return handler(shell, fields, stdin, at)
    if name in WRAPPERS:
        return _wrapper(shell, name, fields, stdin, at)
    if name in SHELLS:
        return _shell(shell, fields, stdin, at)
    if is_guard(name):
        launching.mention(shell, fields[0].at, "command", name.partition("=")[2])
        return ()
    if name in HARMLESS and name not in RUNNERS:
        if name not in _PRINTING:
            _look_for_option(shell, fields)
        shell.prepare(name, fields, at)
        return tool(shell, fields, stdin, at)
    return _program(shell, fields, stdin, at)


def _program(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """Any other program. Another command may stand behind it: nsys profile -o x srun …, ./wrap.sh srun …."""
    name = base(fields[0].text)
    behind = len(fields) if name in LAUNCHERS and name not in RUNNERS else _command_behind(fields)
    own = fields[:behind]
    _look_for_option(shell, own)
    printed = (tool if name in HARMLESS else launching.program)(shell, own, stdin, at)
    return _run(shell, fields[behind:], stdin, at) if behind < len(fields) else printed


def _command_behind(fields: Sequence[Field]) -> int:
    """Where a command begins that another one is told to run: a launcher with options behind it."""
    for index in range(1, len(fields) - 1):
        field, following = fields[index], fields[index + 1].text
        name = base(field.text)
        if name in SHELLS and _TEXT_FOLLOWS.fullmatch(following):
            return index
        if name in COMMANDS and following.startswith("-") and not NAMES_LAUNCHER.search(fields[index - 1].text):
            return index
    return len(fields)


def _open(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """A command whose name is not known: what stands behind it may be the command ($TIMER srun …)."""
    for index, field in enumerate(fields[1:], 1):
        if base(field.text) in _HANDLERS or base(field.text) in WRAPPERS:
            return _run(shell, fields[index:], stdin, at)
        if field.text and not field.is_unknown:
            break
    _look_for_option(shell, fields)
    return launching.program(shell, fields, stdin, at)


def _look_for_option(shell: Shell, fields: Sequence[Field]) -> None:
    for field in fields[1:]:
        if field.text.startswith("--auto-resume=") and not field.pieces[0].quoted:
            launching.mention(shell, launching.shown_at(field), "command", field.text.partition("=")[2])


# -- wrappers and shells ----------------------------------------------------------------------------------------------


def _wrapper(shell: Shell, name: str, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    takes, before = WRAPPERS[name]
    position = 1
    while position < len(fields) and fields[position].text.startswith("-") and len(fields[position].text) > 1:
        if name == "command" and fields[position].text in ("-v", "-V"):
            return (unknown(at),)
        position += 2 if fields[position].text in takes else 1
    position += before
    return _run(shell, fields[position:], stdin, at) if position < len(fields) else ()


def _exec(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    if len(fields) < 2:
        return ()
    printed = _wrapper(shell, "exec", fields, stdin, at)
    shell.scope.ended = True
    return printed


def _env(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    given: dict[str, Value] = {}
    position = 1
    while position < len(fields):
        text = fields[position].text
        if text.startswith("-") and not text.startswith("--auto"):
            position += 2 if text in ("-u", "-C", "-S") else 1
        elif _ASSIGNED.match(text):
            name = text.partition("=")[0]
            given[name] = behind_equals(fields[position])
            position += 1
        else:
            break
    return run(shell, fields[position:], given, stdin, at) if position < len(fields) else everything(at)


def _eval(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    code = flat(Array(tuple(fields[1:])))
    # What stands in a variable is run here, but for what the function was called with.
    here = tuple(
        piece._replace(at=at) if piece.used_at >= 0 and not shell.is_argument(piece) else piece for piece in code
    )
    return shell.nested(here, None, stdin)


def _shell(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """bash -c TEXT, bash FILE, or a script on stdin."""
    for index, field in enumerate(fields[1:], 1):
        text = field.text
        if text.startswith("-") and not text.startswith("--") and "c" in text and index + 1 < len(fields):
            child = shell.child()
            child.scope.positional = tuple(fields[index + 3 :])
            return _finished(shell, child, child.nested(fields[index + 1].pieces, child, stdin))
        if text == "-s":
            break
        if text and not text.startswith(("-", "+")):
            content = shell.scope.files.get(key_of(field.pieces))
            if content is not None and _is_script(content):
                return _script(shell, content, fields[index + 1 :], stdin)
            return _program(shell, fields, stdin, field.at if field.at < at else at)
    child = shell.child()
    return _finished(shell, child, child.nested(stdin, child))


def _script(shell: Shell, content: Value, arguments: Sequence[Field], stdin: Value) -> Value:
    child = shell.child()
    child.scope.positional = tuple(arguments)
    return _finished(shell, child, child.nested(content, child, stdin))


def _finished(shell: Shell, child: Shell, printed: Value) -> Value:
    shell.whole = shell.whole and child.whole
    shell.scope.files.update(child.scope.files)
    return printed


def _is_script(content: Value) -> bool:
    return any(piece.text for piece in content)


def _source(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    if len(fields) < 2:
        return ()
    name = key_of(fields[1].pieces)
    if _RESIZE_SCRIPT.search(name):
        for variable in _REFRESHED:
            shell.scope.variables[variable] = (unknown(at, CLEAN, variable),)
        return ()
    content = shell.scope.files.get(name)
    return shell.nested(content, None, stdin) if content else ()


def _stepguard(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    texts = [field.text for field in fields]
    if "supervise" in texts[1:2] and "--" in texts:
        return _run(shell, fields[texts.index("--") + 1 :], stdin, at)
    if any(text.startswith(("--expand", "--fold")) for text in texts):
        return tool(shell, fields, stdin, at)
    return (unknown(at),)


def _xargs(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    position = 1
    place = ""
    while position < len(fields) and fields[position].text.startswith("-"):
        text = fields[position].text
        if text.startswith("-I"):
            place = text[2:] or (fields[position + 1].text if position + 1 < len(fields) else "")
        position += 2 if text in ("-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "-j", "--jobs") else 1
    item = unknown(at, taints_of(stdin))
    words = list(fields[position:]) or [Field((Piece("echo", at),))]
    if place:
        words = [_filled(field, place, item) for field in words]
    else:
        words.append(Field((item,)))
    return _run(shell, words, (), at)


def _parallel(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    texts = [field.text for field in fields]
    mark = next((index for index, text in enumerate(texts) if text in (":::", "::::")), len(fields))
    taints = taints_of(stdin) | taints_of(piece for field in fields[mark:] for piece in field.pieces)
    launching.program(shell, [fields[0], *(f for f in fields[1:mark] if f.taints)], (), at)
    position = 1
    while position < mark and texts[position].startswith("-"):
        position += 2 if texts[position] in ("-j", "-P", "-S", "--jobs", "--sshlogin", "--sshloginfile", "--slf") else 1
    item = unknown(at, taints)
    words = [_filled(field, "{}", item) for field in fields[position:mark]]
    return _run(shell, words, (), at) if words else ()


def _filled(field: Field, place: str, item: Piece) -> Field:
    pieces: list[Piece] = []
    for piece in field.pieces:
        if piece.text is None or place not in piece.text:
            pieces.append(piece)
            continue
        before, _, after = piece.text.partition(place)
        pieces += [p for p in (piece._replace(text=before), item, piece._replace(text=after)) if p.text != ""]
    return Field(tuple(pieces), field.maybe)


def _python(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """python -c CODE, a program on stdin, or a file."""
    texts = [field.text for field in fields]
    code: Value = ()
    if "-c" in texts[1:-1]:
        index = texts.index("-c") + 1
        code = fields[index].pieces
        inputs = taints_of(stdin) | taints_of(piece for field in fields[index:] for piece in field.pieces)
    elif all(text.startswith("-") for text in texts[1:2]) and texts[1:2] != ["-m"] and "-m" not in texts and stdin:
        code, inputs = stdin, taints_of(stdin)
        if len([text for text in texts[1:] if not text.startswith("-")]):
            inputs |= taints_of(piece for field in fields for piece in field.pieces)
    else:
        return _program(shell, fields, stdin, at)
    from stepguard.scripts.python_inline import printed_by

    return (unknown(at, inputs | printed_by(shell, code)),)


_HANDLERS: dict[str, Handler] = {
    **BUILTINS,
    **TOOLS,
    "exec": _exec,
    "env": _env,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "stepguard": _stepguard,
    "xargs": _xargs,
    "parallel": _parallel,
    "python": _python,
    "python3": _python,
    "srun": launching.srun,
    "sbatch": launching.sbatch,
    "salloc": launching.sbatch,
}
