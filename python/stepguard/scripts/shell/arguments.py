# SPDX-License-Identifier: Apache-2.0
"""Which arguments decide where something runs: a launcher's own, those of what it launches, what settings say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from stepguard.scripts.options import behind_equals
from stepguard.scripts.programs import (
    CONNECTING,
    COPIERS,
    DECIDING,
    DESCRIBING,
    DESCRIBING_KEY,
    INTERPRETERS,
    LAUNCHER_MODULES,
    LAUNCHERS,
    MODULE_LAUNCHERS,
    NAMING,
    PROGRAM_LAUNCHERS,
    SHELLS,
    TAKES_FILE,
    TAKES_TWO,
    TUNING,
    base,
    is_python,
    placing_options,
)
from stepguard.scripts.values import CLEAN, UNKNOWN, Field, Taints, Value, key_of, taints_of, text_of

_OPTION = re.compile(r"-{0,2}[\w.+@-]+")
_GLUED = re.compile(r"(?:-{1,2}|\+{1,2})[A-Za-z]{1,3}")  # -np8, +p8
_PROGRAM = re.compile(r"\./[^.]*|.*/bin/[^/]+|.*\.(?:py|sh|exe|x|jar)")
# $EXE, of the caller's environment.
_NAMED_PROGRAM = re.compile(r"(?i)(?:^|_)(?:app|bin|binary|cmd|command|exe|exec|executable|prog|program|script)$")
_LAUNCH_FILE = ("torch/distributed/launch.py", "torch/distributed/run.py")
_ADDRESS = re.compile(rf"^\w+://(?:[^/\s]*@)?{UNKNOWN}|^{UNKNOWN}:(?:\d+|{UNKNOWN})\b")
_KEY = re.compile(r"[\"']?([\w.-]+)[\"']?\s*[:=][^,;{}]*$")


def is_launcher(fields: Sequence[Field]) -> bool:
    """Whether a command starts something elsewhere, or tells something elsewhere how it finds its peers."""
    return base(fields[0].text) in LAUNCHERS or _behind_module(fields) > 0


def own_name(fields: Sequence[Field]) -> str:
    """The name of the program or script that a command runs: deploy.sh of bash deploy.sh."""
    name = base(fields[0].text)
    if name in SHELLS or is_python(name):
        return next((base(field.text) for field in fields[1:] if not field.text.startswith("-")), name)
    return name


def deciding(fields: Sequence[Field], files: Mapping[str, Value], every: bool) -> Iterator[tuple[str, Taints]]:
    """The options of a command ("" for a word that stands alone) with what they decide comes from.

    `every`: also what says nothing of nodes by its name, since the command is a launcher or a task of a step.
    """
    own_options = placing_options(base(fields[0].text))
    launches = is_launcher(fields)
    launched = _launched(fields) if launches else frozenset()
    pending = ""
    for index, field in enumerate(fields[1:], 1):
        is_own = launches and index not in launched
        option, value, pending = _told(field, pending, is_own or own_options is not None)
        name = option.lstrip("-+")
        decides = bool(_decides(name) or (own_options is not None and own_options.fullmatch(name)))
        content = next((files[key] for key in (key_of(value), key_of(value).lstrip("^@")) if key in files), ())
        names_only = not decides and not every and connects(name, value)
        if not decides and not names_only and (not every or NAMING.search(name)):
            continue
        if base(fields[0].text) in COPIERS:
            value, content = _host(value), ()
        taints = _of_value(name, taints_of(value), value, is_own, decides)
        taints |= taints_of(content) if is_own or decides else _of_settings(content)
        if names_only:
            taints = frozenset(taint for taint in taints if not taint.is_count)
        if taints:
            yield option, taints


def _host(value: Value) -> Value:
    """What stands before the colon of HOST:PATH, nothing of a path alone."""
    for index, piece in enumerate(value):
        if ":" in (piece.text or ""):
            return value[:index]
    return ()


def _decides(name: str) -> bool:
    return DECIDING.search(name) is not None and DESCRIBING.search(name) is None


def connects(name: str, value: Value) -> bool:
    """Whether nodes named in a value are to be reached: by the option, or as an address: tcp://NODE, NODE:80."""
    if NAMING.search(name) or DESCRIBING.search(name):
        return False
    return CONNECTING.search(name) is not None or _ADDRESS.search(text_of(value)) is not None


