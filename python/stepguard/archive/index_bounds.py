# SPDX-License-Identifier: Apache-2.0
"""How much of one user's index is read: the files are the user's own, who may have made them as large as the disk.

2 x 10^5 lines, two a record of 10^5 records, are 25 MiB. Of more than the bound the ends are read, where the youngest
lines are; each file has its share, so that one which has grown takes nothing from the others.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from stepguard.archive.layout import is_safe_name

READ_MAX_BYTES = 64 << 20
# Nodes that have led a job of one user.
_FILES_MAX = 16384
SUFFIX = ".tsv"
NODES_FILE = "nodes"
_NODES_MAX_BYTES = _FILES_MAX * 64
Tell = Callable[[str], None]


def say_nothing(_: str) -> None:
    """For who does not want to know what was not read."""


def files_in(directory: int | Path) -> dict[str, int]:
    """Names and sizes of the files of a user's index, and of no more than there can be. Raises OSError."""
    with os.scandir(directory) as entries:
        return dict(islice(_sized(entries), _FILES_MAX))


def nodes_in(content: bytes) -> set[str]:
    """The names of nodes in the file of that name."""
    return set(filter(is_safe_name, content[-_NODES_MAX_BYTES:].decode("ascii", errors="replace").split("\n")))


def files_named(directory: Path, names: Iterable[str]) -> dict[str, int]:
    """The same of files that are known by their names: for who may not list the directory."""
    sizes = {}
    for name in islice(names, _FILES_MAX):
        with contextlib.suppress(OSError):
            sizes[name] = (directory / name).lstat().st_size
    return sizes


def shares(sizes: Mapping[str, int]) -> dict[str, int]:
    """How many bytes of the end of each file are read."""
    left_bytes, left_files = READ_MAX_BYTES, len(sizes)
    found = {}
    for name, size_bytes in sorted(sizes.items(), key=lambda one: one[1]):
        found[name] = min(size_bytes, left_bytes // left_files)
        left_bytes -= found[name]
        left_files -= 1
    return found


def tell_left_out(uid: int, sizes: Mapping[str, int], tell: Tell) -> None:
    """Says what of a user's index is not read, if anything."""
    if (total_bytes := sum(sizes.values())) > READ_MAX_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        tell(
            f"of the {total_bytes >> 20} MiB in index/{uid} only the last {READ_MAX_BYTES >> 20} are read, and jobs "
            f"may be missing: {ascii(largest)[1:-1]} is the largest file; without it, `stepguard archive "
            "rebuild-index` finds what it told"
        )


def _sized(entries: Iterator[os.DirEntry[str]]) -> Iterator[tuple[str, int]]:
    for entry in entries:
        if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
            yield entry.name, entry.stat(follow_symlinks=False).st_size
