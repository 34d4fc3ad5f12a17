# SPDX-License-Identifier: Apache-2.0
"""All of a record that has a time, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stepguard.archive.outcome import BY_SLURM, ENDED
from stepguard.archive.reading_record import Record
from stepguard.report import resumes
from stepguard.report.screen import Screen
from stepguard.report.script_findings import happenings
from stepguard.report.steps import Step, ending, how, steps_of
from stepguard.report.times import between, duration, moment


class Moment(NamedTuple):
    """Something that happened. `text` is not made visible yet."""

    time_s: float
    text: str


def moments(record: Record) -> list[Moment]:
    """What is known to have happened, the first first."""
    found = [*_of_job(record), *_of_nodes(record)]
    for step in steps_of(record):
        found += _of_step(step)
    found += [Moment(one.time_s, f"finding {one.code}: {one.text}") for one in record.findings if one.time_s]
    found += [
        Moment(one.time_s, f"finding {one.finding.kind}: {one.text}")
        for one in happenings(record)
        if one.time_s is not None
    ]
    found += [
        Moment(time_s, f"auto-resume: {resumes.sentence(event)}")
        for event in record.resumes
        if (time_s := resumes.time_of(event)) is not None
    ]
    return sorted(found, key=lambda one: one.time_s)


def timeline(record: Record, screen: Screen) -> Iterator[str]:
    """One line for each, with its time and the time since the start."""
    start_s = record.start_s
    for one in moments(record):
        since_s = between(start_s, one.time_s)
        since = f"+{duration(since_s)}" if since_s is not None and since_s >= 0 else ""
        yield screen.clipped(f"{moment(one.time_s)}  {since:<12}  {screen.text(one.text)}".rstrip())


def _of_job(record: Record) -> Iterable[Moment]:
    manifest = record.manifest
    if manifest is None:
        return
    if manifest.start_s is not None:
        yield Moment(manifest.start_s, f"attempt {manifest.attempt} of the job began on {manifest.node_list}")
    if manifest.end_s is not None:
        known = manifest.outcome != ENDED
        end = how(manifest.exit_status, manifest.exit_signal) if known else "how, nothing tells"
        end = manifest.outcome if manifest.outcome in BY_SLURM else end
        yield Moment(manifest.end_s, f"the job ended: {end}" if end else "the job ended")


def _of_nodes(record: Record) -> Iterable[Moment]:
    """Only nodes that joined or left apart from the rest."""
    manifest = record.manifest
    for part in record.nodes:
        begun, over = (manifest.start_s, manifest.end_s) if manifest else (None, None)
        if part.start_s is not None and (begun is None or part.start_s - begun > _TOGETHER_S):
            yield Moment(part.start_s, f"{part.node} began")
        if part.end_s is not None and (over is None or abs(over - part.end_s) > _TOGETHER_S):
            yield Moment(part.end_s, f"{part.node} ended")


_TOGETHER_S = 5.0


def _of_step(step: Step) -> Iterable[Moment]:
    name = "batch script" if step.step_id == "batch" else f"step {step.step_id}"
    if step.start_s is not None:
        what = "the watch of auto-resume" if step.is_own else step.command
        yield Moment(step.start_s, f"{name} started" + (f": {what}" if what else ""))
    if step.failures and not step.is_own and (first := step.failures[0]).end_s is not None:
        yield Moment(
            first.end_s, f"{name}: task {first.rank} on {first.node} failed: {how(first.status, first.signal)}"
        )
    if step.end_s is not None:
        yield Moment(step.end_s, f"{name} ended: {ending(step)}")
