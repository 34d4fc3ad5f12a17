# SPDX-License-Identifier: Apache-2.0
"""Uses of the job's nodes: what decides where something runs, by a command's words, its environment, its files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.facts import Use
from stepguard.scripts.programs import (
    HOST_FILE,
    KNOWN_FILES,
    OWN_FILES,
    WRITING_OPTION,
    WRITING_PROGRAM,
    base,
    is_python,
)
from stepguard.scripts.shell.arguments import is_name
from stepguard.scripts.values import MAX_TAINTS, UNKNOWN, Field, Taints, flat, key_of, taints_of, text_of, unknown
from stepguard.scripts.variables import may_tell_of_peers, tells_of_peers

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell

_SETTINGS_FILE = re.compile(
    r"(?i)[^=]\.(?:ini|cfg|conf|config|ya?ml|json|toml|xml|env|properties|hosts?|txt|lst)$|host_?file|machine_?file"
)

_FILE = re.compile(rf"[^-=][\w./{UNKNOWN}]*[./][\w./{UNKNOWN}-]+")
_IN_TEXT = re.compile(r"[\s=]")  # a sentence, or name=value
_SLOTS = re.compile(r"\b(?:max_)?slots=|\bcpus?=\d")


def note(shell: Shell, taints: Taints, sink: str, at: int, softly: bool = False) -> None:
    """Notes that values decide where something runs."""
    if len(taints) >= MAX_TAINTS:
        shell.budget.spent = True
    for taint in taints:
        soft = taint.is_count and (softly or taint.computed)
        shell.job.uses.setdefault((taint.at, soft), Use(taint, sink, at, soft))


def by_control(shell: Shell, what: str, at: int) -> None:
    """Notes what decides how often a program is called, and on which of the nodes."""
    note(shell, shell.control, f"how often {what} is called", at, softly=True)
    note(shell, shell.placed, f"where {what} is called", at)


def known_files(shell: Shell, what: str, at: int) -> None:
    """Judges the files that programs read without being told of them."""
    shell.budget.take(len(shell.scope.files) >> 1)
    own = OWN_FILES.get(what)
    for file, content in shell.scope.files.items():
        name = base(file)
        if name in KNOWN_FILES or (own is not None and own.fullmatch(name)):
            note(shell, taints_of(content), f"{name}, which {what} may read", at)


def left_files(shell: Shell) -> None:
    """Judges the host files that are there in the end: nothing here reads them, so something else will."""
    for file, content in shell.scope.files.items():
        taints = taints_of(content)
        if taints and (HOST_FILE.fullmatch(file) or _SLOTS.search(text_of(content))):
            note(shell, taints, f"{base(file)}, which a launcher may read,", min(taint.at for taint in taints))


def may_write(shell: Shell, fields: Sequence[Field], taints: Taints, at: int) -> None:
    """A program that is told of nodes and of a file may put the ones into the other: crudini --set FILE … LIST."""
    names = (base(field.text) for field in fields[: 2 if is_python(base(fields[0].text)) else 1])
    writes = any(WRITING_PROGRAM.search(name) for name in names)
    if not writes and not any(WRITING_OPTION.fullmatch(field.text) for field in fields[1:]):
        return
    for field in fields[1:]:
        if not field.taints and (_SETTINGS_FILE.search(field.text) or (writes and _FILE.fullmatch(field.text))):
            file = key_of(field.pieces)
            shell.scope.files[file] = (*shell.scope.files.get(file, ()), unknown(at, taints))


def environment(shell: Shell, what: str, at: int, named_in: str | None = None, may_be_told: bool = False) -> None:
    """Judges what a program learns of its peers from the environment; `named_in`: only what that text names;
    `may_be_told`: also by variables whose names say nothing."""
    shell.budget.take(len(shell.scope.exported) >> 3)
    for name in sorted(shell.scope.exported):
        value = shell.scope.variables.get(name)
        if value is None or (named_in is not None and name not in named_in):
            continue
        held = flat(value)
        if not tells_of_peers(name):
            if may_be_told and may_tell_of_peers(name) and _IN_TEXT.search(text_of(held)) is None:
                taints = frozenset(taint for taint in taints_of(held) if not taint.is_count)
                note(shell, taints, f"{name}, which {what} gets", at)
            continue
        taints = taints_of(held) | taints_of(shell.scope.files.get(key_of(held), ()))
        taints = frozenset(taint for taint in taints if not (taint.is_count and is_name(held)))
        if taints:
            note(shell, taints, f"{name}, which {what} gets", at)
