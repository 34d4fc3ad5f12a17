# SPDX-License-Identifier: Apache-2.0
"""The record of one attempt as a page for people: findings first, then how it ended, what ran, where and when."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from stepguard.archive.outcome import BY_SLURM, FAILED
from stepguard.archive.reading_record import Record
from stepguard.records.manifest import KeptFile
from stepguard.report import resumes
from stepguard.report.ended import ended, state_of, why_of
from stepguard.report.health import looked_at, unseen_nodes
from stepguard.report.lacks import missing_of
from stepguard.report.layout import INDENT, labelled, section, table, wrapped
from stepguard.report.screen import Screen
from stepguard.report.script_findings import happenings, in_the_script
from stepguard.report.steps import Step, ending, how, steps_of
from stepguard.report.times import between, duration, moment, size, zone
from stepguard.slurm import hostlist

_SCRIPT_LINES = 8
_STEPS = 12
_LAST_LINES = 20
_MISSING = 20
_FINDINGS = 20
_RESUMES = 40
# A comment, or the reason of somebody, may be 64 KiB long.
_VALUE_CHARS = 500
_LINE_BYTES = 500
# The last lines are looked for in the last of what was kept; more than this of an output is not read for a page.
_TAIL_BYTES = 64 << 10
_OUTPUT_MAX_BYTES = 256 << 20


def job_page(record: Record, attempts: Sequence[Record], screen: Screen) -> Iterator[str]:
    """The lines of the page. `attempts` are all that there are of this job, this one among them."""
    steps = steps_of(record)
    # What is read first may leave troubles, which are told at the end.
    script, outputs = _script(record, screen), [(name, _output(record, name, screen)) for name in ("stdout", "stderr")]
    yield from _title(record, attempts, screen)
    yield from section("Findings", _findings(record, screen), screen)
    printing = f"stepguard job {job_id_arguments(record)} script"
    yield from section("In the script", in_the_script(record, printing, screen), screen)
    yield from section("How it ended", ended(record, steps, screen), screen)
    yield from section("What ran", [*script, *_steps(record, steps, screen)], screen)
    yield from section("Where", _where(record, screen), screen)
    yield from section("When", _when(record, screen), screen)
    yield from section("Attempts", _attempts(record, attempts, screen), screen)
    yield from section("Resumes", _resumes(record, screen), screen)
    for name, lines in outputs:
        yield from section(f"Last lines of {name}", lines, screen)
    yield from section("Missing", _missing(record, screen), screen)
    yield from section("Kept in", [INDENT + screen.text(str(path)) for path in record.directories], screen)


def job_id_arguments(record: Record) -> str:
    """What names this attempt to `stepguard job`."""
    return f"{record.printed_id} --attempt {record.attempt}" if record.attempt else record.printed_id


def _title(record: Record, attempts: Sequence[Record], screen: Screen) -> Iterator[str]:
    manifest, entry = record.manifest, record.entry
    name = manifest.name if manifest else entry.name if entry else ""
    raw = f" ({record.job_id})" if record.printed_id != record.job_id else ""
    end = how(manifest.exit_status, manifest.exit_signal) if manifest else ""
    state = state_of(record)
    told = f"{state}, {end}" if end and state in (FAILED, *BY_SLURM) else state
    named = f" {screen.text(name)}" if name else ""
    yield screen.emphasized(screen.clipped(f"Job {screen.text(record.printed_id)}{raw}{named}: {told}"))
    owner = [f"of {screen.text(record.user)}"] if record.user else []
    count = f", attempt {record.attempt}" if len(attempts) > 1 or record.attempt else ""
    yield f"{' '.join([*owner, 'on cluster', record.cluster])}{count}"
    if why := why_of(record):
        yield from wrapped(screen.text(why), "", screen)


def _findings(record: Record, screen: Screen) -> Iterator[str]:
    found = [f"{one.finding.kind}: {one.text}" for one in happenings(record)]
    for one in record.findings:
        where = " ".join([*([f"step {one.step_id}"] if one.step_id else []), *([one.node] if one.node else [])])
        found.append(f"{one.code}: {one.text}" + (f" ({where})" if where else ""))
    for text in found[:_FINDINGS]:
        yield from wrapped(screen.text(_short(text)), INDENT, screen)
    yield from _more(len(found) - _FINDINGS, record)


def _script(record: Record, screen: Screen) -> list[str]:
    argv = record.manifest.argv if record.manifest else []
    arguments = labelled("arguments", screen.text(_short(shlex.join(argv))), screen)
    if not record.script:
        return [*arguments]
    lines = record.script.rstrip(b"\n").split(b"\n")
    shown = [screen.clipped(f"{INDENT}| {_line(line, screen)}".rstrip()) for line in lines[:_SCRIPT_LINES]]
    more = len(lines) - _SCRIPT_LINES
    if more > 0:
        shown.append(f"{INDENT}{more} more lines: stepguard job {job_id_arguments(record)} script")
    return [*shown, *arguments]


def _steps(record: Record, steps: Sequence[Step], screen: Screen) -> Iterator[str]:
    numbered = [step for step in steps if step.step_id.isdigit() and not step.is_own]
    shown = numbered
    if len(numbered) > _STEPS:  # those that failed, and the last
        failed = [step for step in numbered if step.failures][-_STEPS // 2 :]
        shown = [step for step in numbered if step in failed or step in numbered[len(failed) - _STEPS :]]
    rows = [
        (
            screen.text(step.step_id),
            str(step.task_count or ""),
            screen.text(step.nodes),
            duration(between(step.start_s, step.end_s)),
            screen.text(ending(step)),
            screen.text(step.command),
        )
        for step in shown
    ]
    if rows:
        yield from table(("step", "tasks", "nodes", "took", "ended", "command"), rows, screen, INDENT)
    if len(shown) < len(numbered):
        yield f"{INDENT}{len(numbered) - len(shown)} more steps: stepguard job {job_id_arguments(record)} timeline"


def _where(record: Record, screen: Screen) -> Iterator[str]:
    manifest = record.manifest
    if manifest is None:
        nodes = ",".join(part.node for part in record.nodes) or (record.entry.nodes if record.entry else "")
        yield from labelled("nodes", screen.text(nodes), screen)
        return
    count = f" ({len(manifest.nodes)})" if len(manifest.nodes) > 1 else ""
    told = {
        "nodes": manifest.node_list and manifest.node_list + count,
        "GPUs": manifest.gpus and f"{manifest.gpus} on {manifest.lead_node}",
        "partition": manifest.partition,
        "account": manifest.account,
        "QOS": manifest.qos,
        "reservation": manifest.reservation,
        "constraints": manifest.constraints,
        "directory": manifest.work_dir,
        "comment": manifest.comment,
    }
    for label, value in told.items():
        yield from labelled(label, screen.text(_short(value)), screen)
    yield from labelled("devices", _devices(record, screen), screen)


def _devices(record: Record, screen: Screen) -> str:
    """How they were at the end, and where more of it is told."""
    looked = looked_at(record)
    if not looked:
        return ""
    part, health = looked[0]
    worst = health.status if health.status == "ok" else f"{health.status} on {part.node}"
    unseen = unseen_nodes(record)
    told = f"{worst}, unknown on {hostlist.fold(unseen)}" if unseen else worst
    return f"{screen.text(told)}: stepguard job {job_id_arguments(record)} health"


def _when(record: Record, screen: Screen) -> Iterator[str]:
    start_s = record.start_s
    end_s = record.manifest.end_s if record.manifest else record.entry.end_s if record.entry else None
    if start_s is not None:
        yield from labelled("started", f"{moment(start_s)} ({zone(start_s)})", screen)
    yield from labelled("ended", moment(end_s), screen)
    yield from labelled("took", duration(between(start_s, end_s)), screen)


def _attempts(record: Record, attempts: Sequence[Record], screen: Screen) -> Iterator[str]:
    if len(attempts) < 2:
        return
    rows = []
    for one in attempts:
        manifest = one.manifest
        end_s = manifest.end_s if manifest else None
        exit_text = how(manifest.exit_status, manifest.exit_signal) if manifest else ""
        nodes = manifest.node_list if manifest else ""
        this = "this one" if one is record else ""
        row = (str(one.attempt), moment(one.start_s), duration(between(one.start_s, end_s)), state_of(one), exit_text)
        rows.append((*row, screen.text(nodes), this))
    yield from table(("attempt", "started", "took", "state", "exit", "nodes", ""), rows, screen, INDENT)


def _resumes(record: Record, screen: Screen) -> Iterator[str]:
    for event in record.resumes[-_RESUMES:]:
        head = f"{INDENT}{moment(resumes.time_of(event)):<21}"
        yield from wrapped(screen.text(_short(resumes.sentence(event))), head, screen)


def _output(record: Record, name: str, screen: Screen) -> list[str]:
    kept = record.kept(name)
    lines: list[str] = []
    if record.has_output(name):
        lines = [screen.clipped(f"{INDENT}| {line}".rstrip()) for line in last_lines(record.output(name), screen)]
    return [*(wrapped(screen.text(_short(_about(kept))), INDENT, screen) if kept else []), *lines]


# What a file was when the job had ended, where it was no regular one.
_INSTEAD = {
    "absent": "gone when the job had ended",
    "link": "not kept: a symbolic link stood there when the job had ended",
    "directory": "not kept: a directory stood there when the job had ended",
}


def _about(kept: KeptFile) -> str:
    """Where an output went, how much that was, and what of it is kept. Another thing's size is not the output's."""
    is_file = kept.what in ("regular", "", "memory")
    parts = [kept.source, size(kept.size_bytes) if is_file and kept.size_bytes is not None else ""]
    if not is_file:
        parts.append(kept.what if kept.stored_bytes else _INSTEAD.get(kept.what, f"not kept, {kept.what}"))
    parts += [kept.why, f"{kept.redacted} secrets redacted" if kept.redacted else ""]
    return ", ".join(part for part in parts if part)


def last_lines(pieces: Iterable[bytes], screen: Screen) -> list[str]:
    """The last lines of an output. Of a line that was written over again and again (a bar that shows progress), what
    stood there last."""
    taken, tail = 0, deque[bytes]()
    tail_bytes = 0
    for piece in pieces:
        taken += len(piece)
        tail.append(piece[-_TAIL_BYTES:])
        tail_bytes += len(tail[-1])
        while tail_bytes - len(tail[0]) >= _TAIL_BYTES:
            tail_bytes -= len(tail.popleft())
        if taken > _OUTPUT_MAX_BYTES:
            break
    content = b"".join(tail)[-_TAIL_BYTES:]
    lines = content.rstrip(b"\r\n").split(b"\n")[-_LAST_LINES:] if content else []
    overwritten = (line.rstrip(b"\r").rpartition(b"\r")[2] for line in lines)
    return [_line(line, screen) for line in overwritten]


def _line(line: bytes, screen: Screen) -> str:
    """The beginning of a line of the job's, which may be 4 MiB of NULs."""
    cut = "..." if len(line) > _LINE_BYTES else ""
    return screen.lines(line[:_LINE_BYTES]).expandtabs(8) + cut


def _missing(record: Record, screen: Screen) -> Iterator[str]:
    missing = missing_of(record)
    for one in missing[:_MISSING]:
        yield from wrapped(screen.text(_short(f"{one.what}: {one.why}")), INDENT, screen)
    yield from _more(len(missing) - _MISSING, record)


def _more(count: int, record: Record) -> Iterator[str]:
    if count > 0:
        yield f"{INDENT}{count} more: stepguard job {job_id_arguments(record)} --json"


def _short(text: str) -> str:
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}..."
