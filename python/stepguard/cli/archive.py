# SPDX-License-Identifier: Apache-2.0
"""`stepguard archive`: what an administrator does with the archive of records. See `stepguard job` for reading it."""

from __future__ import annotations

import errno
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepguard import config
from stepguard.cli.output import tell
from stepguard.errors import StepguardError, UsageError, reason
from stepguard.escaping import quoted

if TYPE_CHECKING:
    from stepguard.archive.layout import ClusterLayout
    from stepguard.archive.retention import Outcome, Plan, Spared

_SCHEMA = 1
# Of what was passed over, so many are named.
_NAMED = 20
_UNITS_S = {"h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
# By retention's words.
_WHY_SPARED = {
    "fresh": "that a node wrote to within the last hour",
    "unfinished": "that have not ended, as far as they say; where nodes are gone for good, see --abandoned",
    "changed": "that a node has written to meanwhile",
}
_UNITS_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}


_AS_ROOT = "run this as root, where root may write (over NFS: no_root_squash)"
_ADVICE = {
    errno.ENOENT: "run this where it is mounted",
    errno.ENOTDIR: "[archive] dir must name a directory",
    errno.EROFS: "run this where it is mounted to be written",
    errno.EACCES: _AS_ROOT,
    errno.EPERM: _AS_ROOT,
    errno.ENOSPC: "make room on its file system",
    errno.EDQUOT: "make room on its file system",
}


def _fault(what: str, error: OSError) -> StepguardError:
    return StepguardError(what, reason(error), _ADVICE.get(error.errno or 0, "see whether its file system is well"))


@click.group("archive", short_help="Prune, verify and export the archive of records.")
def command() -> None:
    """Prune, verify and export the archive of records. For administrators: only root can list it."""


@command.command()
@click.option("--keep", metavar="AGE", help="Delete records of jobs that have ended longer ago: 90d, 12h, 8w.")
@click.option("--max-size", metavar="SIZE", help="Delete the oldest until the archive is no larger: 500G, 2T.")
@click.option(
    "--abandoned",
    metavar="AGE",
    help="Delete records that never ended and that no node has written to for longer; at least 7d.",
)
@click.option("--yes", is_flag=True, help="Really delete; else it is only said what would be.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document, with all records by path.")
def prune(keep: str | None, max_size: str | None, abandoned: str | None, yes: bool, as_json: bool) -> None:
    """Delete old records. Says what it would delete, and deletes only with --yes.

    Safe while nodes write. A record that a node wrote to within the last hour stays, and so does one whose job has not
    ended. That of a job that runs is written every half an hour, but only while its first node and the agent there are
    up and reach the archive: give --abandoned more time than repairs take.
    """
    from stepguard.archive import retention
    from stepguard.archive.ownership import ownership

    abandoned_s = _age_s(abandoned, "--abandoned") if abandoned else None
    if abandoned_s is not None and abandoned_s < retention.ABANDONED_MIN_S:
        raise UsageError(
            f"{abandoned} is too short",
            "--abandoned",
            "at least 7d: a node that is down says nothing of a job that runs",
        )
    settings = config.load().archive
    rules = retention.Rules(
        keep_s=_age_s(keep, "--keep") if keep else None,
        max_bytes=_size_bytes(max_size) if max_size else None,
        abandoned_s=abandoned_s,
        kept_kib=settings.head_kib + settings.tail_kib,
    )
    if rules.keep_s is None and rules.max_bytes is None and rules.abandoned_s is None:
        raise UsageError("nothing to go by", "archive prune", "say --keep AGE, --max-size SIZE or --abandoned AGE")
    archive, now_s = _archive(), time.time()
    try:
        chosen = retention.plan(archive, rules, now_s)
        done = retention.carry_out(chosen, archive, now_s, ownership(settings.admin_groups)) if yes else None
    except OSError as error:
        raise _fault("cannot prune the archive", error) from error
    if as_json:
        _print_json(_pruned(chosen, done))
        return
    _print(_pruned_lines(chosen, done, rules.max_bytes))


