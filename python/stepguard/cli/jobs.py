# SPDX-License-Identifier: Apache-2.0
"""`stepguard jobs`: the records that there are, from the index, the newest first."""

from __future__ import annotations

import gc
import pwd
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stepguard import __version__, config
from stepguard.cli.output import tell
from stepguard.errors import StepguardError, UsageError
from stepguard.escaping import quoted

if TYPE_CHECKING:
    from stepguard.archive.index_reading import Found, Query

SCHEMA = 1
_DEFAULT_SINCE = "7d"
_DEFAULT_LIMIT = 100


@click.command(short_help="The jobs that there are records of.")
@click.option("--user", metavar="NAME", help="Of this user, by name or number, in place of your own.")
@click.option("--all", "everybody", is_flag=True, help="Of everybody whose records you may read.")
@click.option("--node", metavar="LIST", help="That ran on any of these nodes: n3, n[1-8].")
@click.option("--state", metavar="LIST", help="Any of these states; see above.")
@click.option("--since", default=_DEFAULT_SINCE, show_default=True, metavar="TIME", help="That ran after this.")
@click.option("--until", metavar="TIME", help="That ran before this.")
@click.option("--name", metavar="PATTERN", help="Of this name; * and ? stand for others.")
@click.option("--partition", metavar="LIST", help="Of any of these partitions.")
@click.option("--cluster", default="", metavar="NAME", help="Of this cluster alone.")
@click.option("--limit", type=click.IntRange(0), default=_DEFAULT_LIMIT, show_default=True, help="0: no limit.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    user: str | None,
    everybody: bool,
    node: str | None,
    state: str | None,
    since: str,
    until: str | None,
    name: str | None,
    partition: str | None,
    cluster: str,
    limit: int,
    as_json: bool,
) -> int:
    """List the jobs that there are records of, the newest first; your own of the last 7 days unless told otherwise.

    TIME: 2d, 3h, today, 14:30, 2026-11-01 or 2026-11-01T14:30.

    \b
    STATES, several with commas between them:
      running     it runs, as far as is known
      completed   its batch script ended with exit status 0
      cancelled, timeout, preempted, requeued, node-fail
                  how Slurm ended it, as far as its output or a later attempt tells
      failed      all that ended badly: with another exit status, by a signal, or by Slurm in one of these ways
      ended       all that ended, also where nothing tells how
      lost        the node that led it went down, or never told the end
      damaged     its record cannot be read
    """
    from stepguard.archive.index_reading import Query, search
    from stepguard.archive.reading import layouts_of
    from stepguard.report.screen import stdout_screen, write_json, write_lines
    from stepguard.report.times import parsed

    if user is not None and everybody:
        raise UsageError("--user and --all", "jobs", "give one of them")
    now_s = time.time()
    since_s, until_s = parsed(since, "--since", now_s), parsed(until, "--until", now_s) if until else None
    if until_s is not None and until_s < since_s:
        raise UsageError("no time between them", f"--since {since} and --until {until}", "say an earlier --since")
    uid, user_name = (None, "") if everybody else _owner(user)
    query = Query(
        uid=uid,
        user=user_name,
        nodes=_nodes(node),
        states=_states(state),
        since_s=since_s,
        until_s=until_s,
        name=name or "",
        partitions=_listed(partition),
        limit=limit,
    )
    gc.disable()  # to look through 10^5 rows again and again costs half a second, and none is in a cycle
    clusters = layouts_of(Path(config.load().archive.dir), cluster)
    found, more = search(clusters, query, tell)
    if not found and user_name and not search(clusters, Query(user=user_name, limit=1))[0]:
        raise UsageError("no such user", f"--user {user_name}", "neither this host nor any record knows them")
    if as_json:
        write_json(_document(found, more))
        return 0
    if found:
        from stepguard.report.lists import jobs_table

        screen = stdout_screen()
        write_lines(jobs_table(found, screen, everybody or user is not None, len(clusters) > 1), screen)
    _tell(found, more, query, f"since {since}" + (f", until {until}" if until else ""))
    return 0


def _owner(user: str | None) -> tuple[int | None, str]:
    """The number of whom is asked for; of a name that this host does not know, the name, by which records know them."""
    if user is None:
        import os

        return os.geteuid(), ""
    if user.isascii() and user.isdigit() and len(user) <= 10:
        return int(user), ""
    try:
        return pwd.getpwnam(user).pw_uid, ""
    except KeyError:
        return None, user


def _nodes(text: str | None) -> frozenset[str]:
    from stepguard.slurm.hostlist import expand

    try:
        return frozenset(expand(text or ""))
    except StepguardError as error:
        raise UsageError(error.what, f"--node {quoted(text or '')}", "write n3 or n[1-8]") from error


def _states(text: str | None) -> frozenset[str]:
    from stepguard.archive.index_reading import STATES

    words = _listed(text.lower() if text else None)
    if unknown := words.difference(STATES):
        raise UsageError(f"unknown state {quoted(min(unknown))}", "--state", "known: " + ", ".join(STATES))
    return frozenset[str]().union(*(STATES[word] for word in words))


def _listed(text: str | None) -> frozenset[str]:
    return frozenset(word for word in (text or "").split(",") if word)


def _tell(found: Sequence[Found], more: bool, query: Query, when: str) -> None:
    """What the list does not say, on stderr."""
    if more:
        tell(f"there are more than {len(found)}: --limit 0 lists all")
    if not found:
        whose = "" if query.uid is None else "; --all lists those of everybody whose records you may read"
        tell(f"no such job {when}{whose}")


def _document(found: Sequence[Found], more: bool) -> dict[str, Any]:
    jobs = [_as_json(one) for one in found]
    return {"schema": SCHEMA, "stepguard": __version__, "more": more, "jobs": jobs}


def _as_json(one: Found) -> dict[str, Any]:
    from stepguard.archive.outcome import BY_SLURM

    values = one.entry._asdict()
    directory = str(one.cluster.root / values.pop("path"))
    state = "ended" if one.entry.state in BY_SLURM else one.entry.state
    return {
        "cluster": one.cluster.root.name,
        **values,
        "state": state,
        "outcome": one.outcome,
        "directory": directory,
    }
