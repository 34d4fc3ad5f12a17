# SPDX-License-Identifier: Apache-2.0
"""What the training run says of itself, line by line: the output of train.py and train_torch.py."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_STARTS = re.compile(r"attempt (\d+): starts at step (\d+) on (\S+)")
_ALL_TRAIN = re.compile(r"attempt (\d+): all (\d+) ranks train: step (\d+)")
_RANK = re.compile(r"attempt (\d+): rank (\d+) on ([^:]+): (.*)")
_CHECKPOINT = re.compile(r"attempt (\d+): checkpoint of step +(\d+), loss ([\d.]+)")
_DONE = re.compile(r"done: (\d+) steps")


@dataclass
class Attempt:
    """One attempt. `all_train_at` is the Unix time at which its first step of all ranks was seen, None before.

    `places` is each rank's node, `origins` what it said of its checkpoint, where ranks keep their own.
    """

    from_step: int
    nodes: str
    ranks: int = 0
    all_train_at: float | None = None
    places: dict[int, str] = field(default_factory=dict)
    origins: dict[int, str] = field(default_factory=dict)


@dataclass
class Training:
    """All that was heard so far: attempts by number, the step of the last checkpoint, the loss at the step of each,
    the steps done at the end."""

    attempts: dict[int, Attempt] = field(default_factory=dict)
    checkpoint: int = 0
    losses: dict[int, float] = field(default_factory=dict)
    done: int = 0

    def hear(self, line: str, at: float) -> None:
        """Takes in a line of the job's output, seen at that Unix time."""
        if match := _STARTS.match(line):
            self.attempts[int(match[1])] = Attempt(int(match[2]), match[3])
        elif match := _ALL_TRAIN.match(line):
            attempt = self.attempts[int(match[1])]
            attempt.ranks, attempt.all_train_at = int(match[2]), at
        elif match := _RANK.match(line):
            attempt = self.attempts[int(match[1])]
            attempt.places[int(match[2])], attempt.origins[int(match[2])] = match[3], match[4]
        elif match := _CHECKPOINT.match(line):
            self.checkpoint = int(match[2])
            self.losses[self.checkpoint] = float(match[3])
        elif match := _DONE.match(line):
            self.done = int(match[1])

    def trains(self, number: int) -> bool:
        """Whether all ranks of that attempt have done a step together."""
        return number in self.attempts and self.attempts[number].all_train_at is not None
