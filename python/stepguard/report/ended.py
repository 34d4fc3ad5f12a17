# SPDX-License-Identifier: Apache-2.0
"""How a job ended: its state, why that is believed, what failed first, and which nodes were lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence

from stepguard.archive.index_lines import entry_of
from stepguard.archive.index_reading import outcome
from stepguard.archive.outcome import BY_SLURM, DAMAGED, ENDED, GATE, OUTCOMES, REQUEUED, refused_on
from stepguard.archive.reading_record import Record
from stepguard.records.manifest import Manifest, NodeRecord
from stepguard.report import resumes
from stepguard.report.lacks import NO_WORD, silent_nodes
from stepguard.report.layout import INDENT, wrapped
from stepguard.report.screen import Screen
from stepguard.report.steps import Step, TaskExit, first_failure, how
from stepguard.report.times import moment
from stepguard.slurm import hostlist

# KillWait, 30 s unless a site sets it, and the same again.
_ENDING_S = 60.0


def state_of(record: Record) -> str:
    """One of archive.outcome.OUTCOMES; of a record that says another, DAMAGED, as in the index."""
    entry = entry_of("", record.manifest, 0, 0) if record.manifest is not None else record.entry
    word = outcome(entry.state, entry.exit, record.has_later) if entry else DAMAGED
    return word if word in OUTCOMES else DAMAGED


def why_of(record: Record) -> str:
    """Why that is believed; "" where the exit says it. Not made visible yet."""
    if record.manifest is None:
        return ""
    manifest = record.manifest
    is_later = state_of(record) == REQUEUED != manifest.outcome
    refused = _refused(record) if manifest.outcome in (ENDED, REQUEUED) else ""
    # Of a job that the gate refused, the node that led it knows only what itself saw.
    told = "" if refused and manifest.outcome == ENDED else manifest.outcome_why
    return "; ".join(filter(None, ["there is a later attempt" if is_later else "", refused, told]))


def _refused(record: Record) -> str:
    """Where the gates of nodes refused the job; "" where none did."""
    nodes = hostlist.fold(part.node for part in record.nodes if any(one.code == GATE for one in part.findings))
    return refused_on(nodes) if nodes else ""


def ended(record: Record, steps: Sequence[Step], screen: Screen) -> Iterator[str]:
    """How it ended, what went wrong first, and which nodes were lost."""
    manifest = record.manifest
    if manifest is not None:
        told = how(manifest.exit_status, manifest.exit_signal)
        if manifest.outcome in (ENDED, *BY_SLURM):
            told = ": ".join(part for part in (state_of(record), why_of(record)) if part)
            told += f"; the batch script: {how(*exits)}" if (exits := _batch_exit(steps)) else ""
        elif manifest.outcome_why:
            told += f": {manifest.outcome_why}"
        if manifest.state == "lost":
            told = "lost: " + "; ".join(one.why for one in manifest.missing if one.what == "end") + _heard(manifest)
        worst = manifest.derived_exit_status
        if worst and worst != manifest.exit_status:
            told += f"; the worst of its steps: {how(worst, None)}"
        told = "it runs, as far as is known" if manifest.state == "running" else told
        yield from wrapped(screen.text(told), INDENT, screen)
    if text := _first_failure(record, steps):
        yield from wrapped(screen.text(text), INDENT, screen)
    for part in record.nodes:
        if part.state == "lost":
            why = "; ".join(one.why for one in part.missing if one.what == "end")
            yield from wrapped(screen.text(f"node {part.node} was lost: {why}{_heard(part)}"), INDENT, screen)
    if silent := silent_nodes(record):
        yield from wrapped(screen.text(f"no word of {silent}: {NO_WORD}"), INDENT, screen)


def _first_failure(record: Record, steps: Sequence[Step]) -> str:
    """The task that failed first; of a step that auto-resume ended, what it was ended for."""
    if (found := first_failure(steps)) is None:
        return ""
    step, first = found
    if _is_slurms_end(record, first):
        return ""
    for event in record.resumes:
        if resumes.is_end_of(event, step.step_id, step.attempt, record.attempt):
            return f"first to fail: step {step.step_id}: {resumes.sentence(event)}"
    name = "the batch script" if step.step_id == "batch" else f"step {step.step_id}"
    at = f" at {moment(first.end_s)}" if first.end_s is not None else ""
    others = len(step.failures) - 1
    text = f"first to fail: task {first.rank} of {name} on {first.node}{at}: {how(first.status, first.signal)}"
    return text + (f", then {others} more of its tasks" if others else "")


def _is_slurms_end(record: Record, first: TaskExit) -> bool:
    """Whether the task did not fail, but was killed when Slurm ended the job."""
    manifest = record.manifest
    if manifest is None or manifest.outcome not in BY_SLURM or first.signal not in (signal.SIGTERM, signal.SIGKILL):
        return False
    return first.end_s is None or manifest.end_s is None or manifest.end_s - first.end_s < _ENDING_S


def _heard(part: NodeRecord | Manifest) -> str:
    return f"; last heard of at {moment(part.last_heard_s)}" if part.last_heard_s is not None else ""


def _batch_exit(steps: Sequence[Step]) -> tuple[int, int] | None:
    exits = [one for step in steps if step.step_id == "batch" for one in step.exits]
    return (exits[0].status, exits[0].signal) if exits else None
