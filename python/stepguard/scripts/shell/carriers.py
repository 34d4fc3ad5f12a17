# SPDX-License-Identifier: Apache-2.0
"""Commands that run others: wrappers, xargs, parallel, ssh; those that are told one as text: su -c, tmux, at."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from stepguard.scripts.options import arguments
from stepguard.scripts.programs import (
    COMMANDS,
    HARMLESS,
    LAUNCHERS,
    NAMES_LAUNCHER,
    PARALLEL_TAKES_VALUE,
    RUNNERS,
    SHELLS,
    SSH_TAKES_VALUE,
    TEXT_RUNNERS,
    WRAPPERS,
    base,
)
from stepguard.scripts.shell import launching
from stepguard.scripts.shell.tools import tool
from stepguard.scripts.values import Array, Field, Piece, Value, computed, flat, key_of, taints_of, text_of, unknown

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell

_TEXT_FOLLOWS = re.compile(r"-[a-z]*[cs]")  # bash -lc TEXT, bash -s
_CONDA_TAKES_VALUE = ("-n", "--name", "-p", "--prefix", "--cwd")  # of conda run (23.1 to 25.5)
_DESCRIPTOR = re.compile(r"\{\w+\}")  # exec {fd}> file
_STARTS_STEP = re.compile(
    r"(?:^|[;&|({\n]|\b(?:then|do|else|exec|time|nohup|sudo)\s)\s*(?:\S*/)?(?:srun|sbatch|salloc)\s"
)
_REMOTE = ("ssh", "rsh")
_XARGS_TAKES_VALUE = frozenset(
    ("-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E", "-j", "--jobs", "--arg-file", "--max-procs", "--max-args")
)
_OF_INTEREST = re.compile(r"SLURM_|scontrol|stepguard|--auto|\b(?:srun|sbatch|salloc)\b")
_STEP_WITHIN = re.compile(r"\b(?:srun|sbatch|salloc)\s+-")


def wrapper(shell: Shell, name: str, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    takes, before = WRAPPERS[name]
    position = 1
    while position < len(fields) and fields[position].text.startswith("-") and len(fields[position].text) > 1:
        if name == "command" and fields[position].text in ("-v", "-V"):
            return found(shell, fields[position:], stdin, at)
        position += 2 if fields[position].text in takes else 1
    position += before
    return shell.start(fields[position:], stdin, at) if position < len(fields) else ()


def conda(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """conda run [OPTIONS] COMMAND; what else conda does is on this host alone."""
    if [field.text for field in fields[1:2]] != ["run"]:
        return program(shell, fields, stdin, at)
    position = 2
    while position < len(fields) and fields[position].text.startswith("-"):
        position += 2 if fields[position].text in _CONDA_TAKES_VALUE else 1
    return shell.start(fields[position:], stdin, at) if position < len(fields) else ()


def found(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """which NAME, command -v NAME: prints the program's path, as good as its name here."""
    names = [field for field in fields[1:] if not field.text.startswith("-")]
    return names[0].pieces if names else (unknown(at),)


