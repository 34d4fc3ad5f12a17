# SPDX-License-Identifier: Apache-2.0
"""`stepguard job ID [PART]`: the record of a job, for people, for pipes and as JSON."""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepguard import __version__, config
from stepguard.cli.output import tell
from stepguard.errors import StepguardError, UsageError

if TYPE_CHECKING:
    from stepguard.archive.reading_record import Record
    from stepguard.report.screen import Screen

SCHEMA = 1
# What goes into a pipe byte for byte; all else is a page.
_FILES = ("script", "env", "stdout", "stderr")
PARTS = (*_FILES, "health", "timeline", "resumes", "nodes")


@click.command(short_help="The record of a job: what ran, where, when, how it ended.")
@click.argument("job_id", metavar="ID")
@click.argument("part", required=False, type=click.Choice(PARTS), metavar=f"[{'|'.join(PARTS)}]")
@click.option("--attempt", type=click.IntRange(0), help="This run of a requeued job, from 0; else the last.")
@click.option("--cluster", default="", metavar="NAME", help="Of this cluster, where the archive has several.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(job_id: str, part: str | None, attempt: int | None, cluster: str, as_json: bool) -> int:
    """Show the record of a job: what ran, where, when, how it ended, and the last lines of its output.

    ID as Slurm writes it: 12, 12_3 for a task of an array, 12+1 for a part of a het job; 12.0 for the first attempt of
    a requeued one, 12.1 for the next, as `stepguard jobs` lists them. With a part, that part alone; script, env, stdout
    and stderr go into a pipe or a file byte for byte.
    """
    from stepguard.archive.reading import find
    from stepguard.report.lacks import part_lacks
    from stepguard.report.screen import stdout_screen, write, write_json, write_lines

    gc.disable()  # as in `stepguard jobs`
    job_id, attempt = _named(job_id, attempt)
    archive = Path(config.load().archive.dir)
    attempts = find(archive, job_id, None, cluster)
    records = attempts
    if attempt is not None:
        named = [record for record in attempts if record.attempt == attempt]
        records = named or find(archive, job_id, attempt, cluster)  # which says that there is none
    screen = stdout_screen()
    if part is None:
        if as_json:
            write_json(_document(job_id, records))
        else:
            write_lines(_page(records, attempts, screen), screen)
        return 0
    record = _one(job_id, records, part)
    if as_json:
        write_json(_part_document(record, part))
        return int(_is_damaged(record, part))
    if part in _FILES:
        content = _content(record, part)
        write(_shown(content, screen) if screen.is_terminal else content)
    elif nothing := _nothing(record, part):
        if not record.troubles:  # which say why, and more may be there
            tell(nothing)
    else:
        write_lines(_lines(record, part, screen), screen)
    for one in part_lacks(record, part):
        tell(f"{one.what}: {one.why}")
    return int(_is_damaged(record, part))


def _named(text: str, option: int | None) -> tuple[str, int | None]:
    """The job, and which attempt of it was named. Raises UsageError where two were."""
    from stepguard.records.job_ids import split_attempt

    job_id, attempt = split_attempt(text)
    if None not in (attempt, option) and attempt != option:
        raise UsageError("two attempts of one job", f"{text!r} and --attempt {option}", "name one")
    return job_id, option if attempt is None else attempt


def _page(records: Sequence[Record], attempts: Sequence[Record], screen: Screen) -> Iterator[str]:
    from stepguard.report.job_page import job_page
    from stepguard.report.lists import parts_table

    if len({record.job_id for record in records}) == 1:
        return job_page(records[-1], attempts, screen)
    return parts_table(records, screen)


def _one(job_id: str, records: Sequence[Record], part: str) -> Record:
    """The newest attempt of the one job that was named. Raises UsageError for a whole array or het job."""
    ids = list(dict.fromkeys(record.printed_id for record in records))
    if len({record.job_id for record in records}) > 1:
        raise UsageError(f"job {job_id} has {len(ids)} parts", part, f"name one, {ids[0]} to {ids[-1]}")
    return records[-1]


def _content(record: Record, part: str) -> Iterator[bytes]:
    """What the part is, byte for byte. Raises StepguardError when there is none."""
    from stepguard.escaping import as_bytes

    if part in ("stdout", "stderr"):
        if not record.has_output(part):
            raise _absent(record, part)
        return record.output(part)
    if part == "env":
        if record.environment is None:
            raise _absent(record, "environment")
        return (as_bytes(f"{name}={value}\n") for name, value in record.environment.items())
    if record.script is None:
        raise _absent(record, part)
    return iter([record.script])


def _absent(record: Record, name: str) -> StepguardError:
    """Why there is no such file, as far as anything tells."""
    kept = record.kept(name)
    told = [f"{one.what}: {one.why}" for one in record.troubles]
    if kept is not None:
        told += [f"{kept.source or kept.what}: {kept.why or f'{kept.what}, not read'}"]
    elif not told:
        manifest = record.manifest
        of = (name, "script") if manifest and manifest.kind == "unknown" else (name,)
        told += [one.why for one in manifest.missing if any(word in one.what for word in of)] if manifest else []
        if not told and manifest is not None:
            told = ["it has not ended yet" if manifest.state == "running" else f"the job is {manifest.kind}"]
    from stepguard.report.job_page import job_id_arguments

    advice = f"`stepguard job {job_id_arguments(record)}` shows what there is"
    return StepguardError(f"no {name} of job {record.printed_id}", "; ".join(told), advice)


def _shown(content: Iterable[bytes], screen: Screen) -> Iterator[bytes]:
    """For a terminal, a line at a time: a piece may end in the middle of a character."""
    rest = b""
    for piece in content:
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        yield screen.lines(whole + newline).encode()
    if rest:
        yield screen.lines(rest).encode() + b"\n"


def _lines(record: Record, part: str, screen: Screen) -> Iterable[str]:
    from stepguard.report import resumes
    from stepguard.report.health import health_page
    from stepguard.report.lists import nodes_table
    from stepguard.report.timeline import timeline
    from stepguard.report.times import moment

    if part == "timeline":
        return timeline(record, screen)
    if part == "nodes":
        return nodes_table(record, screen)
    if part == "health":
        return health_page(record, screen)
    sentences = ((moment(resumes.time_of(event)), resumes.sentence(event)) for event in record.resumes)
    return (f"{time_text}  {screen.text(text)}" for time_text, text in sentences)


def _nothing(record: Record, part: str) -> str:
    """Why there is nothing to print of this part, where that is no fault; raises StepguardError where it is one."""
    from stepguard.report.lacks import is_not_kept

    runs = record.manifest is not None and record.manifest.state == "running"
    if part == "nodes" and not record.nodes:
        return "no node has told its part yet" + (": they do when the job has ended" if runs else "")
    if part == "health" and not any(one.health for one in record.nodes):
        if runs:
            return f"what the devices of job {record.printed_id} went through is told when it has ended"
        return f"no agent looked at devices for job {record.printed_id}"
    if part == "resumes" and not record.resumes:
        if is_not_kept(record, part):
            raise _absent(record, part)
        if runs:
            return f"how steps of job {record.printed_id} were guarded and resumed is told when it has ended"
        return f"no step of job {record.printed_id} was guarded or resumed, as far as is known"
    return ""


def _is_damaged(record: Record, part: str) -> bool:
    """Whether something of the part that was printed could not be read, now or when it was to be kept."""
    from stepguard.report.lacks import is_not_kept

    return bool(record.troubles) or is_not_kept(record, part)


def _document(job_id: str, records: Sequence[Record]) -> dict[str, Any]:
    shown = [_as_json(one) for one in records]
    return {"schema": SCHEMA, "stepguard": __version__, "asked": job_id, "records": shown}


def _as_json(record: Record) -> dict[str, Any]:
    from stepguard.report.ended import state_of, why_of
    from stepguard.report.lacks import missing_of

    manifest = record.manifest
    return {
        **_name(record),
        "directories": [str(path) for path in record.directories],
        "outcome": state_of(record),
        "outcome_why": why_of(record),
        "manifest": dataclasses.asdict(manifest) if manifest else None,
        "nodes": [dataclasses.asdict(part) for part in record.nodes],
        "findings": [dataclasses.asdict(one) for one in record.findings],
        "script_findings": _script_findings(record),
        "resumes": record.resumes,
        "missing": [dataclasses.asdict(one) for one in missing_of(record)],
    }


def _script_findings(record: Record) -> list[dict[str, Any]]:
    """Each with what `happened`, "" where nothing did."""
    from stepguard.report.script_findings import happenings

    happened = {id(one.finding): one.text for one in happenings(record)}
    return [{**dataclasses.asdict(one), "happened": happened.get(id(one), "")} for one in record.script_findings]


def _name(record: Record) -> dict[str, Any]:
    return {
        "cluster": record.cluster,
        "printed_id": record.printed_id,
        "job_id": record.job_id,
        "attempt": record.attempt,
    }


def _part_document(record: Record, part: str) -> dict[str, Any]:
    """One part; bytes that are no UTF-8 are lone surrogates."""
    from stepguard.report.lacks import part_lacks
    from stepguard.report.timeline import moments

    value: Any
    if part == "env":
        _content(record, part)
        value = record.environment
    elif part == "timeline":
        value = [one._asdict() for one in moments(record)]
    elif part == "resumes":
        value = record.resumes
    elif part == "health":
        value = {one.node: dataclasses.asdict(one.health) for one in record.nodes if one.health}
    elif part == "nodes":
        value = [dataclasses.asdict(one) for one in record.nodes]
    else:
        value = b"".join(_content(record, part)).decode(errors="surrogateescape")
    missing = [dataclasses.asdict(one) for one in part_lacks(record, part)]
    return {"schema": SCHEMA, "stepguard": __version__, **_name(record), part: value, "missing": missing}