def _pruned_lines(chosen: Plan, done: Outcome | None, max_bytes: int | None) -> Iterator[str]:
    verb = "would delete" if done is None else "deleted"
    gone = chosen.doomed if done is None else done.deleted
    yield f"{verb} {len(gone)} records, {_shown(chosen.freed_bytes)}"
    if gone:
        yield f"  the last use of these: {_date(gone[0].idle_since_s)} to {_date(gone[-1].idle_since_s)}"
    if max_bytes is not None:
        left_bytes = chosen.total_bytes - chosen.freed_bytes
        too_large = ", which is still too much" if left_bytes > max_bytes else ""
        yield f"  the archive takes {_shown(chosen.total_bytes)}, without them {_shown(left_bytes)}{too_large}"
    for why, count in Counter(one.why for one in _spared(chosen, done)).items():
        yield f"  spared: {count} {_WHY_SPARED[why]}"
    if done is not None:
        yield f"  {done.scripts} scripts without a record deleted"
    elif gone:
        yield "  nothing was deleted: say --yes"


def _spared(chosen: Plan, done: Outcome | None) -> list[Spared]:
    return chosen.spared + ([] if done is None else done.spared)


def _pruned(chosen: Plan, done: Outcome | None) -> dict[str, Any]:
    return {
        "dry_run": done is None,
        "records": chosen.records,
        "total_bytes": chosen.total_bytes or None,
        "freed_bytes": chosen.freed_bytes,
        "doomed": [str(record.path) for record in chosen.doomed],
        "deleted": [] if done is None else [str(record.path) for record in done.deleted],
        "spared": [{"record": str(one.record.path), "why": one.why} for one in _spared(chosen, done)],
        "scripts_deleted": 0 if done is None else done.scripts,
    }


@command.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def verify(as_json: bool) -> int:
    """Check all records against their digests, owners and modes. Lists what is corrupt, missing, extra, unreadable, or
    open to others; exit status 1 if anything is.

    Owners may overwrite their own records, digests included: this tells of disks and accidents.
    """
    from stepguard.archive.ownership import ownership
    from stepguard.archive.verification import Rules
    from stepguard.archive.verification import verify as each

    records, found = 0, []
    settings = config.load().archive
    rules = Rules(settings.head_kib + settings.tail_kib, ownership(settings.admin_groups))
    for _, damages in each(_archive(), rules):
        records += 1
        found += damages
        if damages and not as_json:
            _print(f"{damage.kind}: {damage.record / damage.file}: {damage.text}" for damage in damages)
    if as_json:
        damaged = [{"record": str(d.record), "file": d.file, "kind": d.kind, "text": d.text} for d in found]
        _print_json({"records": records, "damaged": damaged})
    else:
        _print([f"{records} records, {len(found)} faults"])
    return 1 if found else 0


@command.command("export-xdmod")
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--day-of",
    type=click.Choice(["start", "end"]),
    default="start",
    show_default=True,
    help="Which day of a job names its directory: XDMoD's timestamp_mode of the resource.",
)
@click.option("--since", metavar="AGE", help="Only jobs whose attempt began within this time: 3d.")
@click.option("--cluster", metavar="NAME", help="Which cluster, where the archive has several.")
def export_xdmod(directory: Path, day_of: str, since: str | None, cluster: str | None) -> int:
    """Write job scripts as XDMoD takes them in: DIRECTORY/YYYYMMDD/JOBID.savescript.

    DIRECTORY must be there, with the group of XDMoD's ingestion. Secrets are redacted as in the records. To be
    repeated, every day: what is there already stays as it is. Records that cannot be read, and days in DIRECTORY that
    are no directories of root's or of its owner's, are named and passed over; the exit status is then 1.
    """
    from stepguard.archive.xdmod import export

    if not directory.is_dir():
        advice = "make it, with the group of XDMoD's ingestion and mode 0750"
        raise UsageError("no such directory", str(directory), advice)
    not_before_s = None if since is None else time.time() - _age_s(since, "--since")
    try:
        done = export(_cluster(cluster), directory, day_of, not_before_s)
    except OSError as error:
        raise _fault("cannot export the scripts", error) from error
    unreadable = f", {len(done.unreadable)} records are unreadable" if done.unreadable else ""
    _print([f"{done.written} scripts written, {done.unchanged} were there{unreadable}"])
    for one in done.refused[:_NAMED]:
        tell(f"passed over: {one}")
    for one in done.unreadable[:_NAMED]:
        tell(f"passed over: {one}: `stepguard archive verify` says what is wrong with the record")
    if more := sum(max(len(passed_over) - _NAMED, 0) for passed_over in (done.refused, done.unreadable)):
        tell(f"passed over: {more} more")
    return 1 if done.unreadable or done.refused else 0


