# SPDX-License-Identifier: Apache-2.0
"""Programs that print: what their output comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stepguard.scripts.programs import COUNTING, base
from stepguard.scripts.shell import uses
from stepguard.scripts.shell.outputs import written, written_by_awk
from stepguard.scripts.values import (
    CLEAN,
    MAX_FIELDS,
    UNKNOWN,
    Array,
    Field,
    Piece,
    Taint,
    Taints,
    Value,
    computed,
    counted,
    flat,
    host_in,
    key_of,
    taints_of,
    text_of,
    unknown,
)
from stepguard.scripts.variables import HOSTNAMES_ALONE, STALE, is_stale_count

if TYPE_CHECKING:
    from stepguard.scripts.shell.walk import Shell


def echo(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    words = [field for field in fields[1:] if field.text not in ("-e", "-n", "-en", "-ne")]
    return (*flat(Array(tuple(words))), Piece("\n", at))


def printf(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    words = list(fields[1:])
    name = words[1].text if len(words) > 2 and words[0].text == "-v" else ""
    words = words[2:] if name else words
    words = words[1:] if words and words[0].text == "--" else words
    if not words:
        return ()
    printed = tuple(_formatted(words[0].pieces, words[1:], at))
    if name:
        shell.assign(name, printed)
        return ()
    return printed


def _formatted(form: Value, arguments: list[Field], at: int) -> Iterator[Piece]:
    """What printf makes of its arguments; the format is used until none is left."""
    waiting = iter(arguments[:MAX_FIELDS])
    argument = next(waiting, None)
    while True:
        before = argument
        for piece in form:
            if piece.text is None:
                yield piece
                continue
            for found in _FORMAT.finditer(piece.text):
                if found["spec"] and found["spec"] != "%%":
                    yield from argument.pieces if argument is not None else ()
                    argument = next(waiting, None)
                elif found[0]:
                    text = _ESCAPES.get(found[0], found[0])
                    yield piece._replace(text=text, at=piece.at + found.start())
        if argument is None or argument is before:
            return


_FORMAT = re.compile(r"(?P<spec>%[-+ #0-9.*]*[a-zA-Z%])|\\[nt]|[^%\\]+|.", re.DOTALL)
_ESCAPES = {"\\n": "\n", "\\t": "\t", "%%": "%"}


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
            shell.write(key_of(field.pieces), stdin)
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
    edits = base(fields[0].text) == "sed"
    for field in fields[1:]:
        taints |= _not_in_names(field) if edits else field.taints
        content = shell.scope.files.get(key_of(field.pieces))
        if content:
            taints |= taints_of(content)
        taints |= named_within(field, shell.guarded_step)
        if any(piece.label == _ENVIRONMENT for piece in stdin):
            taints |= _filtered(field, shell.guarded_step)
    name = base(fields[0].text)
    for file in written(name, fields) if taints else ():
        shell.write(file, (unknown(at, taints),))
    if taints and edits and any(field.text.startswith(("-i", "--in-place")) for field in fields):
        file = key_of(fields[-1].pieces)
        shell.scope.files[file] = (*shell.scope.files.get(file, ()), unknown(at, taints))
    if taints and name in _AWK:
        for file in written_by_awk(fields):
            shell.scope.files[file] = (unknown(at, taints),)
        if any(_AWK_STARTS.search(field.text) for field in fields[1:]):
            uses.note(shell, taints, f"what {name} starts", at)
    if name in ("wc", "nl") or any(field.text in COUNTING.get(name, ()) for field in fields[1:]):
        taints = counted(taints)
    elif name in ("seq", "expr", "bc", "dc"):
        taints = computed(taints)
    elif name in (*_AWK, "jq"):
        taints = calculated("\n".join(field.text for field in fields[1:]), "", taints)
    if name in ("grep", "egrep", "fgrep"):
        shell.ask([*stdin, *(piece for field in fields for piece in field.pieces)])
    return (unknown(at, taints, host_in(stdin)),)


def _not_in_names(field: Field) -> Taints:
    """What comes from elsewhere in a word; not a number that is a part of a name: s/DIR/out-8n/."""
    found = CLEAN
    before = ""
    for piece in field.pieces:
        counts_name = before[-1:].isalpha() or before[-1:] in ("_", "-")
        found |= frozenset(taint for taint in piece.taints if not (taint.is_count and counts_name))
        before = piece.text or ""
    return found


_AWK = ("awk", "gawk", "mawk", "nawk")
_AWK_STARTS = re.compile(
    r"\bsystem\s*\([^)]*\b(?:ssh|rsh|scp|rsync|pdsh|clush|srun|mpirun|mpiexec)\b|\|\s*\"\s*(?:ssh|sh|bash|xargs)\b"
)
# An operator between two operands, or a function of numbers, in awk, perl, Python and their like.
_ARITHMETIC = re.compile(
    rf"[\w\])}}{UNKNOWN}]\s*(?:\*\*?|//?|%|\+|-)\s*[\w($.{UNKNOWN}]|\b(?:sqrt|log2?|pow|max|min)\("
)


def calculated(code: str, code_on_stdin: str, taints: Taints) -> Taints:
    """The taints of what a one-liner prints: a number that it calculates with is another one."""
    if not (_ARITHMETIC.search(code) or _ARITHMETIC.search(code_on_stdin)):
        return taints
    return frozenset(taint._replace(computed=True) if taint.is_count else taint for taint in taints)


_READS_ENVIRONMENT = re.compile(r"(?:(?:environ|env|ENVIRON|ENV)\W{1,4}|hostnames?\s+\$\{?)(SLURM_\w+)")


def _filtered(field: Field, in_step: bool) -> Taints:
    """Variables that are picked out of what env prints."""
    found = CLEAN
    for piece in field.pieces:
        for match in STALE.finditer(piece.text or ""):
            found |= {Taint(piece.at + match.start(), match[0], is_stale_count(match[0]), in_step)}
    return found


def named_within(field: Field, in_step: bool, is_program: bool = False) -> Taints:
    """Variables that a one-liner of awk, perl, R or Python reads; `is_program`: or what it starts."""
    found = CLEAN
    text = field.text
    if "SLURM_" in text:
        for match in _READS_ENVIRONMENT.finditer(text):
            if STALE.fullmatch(match[1]):
                at = _place(field.pieces, match.start(1))
                found |= {Taint(at, match[1], is_stale_count(match[1]), in_step)}
    for match in HOSTNAMES_ALONE.finditer(text) if is_program else ():
        found |= {Taint(_place(field.pieces, match.start()), "SLURM_JOB_NODELIST", False, in_step)}
    return found


def _place(value: Value, index: int) -> int:
    """Where the character of that number stands."""
    at = 0
    for piece in value:
        text = text_of((piece,))
        at = piece.at
        if index < len(text):
            return at + len(text[:index].encode("utf-8", "surrogateescape")) if piece.text is not None else at
        index -= len(text)
    return at


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


def hostname(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    """hostname, uname -n: where this shell runs."""
    is_name = base(fields[0].text) == "hostname" or any(field.text in ("-n", "--nodename") for field in fields)
    return (unknown(at, label="HOSTNAME" if is_name else ""),)


def scontrol(shell: Shell, fields: Sequence[Field], stdin: Value, at: int) -> Value:
    words = [field for field in fields[1:] if not field.text.startswith("-")]
    texts = [field.text.lower() for field in words]
    if len(texts) > 1 and texts[0].startswith("sho") and texts[1].startswith("hostna"):
        if len(words) < 3:
            first = fields[0].pieces[0]
            read_at = first.used_at if first.used_at >= 0 else first.at
            return (unknown(at, _lookup_taints(shell, "SLURM_JOB_NODELIST", read_at)),)
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
    "sponge": tee,
    "cp": copy,
    "mv": copy,
    "ln": copy,
    "printenv": printenv,
    "hostname": hostname,
    "uname": hostname,
    "scontrol": scontrol,
}
