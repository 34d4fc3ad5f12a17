# SPDX-License-Identifier: Apache-2.0
"""Host lists in Slurm's syntax: "n[01-03,7],login" ↔ the names, in Slurm's order and with its duplicates.

Not ClusterShell: its node sets are sorted, hold each name once, fold several brackets at once, and give a meaning to
"@", "!", "&", "^" and "/", none of which Slurm does. The order is what srun ranks tasks by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product

from stepguard.errors import StepguardError

# A bound on what one expression may stand for; Slurm has the same on one range (MAX_RANGE in hostlist.c).
_MAX_NAMES = 65536
_HOST = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
_NUMBERED = re.compile(r"(.*?)(\d{1,18})", re.DOTALL)


def expand(expression: str) -> list[str]:
    """The names that a host list stands for, as `scontrol show hostnames` prints them; an empty list of "".

    Raises StepguardError, with the text that is wrong, for what is no host list or stands for over 65536 names.
    What scontrol lets pass by accident ("n[1", "n[1-]", a text behind the last bracket) is refused too.
    """
    names: list[str] = []
    position = 0
    while position < len(expression):
        if expression[position] in ", \t\n":
            position += 1
            continue
        host = _HOST.match(expression, position)
        if host is None:
            raise _malformed(expression[position:], expression)
        names.extend(_expand_host(host[0], _MAX_NAMES - len(names)))
        position = host.end()
    return names


def fold(names: Iterable[str]) -> str:
    """One host list that stands for `names` in this order, as `scontrol show hostlist` prints it; "" of none."""
    folded: list[str] = []
    for prefix, ranges in _grouped(names):
        if not ranges:
            folded.append(prefix)
        elif len(ranges) == 1 and "-" not in ranges[0]:
            folded.append(prefix + ranges[0])
        else:
            folded.append(f"{prefix}[{','.join(ranges)}]")
    return ",".join(folded)


def _expand_host(host: str, at_most: int) -> list[str]:
    *parts, suffix = re.split(r"\[([^\[\]]*)\]", host)
    if not parts:
        return [host]
    if suffix:
        raise _malformed(suffix, host)
    prefixes, brackets = parts[::2], [_numbers(inner, host, at_most) for inner in parts[1::2]]
    count = 1
    for bracket in brackets:
        count *= len(bracket)
    if count > at_most:
        raise StepguardError(f"stands for more than {_MAX_NAMES} names", host, "name fewer hosts")
    # Slurm's order with three brackets and more: the last turns fastest, then the first, then the second, ...
    *outer, last = brackets
    return [
        "".join(map("".join, zip(prefixes, (*reversed(turned), number), strict=True)))
        for *turned, number in product(*reversed(outer), last)
    ]


def _numbers(inner: str, host: str, at_most: int) -> list[str]:
    numbers: list[str] = []
    for part in inner.split(","):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise _malformed(part or f"[{inner}]", host)
        low, high = found[1], found[2] or found[1]
        if int(high) < int(low):
            raise _malformed(part, host)
        if int(high) - int(low) >= at_most:
            raise StepguardError(f"stands for more than {_MAX_NAMES} names", host, "name fewer hosts")
        numbers.extend(str(number).zfill(len(low)) for number in range(int(low), int(high) + 1))
    return numbers


def _grouped(names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Neighbours of one prefix, with the ranges of their numbers; a name that ends in no number has no ranges."""
    prefix, awaited = "", ""
    ranges: list[str] = []
    for name in names:
        numbered = _NUMBERED.fullmatch(name)
        if numbered is None:
            if ranges:
                yield prefix, ranges
            yield name, []
            prefix, ranges, awaited = "", [], ""
            continue
        if numbered[1] != prefix and ranges:
            yield prefix, ranges
            ranges, awaited = [], ""
        prefix, number = numbered[1], numbered[2]
        if ranges and number == awaited:
            ranges[-1] = f"{ranges[-1].partition('-')[0]}-{number}"
        else:
            ranges.append(number)
        width = len(ranges[-1].partition("-")[0])
        awaited = str(int(number) + 1).zfill(width)
    if ranges:
        yield prefix, ranges


def _malformed(part: str, whole: str) -> StepguardError:
    return StepguardError(f"no host list: {part!r}", whole, "write it as n[01-03,7],login")