@command.command("rebuild-index")
def rebuild_index() -> int:
    """Make the index anew from the records, for `stepguard jobs`. Safe while nodes write.

    All that is in the archive gets the group and modes that `[archive] admin_groups` asks for, too: to be run once when
    that has changed. What cannot be read, or may be written to by others than root, is named and passed over; the exit
    status is then 1.
    """
    from stepguard.archive.index_rebuild import rebuild
    from stepguard.archive.layout import clusters
    from stepguard.archive.ownership import ownership
    from stepguard.archive.regroup import regroup

    owners = ownership(config.load().archive.admin_groups)
    found = clusters(_archive())
    troubles: dict[str, None] = {}
    changed = sum(regroup(layout.root, owners, troubles.setdefault) for layout in found)
    count = sum(rebuild(layout.root, owners, tell, troubles.setdefault) for layout in found)
    _print([f"{count} records are in the index"])
    if changed:
        _print([f"{changed} files have got the owner, group and mode that they should have"])
    for trouble in troubles:
        tell(f"passed over: {trouble}: put it right (root's, mode 0711), and run this again")
    return 1 if troubles else 0


def _archive() -> Path:
    """The archive's directory. Raises StepguardError where there is none: what is not mounted must not look empty."""
    path = Path(config.load().archive.dir)
    try:
        next(path.iterdir(), None)
    except OSError as error:
        raise _fault("cannot read the archive", error) from error
    return path


def _cluster(name: str | None) -> ClusterLayout:
    from stepguard.archive.layout import clusters

    found = {layout.root.name: layout for layout in clusters(_archive())}
    if name is None and len(found) == 1:
        return next(iter(found.values()))
    if name not in found:
        raise UsageError(
            "no such cluster" if name else "which cluster?",
            name or "--cluster",
            f"the archive has {', '.join(sorted(found)) or 'none'}",
        )
    return found[name]


def _age_s(text: str, option: str) -> float:
    match = re.fullmatch(r"([0-9]{1,6})([hdw])", text, re.ASCII)
    if not match:
        raise UsageError(f"bad value {quoted(text)}", option, "write 12h, 90d or 8w")
    return int(match[1]) * _UNITS_S[match[2]]


def _size_bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})([KMGTP])(?:i?B)?", text, re.ASCII)
    if not match and text != "0":
        raise UsageError(f"bad value {quoted(text)}", "--max-size", "write it with its unit: 500G or 2T")
    return int(match[1]) * _UNITS_BYTES[match[2]] if match else 0


def _shown(size_bytes: int) -> str:
    unit = next(unit for unit in reversed(_UNITS_BYTES) if size_bytes >= _UNITS_BYTES[unit] or not unit)
    return f"{size_bytes / _UNITS_BYTES[unit]:.{1 if unit else 0}f} {unit}{'iB' if unit else 'bytes'}"


def _date(time_s: float) -> str:
    from stepguard.archive.layout import day_of

    return day_of(time_s).isoformat()


def _print(lines: Iterable[str]) -> None:
    from stepguard.report.screen import stdout_screen, write_lines

    write_lines(lines, stdout_screen())


def _print_json(document: dict[str, Any]) -> None:
    from stepguard.report.screen import write_json

    write_json({"schema": _SCHEMA, **document})