def is_name(value: Value) -> bool:
    """Whether a number is only a part of a name: gpt-8n, runs/8/out."""
    text = "".join(piece.text or "" for piece in value)
    return any(char.isalpha() for char in text) and ":" not in text


def _told(field: Field, pending: str, may_be_glued: bool) -> tuple[str, Value, str]:
    """An argument's option and value, and the option whose value comes next."""
    text = field.text
    name, equals, _ = text.partition("=")
    if equals and _OPTION.fullmatch(name):
        return name, behind_equals(field), ""
    first = field.pieces[0].text or "" if len(field.pieces) > 1 else ""
    if may_be_glued and _GLUED.fullmatch(first):
        return first, field.pieces[1:], ""
    if text.startswith("-") and len(text) > 1:
        return text, field.pieces, text
    return pending, field.pieces, ""


def _of_value(name: str, taints: Taints, value: Value, is_own: bool, decides: bool) -> Taints:
    """What of a value decides something. A program's own --lr or --batch-size decides not where anything runs."""
    if not any(taint.is_count for taint in taints):
        return taints
    no_count = is_name(value) or (not is_own and not decides and TUNING.search(name) is not None)
    no_computed = not is_own and not decides and bool(name)
    return frozenset(
        taint for taint in taints if not (taint.is_count and (no_count or (no_computed and taint.computed)))
    )


def _of_settings(content: Value) -> Taints:
    """What of a file of settings decides something: not what only describes the run, nor a comment."""
    found = CLEAN
    line = ""
    for piece in content:
        if piece.taints and not line.lstrip().startswith("#"):
            key = _KEY.search(line)
            name = key[1] if key is not None else ""
            decides = _decides(name)
            if decides or not (NAMING.search(name) or DESCRIBING_KEY.fullmatch(name)):
                found |= _of_value(name, piece.taints, (piece,), False, decides)
        line = (line + text_of((piece,))).rpartition("\n")[2]
    return found


# -- what a launcher launches -----------------------------------------------------------------------------------------


def _behind_module(fields: Sequence[Field]) -> int:
    """Where the options of python -m LAUNCHER begin, 0 where it is none."""
    texts = [field.text for field in fields]
    if "-m" in texts[:-1]:
        index = texts.index("-m") + 1
        return index + 1 if LAUNCHER_MODULES.fullmatch(texts[index]) else 0
    return next((index + 1 for index, text in enumerate(texts) if text.endswith(_LAUNCH_FILE)), 0)


def _launched(fields: Sequence[Field]) -> frozenset[int]:
    """The numbers of the words that belong to the program which a launcher launches."""
    name = base(fields[0].text)
    by_module = name in MODULE_LAUNCHERS or is_python(name)
    if not by_module and name not in PROGRAM_LAUNCHERS:
        return frozenset()
    start = max(_behind_module(fields), 1)
    start += start < len(fields) and fields[start].text in ("launch", "run")
    found: set[int] = set()
    option, values = "", 0  # the option before, and how many of its values may still come
    for index in range(start, len(fields)):
        field, text = fields[index], fields[index].text
        if found:
            if text == ":" and not by_module:  # mpirun -n 1 ./a : -n 2 ./b
                return frozenset(found) | {at + index for at in _launched([fields[0], *fields[index + 1 :]])}
            found.add(index)
        elif by_module and text in ("-m", "--module"):
            found.add(index)
        elif text[:1] in ("-", "+"):
            option, values = text, 0 if "=" in text else 2 if text.lstrip("-") in TAKES_TWO else 1
        elif field.is_unknown and not _NAMED_PROGRAM.search(field.pieces[0].label):  # $OPTIONS, most likely
            values = 0
        elif not values or _is_program(text, option):
            found.add(index)
        else:
            values -= 1
    return frozenset(found)


def _is_program(text: str, option: str) -> bool:
    """Whether the word behind an option is a program, since the option takes no value."""
    name = option.lstrip("-")
    if DECIDING.search(name) or name in TAKES_FILE:
        return False
    return base(text) in INTERPRETERS or _PROGRAM.fullmatch(text) is not None
