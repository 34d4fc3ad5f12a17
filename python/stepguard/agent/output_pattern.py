# SPDX-License-Identifier: Apache-2.0
"""The file that a batch script's output goes to, from the pattern of `sbatch -o`, as slurmstepd makes it (fname.c).

Only the fallback: what the batch task itself has open is the truth, where it was told. A backslash switches all
expansion off. Oddities are those of 24.11: an unknown letter after a width loses its `%`. 22.05 knows no %b; 26.05
leaves `%3z` as it is, and drops a `%` at the end and a doubled backslash. Tried in labs of these releases.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_WIDTH_MAX = 10
_NO_VALUE = 0xFFFFFFFE
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
    expanded = re.sub(r"\\(\\?)", r"\1", pattern) if "\\" in pattern else _expand(pattern, names)
    if expanded.startswith("/"):
        return expanded
    return names.work_dir + ("" if names.work_dir.endswith("/") else "/") + expanded


def _expand(pattern: str, names: Names) -> str:
    task = _NO_VALUE if names.array_task_id is None else names.array_task_id
    array_job = names.job_id if names.array_task_id is None else names.array_job_id or names.job_id
    numbers = {"a": task, "A": array_job, "b": task % 10, "j": names.job_id, "J": names.job_id, "n": 0, "t": 0}
    texts = {"s": "batch", "N": names.node, "u": names.user, "x": names.job_name}

    def converted(match: re.Match[str]) -> str:
        width, letter = match[1], match[2]
        if match[0] == "%%":
            return "%"
        zeros = min(int(width), _WIDTH_MAX) if width else 0
        if letter in numbers:
            return f"{numbers[letter]:0{zeros}}"
        if letter in texts:
            return texts[letter]
        return width[-1] if width else "%"

    return _CONVERSION.sub(converted, pattern)
