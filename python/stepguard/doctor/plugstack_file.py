# SPDX-License-Identifier: Apache-2.0
"""Reads plugstack.conf as Slurm does (spank(8); src/common/plugstack.c of 22.05, spank.c of 23.02 to 26.05)."""

from __future__ import annotations

import errno
import glob
from dataclasses import dataclass, field
from pathlib import Path

_KINDS = ("required", "optional")
# Slurm itself follows an include of a file in itself until it has no descriptors left.
_MAX_DEPTH = 16


@dataclass(frozen=True)
class Line:
    """One plugin of the stack, and where it is named."""

    file: Path
    number: int
    required: bool
    path: str
    arguments: tuple[str, ...]

    @property
    def place(self) -> str:
        """For messages."""
        return f"{self.file} line {self.number}"


@dataclass
class Stack:
    """What plugstack.conf and the files that it includes say; `troubles` are what Slurm stumbles over."""

    lines: list[Line] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    # (place, the pattern as it is written, how many files it names here)
    includes: list[tuple[str, str, int]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)


def read(path: Path) -> Stack:
    """The stack that begins with this file; a file that is missing is an empty one, as for Slurm."""
    stack = Stack()
    _read_into(stack, path, 0)
    return stack


def _read_into(stack: Stack, path: Path, depth: int) -> None:
    if depth > _MAX_DEPTH:
        stack.troubles.append(f"{path}: includes itself")
        return
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        if error.errno != errno.ENOENT:
            stack.troubles.append(f"{path}: {error.strerror}: srun, sbatch and slurmd do not start")
        return
    stack.files.append(path)
    for number, written in enumerate(text.split("\n"), 1):
        words = written.partition("#")[0].split()
        if not words:
            continue
        place = f"{path} line {number}"
        if words[0] not in (*_KINDS, "include") or len(words) < 2:
            stack.troubles.append(f"{place} is not understood: Slurm says so with every command and goes on")
        elif words[0] == "include":
            # A pattern without a slash in front is looked for beside the file.
            found = sorted(glob.glob(str(path.parent / words[1])))  # noqa: PTH207 - may be absolute
            stack.includes.append((place, words[1], len(found)))
            for name in found:
                _read_into(stack, Path(name), depth + 1)
        else:
            stack.lines.append(Line(path, number, words[0] == "required", words[1], tuple(words[2:])))
