# SPDX-License-Identifier: Apache-2.0
"""The steps of an attempt as one node saw them, out of the messages of its slurmstepds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from stepguard.archive.timeline import Event
from stepguard.errors import StepguardError
from stepguard.records import wire
from stepguard.records.manifest import Exit, Missing, StepRecord
from stepguard.slurm import hostlist

# Bounds on one record: a job may start steps in a loop for days. Of more, the first and the last are kept.
STEPS_MAX = 5000
EXITS_MAX = 65536
ENDS_OF_STEPS = "ends of steps"
# Slurm's words for steps without a number.
NAMED_STEPS = ("batch", "extern", "interactive")


def fold_steps(events: Sequence[Event], over: bool) -> tuple[list[StepRecord], list[Missing]]:
    """The steps in the order of their starts, and what is not known of them.

    `over`: no more will come, so a step that has not told its end was lost.
    """
    steps: dict[str, StepRecord] = {}
    missing: list[Missing] = []
    last_boot = events[-1].boot if events else 0
    begun_in: dict[str, int] = {}
    for event in events:
        step_id = step_of(event)
        if event.kind not in ("batch", "step_start", "step_end") or not step_id:
            continue
        step = steps.setdefault(step_id, StepRecord(step_id))
        if event.kind == "step_end":
            _end(step, event)
        else:
            begun_in[step_id] = event.boot
            missing += _start(step, event)
    for step in steps.values():
        if step.state == "running" and (over or begun_in.get(step.step_id, last_boot) < last_boot):
            step.state = "lost"
    return _bounded(list(steps.values()), missing)


def expanded(text: str) -> list[str]:
    """The names in a host list; none of what is no host list."""
    with contextlib.suppress(StepguardError):
        return hostlist.expand(text)
    return []


def spans(nodes: Sequence[str], node_count: int | None) -> bool:
    """Whether a step belongs to several parts of a het job: SLURM_STEP_NODELIST has the nodes of all of them, while
    slurmstepd counts those of its own (S_JOB_NNODES; 22.05 to 26.05, by trial)."""
    return node_count is not None and len(nodes) > node_count


def own_nodes(steps: Iterable[StepRecord], nodes: Sequence[str]) -> None:
    """Leaves each step of several parts of a het job those of its nodes that are this part's."""
    known = set(nodes)
    for step in steps:
        names = expanded(step.nodes)
        if spans(names, step.node_count) and (own := [name for name in names if name in known]):
            step.nodes = hostlist.fold(own)


def step_of(event: Event) -> str:
    """The step that a message is about: its number or Slurm's word; "" where it has none."""
    if event.kind == "batch":
        return "batch"
    text = wire.text(event.fields, "step_id")
    return text if text in NAMED_STEPS or (text.isascii() and text.isdigit() and len(text) <= 10) else ""


def decode_status(status: int) -> tuple[int, int]:
    """Exit status and signal out of what wait(2) gives."""
    return (status >> 8) & 0xFF, status & 0x7F


def missing_ends(lost: Sequence[str]) -> Missing:
    """What to say of steps that were lost."""
    named = ", ".join(lost[:20]) + (", …" if len(lost) > 20 else "")
    return Missing(ENDS_OF_STEPS, f"{len(lost)} have not told theirs: {named}")


def _start(step: StepRecord, event: Event) -> Iterable[Missing]:
    fields = event.fields
    step.start_s = event.at_s if step.start_s is None else step.start_s
    if event.kind == "batch":
        return
    step.argv = _words(event)
    step.nodes = wire.text(fields, "step_node_list")
    step.node_count = wire.number(fields, "node_count")
    step.task_count = wire.number(fields, "task_count")
    step.local_tasks = wire.number(fields, "local_tasks")
    step.attempt = wire.number(fields, "attempt")
    yield from cut_argv(event, f"step {step.step_id}")


def arguments(event: Event) -> list[str]:
    """Those of a batch script; the first word is the script's copy in slurmd's spool, which says nothing."""
    return _words(event)[1:]


def cut_argv(event: Event, of: str) -> Iterable[Missing]:
    """What to say of a command line that was too long."""
    size_bytes, kept_bytes = wire.number(event.fields, "argv_size"), len(event.fields.get("argv", b""))
    if size_bytes is not None and size_bytes > kept_bytes:
        yield Missing(f"command line of {of}", f"{kept_bytes} of its {size_bytes} bytes are kept")


def _words(event: Event) -> list[str]:
    return [word.decode(errors="surrogateescape") for word in wire.words(event.fields.get("argv", b""))]


def _end(step: StepRecord, event: Event) -> None:
    step.state = "ended"
    step.end_s = event.at_s
    step.exits = sorted(_exits(event, step.start_s), key=lambda one: one.rank)
    step.exits_count = wire.number(event.fields, "exits_count", len(step.exits)) or len(step.exits)


def _exits(event: Event, step_start_s: float | None) -> Iterable[Exit]:
    sent_ns = wire.number(event.fields, "time_ns")
    for word in wire.words(event.fields.get("exits", b"")):
        parts = word.split(b" ")
        if len(parts) != 3 or not all(part.isdigit() and len(part) <= 20 for part in parts):
            continue
        rank, status, time_ns = map(int, parts)
        end_s = None
        if event.at_s is not None and sent_ns is not None and time_ns:
            # How long before the message, and not when: the clock that says when may be set in between.
            end_s = event.at_s - max(sent_ns - time_ns, 0) / 1e9
            end_s = end_s if step_start_s is None else max(end_s, step_start_s)
        yield Exit(rank, *decode_status(status), end_s)


def _bounded(steps: list[StepRecord], missing: list[Missing]) -> tuple[list[StepRecord], list[Missing]]:
    lost = [step.step_id for step in steps if step.state == "lost"]
    if lost:
        missing.append(missing_ends(lost))
    if len(steps) > STEPS_MAX:
        missing.append(Missing("steps", f"the first and the last of {len(steps)} are kept, {STEPS_MAX} together"))
        steps = steps[: STEPS_MAX // 2] + steps[-(STEPS_MAX // 2) :]
    left = EXITS_MAX
    for step in steps:
        if len(step.exits) > left:  # those that failed say more
            step.exits = [one for one in step.exits if one.status or one.signal][:left]
        left -= len(step.exits)
    if not left:
        missing.append(Missing("exits of tasks", f"{EXITS_MAX} are kept"))
    return steps, missing[:100]
