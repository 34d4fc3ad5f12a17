# SPDX-License-Identifier: Apache-2.0
"""The steps of a record, put together from what each node saw of them, and who failed first."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from stepguard.archive.reading_record import Record
from stepguard.records.manifest import Exit, StepRecord


@dataclass
class TaskExit:
    """How one task ended, and on which node."""

    rank: int
    node: str
    status: int
    signal: int
    end_s: float | None

    @property
    def failed(self) -> bool:
        return bool(self.status or self.signal)


@dataclass
class Step:
    """One step as all its nodes saw it. `exits_count` may be more than there are `exits`."""

    step_id: str
    argv: list[str] = field(default_factory=list)
    nodes: str = ""
    task_count: int | None = None
    attempt: int | None = None
    state: str = ""
    start_s: float | None = None
    end_s: float | None = None
    exits: list[TaskExit] = field(default_factory=list)
    exits_count: int = 0

    @property
    def command(self) -> str:
        """Its command line, as a shell would take it. Not made visible yet."""
        return shlex.join(self.argv)

    @property
    def is_own(self) -> bool:
        """Whether it is stepguard's own: the watch beside a guarded step."""
        pairs = zip(self.argv, self.argv[1:], strict=False)
        return any(word.endswith("stepguard") and verb == "watch" for word, verb in pairs)

    @property
    def failures(self) -> list[TaskExit]:
        """The tasks that failed, the first one first."""
        failed = [one for one in self.exits if one.failed]
        return sorted(failed, key=lambda one: (one.end_s is None, one.end_s or 0.0, one.rank))


def steps_of(record: Record) -> list[Step]:
    """The steps of a record in the order of their starts, Slurm's own (extern) left out."""
    steps: dict[str, Step] = {}
    parts = [(part.node, part.steps) for part in record.nodes]
    manifest = record.manifest
    if manifest is not None and manifest.lead_node not in (node for node, _ in parts):
        parts.append((manifest.lead_node, manifest.steps))
    for node, seen in parts:
        for part in seen:
            if part.step_id != "extern":
                _add(steps.setdefault(part.step_id, Step(part.step_id)), node, part)
    return sorted(steps.values(), key=_order)


def first_failure(steps: Iterable[Step]) -> tuple[Step, TaskExit] | None:
    """The task that failed first, and its step: of the steps with numbers, else of the batch script."""
    failed = [(step, step.failures[0]) for step in steps if step.failures and not step.is_own]
    numbered = [one for one in failed if one[0].step_id.isdigit()]
    return min(numbered or failed, key=lambda one: (one[1].end_s is None, one[1].end_s or 0.0), default=None)


def how(status: int | None, signal_number: int | None) -> str:
    """An exit in words: exit status 1, killed by SIGKILL (9), exit status 137 (128 + SIGKILL)."""
    if signal_number:
        return f"killed by {signal_name(signal_number)} ({signal_number})"
    if not status:
        return "" if status is None else "exit status 0"
    behind = signal_name(status - 128) if 128 < status <= 128 + 64 else ""
    return f"exit status {status}" + (f" (128 + {behind})" if behind else "")


def signal_name(number: int) -> str:
    """SIGKILL; for one that has no name, signal 42."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ending(step: Step) -> str:
    """How a step ended, in words: all of 4 tasks well; 2 of 4 tasks: killed by SIGKILL (9)."""
    if not step.exits:
        return {"ended": "ended", "running": "running", "lost": "its end is not known"}.get(step.state, "")
    kinds: dict[str, int] = {}
    for one in step.failures:
        kinds[how(one.status, one.signal)] = kinds.get(how(one.status, one.signal), 0) + 1
    total = max(step.exits_count, step.task_count or 0, len(step.exits))
    told = [f"{count} of {total} tasks: {kind}" if total > 1 else kind for kind, count in kinds.items()]
    silent = (step.task_count or 0) - step.exits_count
    if step.state != "running" and silent > 0:
        told.append(f"{silent} tasks told no end")
    return "; ".join(told) or ("exit status 0" if step.state != "running" else "running")


def _add(step: Step, node: str, part: StepRecord) -> None:
    step.argv = step.argv or part.argv
    step.nodes = step.nodes or part.nodes
    step.task_count = part.task_count if step.task_count is None else step.task_count
    step.attempt = part.attempt if step.attempt is None else step.attempt
    # One node that lost the step, or still has it, says more than another that saw its end.
    step.state = min(step.state or part.state, part.state, key=_GRAVITY.index) if part.state in _GRAVITY else step.state
    step.start_s = _least(step.start_s, part.start_s)
    step.end_s = max((one for one in (step.end_s, part.end_s) if one is not None), default=None)
    step.exits += [_task_exit(node, one) for one in part.exits]
    step.exits_count += max(part.exits_count, len(part.exits))


def _order(step: Step) -> tuple[bool, float, int]:
    number = int(step.step_id) if step.step_id.isascii() and step.step_id.isdigit() and len(step.step_id) <= 10 else -1
    return step.start_s is None, step.start_s or 0.0, number


_GRAVITY: Sequence[str] = ("lost", "running", "ended")


def _task_exit(node: str, one: Exit) -> TaskExit:
    return TaskExit(one.rank, node, one.status, one.signal, one.end_s)


def _least(one: float | None, other: float | None) -> float | None:
    known = [value for value in (one, other) if value is not None]
    return min(known, default=None)