def exec_(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    if all(_DESCRIPTOR.fullmatch(field.text) for field in fields[1:]):
        return ()
    printed = wrapper(shell, "exec", fields, stdin, at)
    shell.scope.ended = True
    return printed


def program(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """Any other program. Another command may stand behind it: nsys profile -o x srun …, ./wrap.sh srun …."""
    name = base(fields[0].text)
    if name in _REMOTE and (command := _behind_host(fields)):
        return _there(shell, fields[: len(fields) - len(command)], command, stdin, at)
    behind = len(fields) if name in LAUNCHERS and name not in RUNNERS else _command_behind(fields)
    own = fields[:behind]
    look_for_option(shell, own)
    printed = (tool if name in HARMLESS else launching.program)(shell, own, stdin, at)
    if name in TEXT_RUNNERS:
        _texts(shell, name, own, stdin)
    return shell.start(fields[behind:], stdin, at) if behind < len(fields) else printed


def _there(shell: Shell, own: Sequence[Field], command: Sequence[Field], stdin: Value, at: int) -> Value:
    """ssh HOST COMMAND: makes one text of the words, for a shell over there, which has none of the variables."""
    shell.prepare(base(own[0].text), [*own, *command], at)
    printed = launching.program(shell, own, (), at)
    text = flat(Array(tuple(command)))
    if not taints_of(text) and _OF_INTEREST.search(text_of(text)) is None:
        return (*printed, unknown(at))
    starts_step = _STEP_WITHIN.search(text_of(text)) is not None
    child = shell.child(in_step=shell.in_step or not starts_step)
    child.scope.variables.clear()
    child.scope.exported.clear()
    child.scope.functions.clear()
    answered = child.nested(text, child, stdin)
    shell.whole = shell.whole and child.whole
    return (*answered, *printed)


def _texts(shell: Shell, name: str, fields: Sequence[Field], stdin: Value) -> None:
    """Words, or the input, that are run as shell scripts."""
    for field in fields[1:]:
        if _STARTS_STEP.search(field.text):
            shell.nested_apart(field.pieces)
    if stdin and (name in ("at", "batch") or (name in _REMOTE and not _behind_host(fields))):
        shell.nested_apart(stdin)


def _behind_host(fields: Sequence[Field]) -> Sequence[Field]:
    """What ssh is to run: the words behind its options and the host."""
    position = 1
    while position < len(fields) and fields[position].text.startswith("-"):
        position += 2 if fields[position].text in SSH_TAKES_VALUE else 1
    return fields[position + 1 :]


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


def look_for_option(shell: Shell, fields: Sequence[Field]) -> None:
    """Notes the option on a command that is not srun; a shell script may hand it on to one."""
    name = base(fields[0].text)
    is_own = shell.guarded_step or name in SHELLS or name.endswith((".sh", ".bash"))
    for one in arguments(fields[1:]):
        if not one.field.pieces[0].quoted:
            place = "command" if one.is_for_srun and not is_own else "argument"
            launching.mention(shell, launching.shown_at(one.field), place, one.value)


def xargs(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    position = 1
    place = ""
    while position < len(fields) and fields[position].text.startswith("-"):
        text = fields[position].text
        if text in ("-a", "--arg-file") and position + 1 < len(fields):
            stdin = shell.scope.files.get(key_of(fields[position + 1].pieces), ())
        elif text.startswith("-I"):
            place = text[2:] or (fields[position + 1].text if position + 1 < len(fields) else "")
        position += 2 if text in _XARGS_TAKES_VALUE else 1
    item = unknown(at, taints_of(stdin))
    words = list(fields[position:]) or [Field((Piece("echo", at),))]
    if place:
        words = [_filled(field, place, item) for field in words]
    else:
        words.append(Field((item,)))
    return _at_once(shell, fields[1:position], lambda: shell.start(words, (), at))


def _at_once(shell: Shell, options: Sequence[Field], action: Callable[[], Value]) -> Value:
    """Runs a command several times at once: a number of nodes among the options says how many times."""
    control = shell.control
    shell.control |= computed(frozenset(taint for field in options for taint in field.taints if taint.is_count))
    printed = action()
    shell.control = control
    return printed


def parallel(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    texts = [field.text for field in fields]
    mark = next((index for index, text in enumerate(texts) if text in (":::", "::::")), len(fields))
    position = 1
    while position < mark and texts[position].startswith("-"):
        position += 2 if texts[position] in PARALLEL_TAKES_VALUE else 1
    launching.program(shell, [*fields[:position], *(f for f in fields[position:mark] if f.taints)], (), at)
    taints = taints_of(stdin) | taints_of(piece for field in fields[mark:] for piece in field.pieces)
    for field in fields[mark:]:
        taints |= taints_of(shell.scope.files.get(key_of(field.pieces), ()))
    item = unknown(at, taints)
    words = [_filled(field, "{}", item) for field in fields[position:mark]]
    if not words:
        return ()
    text = words[0].pieces if len(words) == 1 and " " in words[0].text else ()
    run = partial(shell.nested_apart, text) if text else partial(shell.start, words, (), at)
    return _at_once(shell, fields[1:position], run)


def _filled(field: Field, place: str, item: Piece) -> Field:
    pieces: list[Piece] = []
    for piece in field.pieces:
        if piece.text is None or place not in piece.text:
            pieces.append(piece)
            continue
        before, _, after = piece.text.partition(place)
        pieces += [p for p in (piece._replace(text=before), item, piece._replace(text=after)) if p.text != ""]
    return Field(tuple(pieces), field.maybe)
