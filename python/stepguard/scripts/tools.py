# SPDX-License-Identifier: Apache-2.0
"""Programs that print: what their output comes from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.programs import base
from stepguard.scripts.values import (
    CLEAN,
    Array,
    Field,
    Piece,
    Taint,
    Taints,
    Value,
    computed,
    counted,
    flat,
    key_of,
    taints_of,
    unknown,
)
from stepguard.scripts.variables import STALE, is_stale_count

if TYPE_CHECKING:
    from stepguard.scripts.shell import Shell


def echo(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    words = [field for field in fields[1:] if field.text not in ("-e", "-n", "-en", "-ne")]
    return (*flat(Array(tuple(words))), Piece("\n", at))


def printf(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    words = list(fields[1:])
    if words and words[0].text == "-v" and len(words) > 1:
        taints = taints_of(piece for field in words[2:] for piece in field.pieces)
        plain = words[3].pieces if len(words) == 4 and words[2].text == "%s" else (unknown(at, taints),)
        shell.assign(words[1].text, plain)
        return ()
    if words and words[0].text.strip("\\n ") == "%s" and len(words) > 1:
        return (*flat(Array(tuple(words[1:]))), Piece("\n", at))
    if len(words) == 1:
        return (Piece(words[0].text.replace("\\n", "\n"), words[0].at), *_only_taints(words[0].taints, at))
    return (unknown(at, taints_of(piece for field in words for piece in field.pieces)),)


def _only_taints(taints: Taints, at: int) -> Value:
    return (unknown(at, taints),) if taints else ()


def cat(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    names = [field for field in fields[1:] if not field.text.startswith("-") or field.text == "-"]
    if not names or (len(names) == 1 and names[0].text == "-"):
        return stdin
    found: list[Piece] = []
    for field in names:
        found += shell.scope.files.get(key_of(field.pieces), stdin if field.text == "-" else ())
    return tuple(found) or (unknown(at),)


def tee(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    for field in fields[1:]:
        if not field.text.startswith("-"):
            shell.scope.files[key_of(field.pieces)] = stdin
    return stdin


def copy(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    names = [field for field in fields[1:] if not field.text.startswith("-")]
    shell.prepare(base(fields[0].text), fields, at)
    if len(names) == 2:
        content = shell.scope.files.get(key_of(names[0].pieces))
        if content is not None:
            shell.scope.files[key_of(names[1].pieces)] = content
    return ()


def tool(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """A program that turns words, files and its input into what it prints."""
    taints = taints_of(stdin)
    for field in fields[1:]:
        taints |= field.taints
        content = shell.scope.files.get(key_of(field.pieces))
        if content:
            taints |= taints_of(content)
        taints |= _named_within(field)
        if any(piece.label == _ENVIRONMENT for piece in stdin):
            taints |= _filtered(field)
    name = base(fields[0].text)
    if name in ("wc", "nl") or (name == "grep" and any(field.text in ("-c", "-cv", "-vc") for field in fields)):
        taints = counted(taints)
    elif name in ("seq", "expr", "bc"):
        taints = computed(taints)
    return (unknown(at, taints),)


_READS_ENVIRONMENT = re.compile(r"(?:environ|getenv|ENVIRON|ENV)\W{1,4}(SLURM_\w+)")


def _filtered(field: Field) -> Taints:
    """Variables that are picked out of what env prints."""
    found = CLEAN
    for piece in field.pieces:
        for match in STALE.finditer(piece.text or ""):
            found |= {Taint(piece.at + match.start(), match[0], is_stale_count(match[0]))}
    return found


def _named_within(field: Field) -> Taints:
    """Variables that a one-liner of awk, perl or Python reads."""
    found = CLEAN
    for piece in field.pieces:
        if piece.text and "SLURM_" in piece.text:
            for match in _READS_ENVIRONMENT.finditer(piece.text):
                if STALE.fullmatch(match[1]):
                    at = piece.at + len(piece.text[: match.start(1)].encode("utf-8", "surrogateescape"))
                    found |= {Taint(at, match[1], is_stale_count(match[1]))}
    return found


_ENVIRONMENT = "(the environment)"


def everything(at: int) -> Value:
    """What env prints."""
    return (unknown(at, CLEAN, _ENVIRONMENT),)


def printenv(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    found: list[Piece] = []
    if len(fields) == 1:
        return everything(at)
    for field in fields[1:]:
        found += flat(shell.lookup(field.text, field.at))
    return tuple(found)


def scontrol(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    words = [field for field in fields[1:] if not field.text.startswith("-")]
    texts = [field.text.lower() for field in words]
    if len(texts) > 1 and texts[0].startswith("sho") and texts[1].startswith("hostna"):
        if len(words) < 3:
            return (unknown(at, _lookup_taints(shell, "SLURM_JOB_NODELIST", fields[0].at)),)
        return (unknown(at, taints_of(piece for field in words[2:] for piece in field.pieces)),)
    if len(texts) > 2 and texts[0].startswith("sho") and texts[1].startswith("hostl"):
        return (unknown(at, taints_of(piece for field in words[2:] for piece in field.pieces)),)
    if len(texts) > 1 and texts[1].startswith("node"):
        return (unknown(at, taints_of(piece for field in words[1:] for piece in field.pieces)),)
    return (unknown(at),)


def _lookup_taints(shell: Shell, name: str, at: int) -> Taints:
    return taints_of(flat(shell.lookup(name, at)))


TOOLS = {
    "echo": echo,
    "printf": printf,
    "cat": cat,
    "tee": tee,
    "cp": copy,
    "mv": copy,
    "ln": copy,
    "printenv": printenv,
    "scontrol": scontrol,
}
