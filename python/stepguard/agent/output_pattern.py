# SPDX-License-Identifier: Apache-2.0
"""The file that a batch script's output goes to, from the pattern of `sbatch -o`, as slurmstepd makes it (fname.c).

Only the fallback: what the batch task itself has open is the truth, where it was told. Oddities are Slurm's own: an
unknown letter after a width loses its `%`, a backslash switches all expansion off, and then a relative name follows the
directory without a `/` (22.05 to 26.05).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_WIDTH_MAX = 10
_NO_VALUE = 0xFFFFFFFE
_BATCH_STEP = 0xFFFFFFFB
_CONVERSION = re.compile(r"%(?:%|([0-9]*)([aAbjJnNstux]?))", re.ASCII)


class Names(NamedTuple):
    """What stands for the letters; `array_task_id` is None outside an array."""

    job_id: int
    array_job_id: int | None = None
    array_task_id: int | None = None
    node: str = ""
    user: str = ""
    job_name: str = ""
    work_dir: str = "/"


def default(names: Names) -> str:
    """The pattern where none was given."""
    return "slurm-%j.out" if names.array_task_id is None else "slurm-%A_%a.out"


def path(pattern: str, names: Names) -> str:
    """The path of the batch step's output (task 0 of node 0)."""
    if pattern.isascii() and pattern.isdigit() and int(pattern) != 0:
        return "/dev/null"  # output of that task alone, which a batch step does not have
    is_relative = not pattern.startswith("/")
    if "\\" in pattern:
        return (names.work_dir if is_relative else "") + re.sub(r"\\(\\?)", r"\1", pattern)
    expanded = _expand(pattern, names)
    if is_relative:
        return names.work_dir + ("" if names.work_dir.endswith("/") else "/") + expanded
    return expanded


def _expand(pattern: str, names: Names) -> str:
    task = _NO_VALUE if names.array_task_id is None else names.array_task_id
    array_job = names.job_id if names.array_task_id is None else names.array_job_id or names.job_id
    numbers = {"a": task, "A": array_job, "b": task % 10, "j": names.job_id, "n": 0, "s": _BATCH_STEP, "t": 0}
    texts = {"N": names.node, "u": names.user, "x": names.job_name}

    def converted(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        if match[0] == "%%":
            return "%"
        zeros = min(int(width), _WIDTH_MAX) if width else 0
        if letter == "J":
            return f"{names.job_id:0{zeros}}.{_BATCH_STEP}"
        if letter in numbers:
            return f"{numbers[letter]:0{zeros}}"
        if letter in texts:
            return texts[letter]
        return width[-1] if width else "%"

    return _CONVERSION.sub(converted, pattern)
