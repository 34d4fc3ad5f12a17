# SPDX-License-Identifier: Apache-2.0
"""What the training run says of itself, line by line: train.py's output."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_STARTS = re.compile(r"attempt (\d+): starts at step (\d+) on (\S+)")
_ALL_TRAIN = re.compile(r"attempt (\d+): all (\d+) ranks train: step (\d+)")
_CHECKPOINT = re.compile(r"attempt (\d+): checkpoint of step +(\d+)")
_DONE = re.compile(r"done: (\d+) steps")


@dataclass
class Attempt:
    """One attempt. `all_train_at` is the Unix time at which its first step of all ranks was seen, None before."""

    from_step: int
    nodes: str
    ranks: int = 0
    all_train_at: float | None = None


@dataclass
class Training:
    """All that was heard so far: attempts by number, the step of the last checkpoint, the steps done at the end."""

    attempts: dict[int, Attempt] = field(default_factory=dict)
    checkpoint: int = 0
    done: int = 0

    def hear(self, line: str, at: float) -> None:
        """Takes in a line of the job's output, seen at that Unix time."""
        if match := _STARTS.match(line):
            self.attempts[int(match[1])] = Attempt(int(match[2]), match[3])
        elif match := _ALL_TRAIN.match(line):
            attempt = self.attempts[int(match[1])]
            attempt.ranks, attempt.all_train_at = int(match[2]), at
        elif match := _CHECKPOINT.match(line):
            self.checkpoint = int(match[2])
        elif match := _DONE.match(line):
            self.done = int(match[1])

    def trains(self, number: int) -> bool:
        """Whether all ranks of that attempt have done a step together."""
        return number in self.attempts and self.attempts[number].all_train_at is not None
