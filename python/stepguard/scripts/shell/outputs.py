# SPDX-License-Identifier: Apache-2.0
"""The files that tools write instead of printing: sort -o FILE, split, awk '{ print > FILE }'."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from stepguard.scripts.options import behind
from stepguard.scripts.values import Field, Piece, key_of

_OUTPUT_OF = {"dd": re.compile("of="), "sort": re.compile("-o|--output="), "shuf": re.compile("-o|--output=")}
# What the names of the parts begin with unless told, and how they end; * for whoever reads all of them.
_PARTS = {"split": ("x", ("*", "aa", "ab", "00", "01")), "csplit": ("xx", ("*", "00", "01"))}
_SPLIT_TAKES_VALUE = frozenset(("-a", "-b", "-C", "-l", "-n", "-t"))  # GNU coreutils
_AWK_WRITES = re.compile(r">>?\s*(?:\"([\w./-]+)\"|([A-Za-z_]\w*))")
_GIVEN = re.compile(r"[A-Za-z_]\w*=")


def written(name: str, fields: Sequence[Field]) -> Iterator[str]:
    """The keys of the files that a tool writes."""
    if name in _PARTS:
        yield from _parts(name, [field.text for field in fields[1:]])
    option = _OUTPUT_OF.get(name)
    if option is None:
        return
    for field, following in pairwise((*fields[1:], Field(()))):
        if found := option.match(field.text):
            yield key_of(behind(field, found.end()) or following.pieces)


def _parts(name: str, words: Sequence[str]) -> Iterator[str]:
    """split -l 1 FILE PREFIX, csplit -f PREFIX FILE LINE."""
    prefix, endings = _PARTS[name]
    if name == "csplit":
        prefix = next((word for option, word in pairwise(words) if option == "-f"), prefix)
    else:
        own = [
            word
            for option, word in pairwise(("", *words))
            if option not in _SPLIT_TAKES_VALUE and (word == "-" or not word.startswith("-"))
        ]
        prefix = own[1] if len(own) > 1 else prefix
    for ending in endings:
        yield key_of((Piece(prefix + ending, -1),))


def written_by_awk(fields: Sequence[Field]) -> Iterator[str]:
    """The files that print > "file" or print > variable writes, with -v variable=file."""
    given = dict(field.text.split("=", 1) for field in fields[1:] if _GIVEN.match(field.text))
    for field in fields[1:]:
        for found in _AWK_WRITES.finditer(field.text):
            if file := found[1] or given.get(found[2], ""):
                yield file
