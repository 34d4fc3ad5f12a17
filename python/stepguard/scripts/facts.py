# SPDX-License-Identifier: Apache-2.0
"""What the script does that a rule may be about. The shell gathers facts, the rules judge them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from stepguard.scripts.values import Taint


class Step(NamedTuple):
    """An srun that starts a step. `at` is where srun stands, `option_at` where its --auto-resume does (-1 without).

    `guard` is "1", "0", "" (no option), "?" (a value that is not known) or another value; `conditional` whether the
    option is there on some paths only, `at_times_plain` whether the step was met with and without it. `program` are
    the words that tell what runs. `options`: long name → value.
    """

    at: int
    guard: str
    conditional: bool
    option_at: int
    program: tuple[str, ...]
    options: dict[str, str]
    branch: tuple[tuple[int, int], ...]
    is_het: bool
    setup: str
    is_misplaced: bool
    at_times_plain: bool = False


class Mention(NamedTuple):
    """--auto-resume where it is no option of srun: `place` is directive, sbatch, salloc, command, variable, program,
    or argument (what is no mistake: the program's own)."""

    at: int
    place: str
    value: str


class Use(NamedTuple):
    """A value of the job's nodes that decides where something runs: `sink` says what it decides, `sink_at` where."""

    taint: Taint
    sink: str
    sink_at: int
    softly: bool


class Setup(NamedTuple):
    """A command that prepares nodes outside of any guarded step."""

    at: int
    what: str


@dataclass
class Job:
    """One job script: the file itself, or one within it that sbatch is given."""

    directives: list[tuple[int, str]] = field(default_factory=list)
    late_directives: list[tuple[int, str]] = field(default_factory=list)
    has_script: bool = True
    steps: dict[int, Step] = field(default_factory=dict)
    mentions: dict[int, Mention] = field(default_factory=dict)
    uses: dict[tuple[int, bool], Use] = field(default_factory=dict)
    setups: dict[int, Setup] = field(default_factory=dict)
    reads_task_variable: bool = False
    starts_step: bool = False
