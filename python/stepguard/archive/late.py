# SPDX-License-Identifier: Apache-2.0
"""What arrives after a record was finished, put into it: it fills gaps, and changes nothing that stands there.

The same happens when an archiver that was killed while it emptied the spool begins again with what is left there: all
of that is in the record already, so the record stays as it is.
"""

from __future__ import annotations

from typing import TypeVar

from stepguard.archive.fold import CLOCK_SET, FINDINGS_MAX
from stepguard.archive.steps import ENDS_OF_STEPS, STEPS_MAX, missing_ends
from stepguard.records.manifest import FindingRecord, Manifest, NodeRecord, StepRecord

_Part = TypeVar("_Part", NodeRecord, Manifest)


def complete_node(there: NodeRecord, late: NodeRecord) -> NodeRecord:
    """The node's part that is there, with what the late one adds."""
    _fill(there, late, ("boot_id", "gpus", "start_s", "health"))
    known = {_about(one) for one in there.findings}
    new = [one for one in late.findings if _about(one) not in known]
    there.findings = [*there.findings, *new][:FINDINGS_MAX]
    return _with_steps(there, late)


def complete_manifest(there: Manifest, late: Manifest) -> Manifest:
    """The manifest that is there, with what the late one adds; new files are told by their name in the record."""
    kept = {"attempt", "cluster", "job_id", "schema", "kind", "state", "lead_node", "end_s", "resumes"}
    kept |= {"outcome", "outcome_why", "last_heard_s"}
    if there.state == "lost":  # the epilog after a reboot knows of no exit of its own
        kept |= {"exit_status", "exit_signal", "derived_exit_status"}
    _fill(there, late, [name for name in vars(late) if name not in {*kept, "steps", "files", "missing"}])
    for name, file in late.files.items():
        if name not in there.files or (file.name and not there.files[name].name):
            there.files[name] = file
            there.resumes = late.resumes if name == "resumes" else there.resumes
    return _with_steps(there, late)


def take_over(ours: Manifest, running: Manifest) -> None:
    """Fills ours with what the record said while the attempt ran: the spool that told it was removed since."""
    ours.kind = running.kind if ours.kind == "unknown" else ours.kind
    ends = {"state", "end_s", "last_heard_s", "outcome", "outcome_why"}
    _fill(ours, running, [name for name in vars(ours) if name not in {*ends, "steps", "files", "missing"}])
    ours.files = {**{name: file for name, file in running.files.items() if file.name}, **ours.files}
    for step in running.steps:
        step.state = "lost" if step.state == "running" else step.state
    filled = {"start"} if ours.start_s is not None else set()
    filled |= {one.what for one in ours.missing if one.what.startswith("name")} if "script" in ours.files else set()
    ours.missing = [one for one in ours.missing if one.what not in filled]
    _with_steps(ours, running)


def _about(finding: FindingRecord) -> tuple[str, ...]:
    """What makes two findings the same: not when, for that is counted from another message where some are gone."""
    return finding.code, finding.step_id, finding.about, "" if finding.code == CLOCK_SET else finding.text


def _fill(there: object, late: object, names: list[str] | tuple[str, ...]) -> None:
    for name in names:
        if getattr(there, name) in (None, "", []):
            setattr(there, name, getattr(late, name))


def _with_steps(there: _Part, late: _Part) -> _Part:
    if there.state == "ended" and _ends_later(there, late):
        there.end_s = late.end_s
    known = {step.step_id: step for step in there.steps}
    for step in late.steps:
        if step.step_id in known:
            _complete_step(known[step.step_id], step)
        elif len(there.steps) < STEPS_MAX:
            there.steps.append(step)
    lost = [step.step_id for step in there.steps if step.state == "lost"]
    there.missing = [one for one in there.missing if one.what != ENDS_OF_STEPS]
    if lost:
        there.missing.append(missing_ends(lost))
    return there


def _ends_later(there: NodeRecord | Manifest, late: NodeRecord | Manifest) -> bool:
    """Without an epilog the last step's end was taken for the attempt's. That of a batch job is its batch script's."""
    if there.end_s is None or late.end_s is None:
        return there.end_s is None
    if isinstance(there, Manifest) and any(one.step_id == "batch" and one.state == "ended" for one in there.steps):
        return False
    return late.end_s > there.end_s and any(one.what == "epilog" for one in there.missing)


def _complete_step(there: StepRecord, late: StepRecord) -> None:
    if there.state != "ended" and late.state == "ended":
        there.state, there.end_s = late.state, late.end_s
        there.exits, there.exits_count = late.exits, late.exits_count
    _fill(there, late, ("argv", "nodes", "node_count", "task_count", "local_tasks", "attempt", "start_s"))
