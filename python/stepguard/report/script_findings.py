# SPDX-License-Identifier: Apache-2.0
"""What check-script says about a job's script, and after a resume what became of it: a stale list did name a lost node.

What is stale in a script is what it read at the job's start, so all that is to be known is which nodes the job lost
since. The journal tells that; its owner may have written anything into it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from stepguard.archive.reading_record import Record
from stepguard.records.manifest import ScriptFinding
from stepguard.report import resumes
from stepguard.report.layout import INDENT, wrapped
from stepguard.report.screen import Screen
from stepguard.slurm import hostlist

STALE = "stale-nodelist"
# So scripts/judging.py ends what was read within a guarded step, each attempt of which has the variables anew.
_OF_THE_ATTEMPT = "may not be the step's own"
_SHARING = "not-exclusive"
_LINES = 9
_VALUE_CHARS = 500
_COUNTS = ("NNODES", "NUM_NODES")


class Happening(NamedTuple):
    """A finding that came true: when, and in which words. These are not made visible yet."""

    time_s: float | None
    finding: ScriptFinding
    text: str


class _Lost(NamedTuple):
    """What the resumes of one run of the job came to: the step's first and last attempt, when that began, the nodes
    that were lost until then."""

    first: int
    last: int
    time_s: float | None
    nodes: frozenset[str]


def happenings(record: Record) -> list[Happening]:
    """The findings on stale lists that came true, in the order of lines."""
    if (lost := _lost(record)) is None:
        return []
    nodes = record.manifest.nodes if record.manifest else []
    named = [node for node in nodes if node in lost.nodes]
    findings = record.script_findings if named else ()
    stale = [one for one in findings if one.kind == STALE and not one.message.endswith(_OF_THE_ATTEMPT)]
    return [Happening(lost.time_s, one, _sentence(one, lost, named)) for one in stale]


def _sentence(finding: ScriptFinding, lost: _Lost, named: list[str]) -> str:
    variable = finding.message.partition(" ")[0]  # scripts/judging.py begins with it
    is_count = any(word in variable for word in _COUNTS)
    what, did = ("count", "counted") if is_count else ("list", "named")
    were = "was" if len(named) == 1 else "were"
    return (
        f"line {finding.line} used the node {what} of attempt {lost.first}: when attempt {lost.last} began, "
        f"{variable} still {did} {hostlist.fold(named)}, which {were} lost"
    )


def in_the_script(record: Record, command: str, screen: Screen) -> Iterator[str]:
    """The errors and warnings, some lines; `command` prints the script."""
    # Whether the nodes were shared is known once a guarded step has begun: it would have been refused.
    ran = any(event.get("event") == "start" for event in record.resumes)
    worth = [one for one in record.script_findings if one.severity != "info" and not (ran and one.kind == _SHARING)]
    for one in worth[:_LINES]:
        text = f"line {one.line}: {one.severity} {one.rule}: {one.message}"[:_VALUE_CHARS]
        yield from wrapped(screen.text(text if screen.utf8 else text.replace("→", "->")), INDENT, screen)
    if worth:
        more = f"{len(worth) - _LINES} more, and what" if len(worth) > _LINES else "what"
        yield f"{INDENT}{more} to write instead: {command} | stepguard check-script -"


def _lost(record: Record) -> _Lost | None:
    """None where no step of this run of the job was resumed."""
    found: _Lost | None = None
    gone: frozenset[str] = frozenset()
    first: dict[str, int] = {}
    blamed: dict[str, frozenset[str]] = {}
    for event in record.resumes:
        key, attempt = str(event.get("step_key")), event.get("attempt")
        if event.get("restart_count") != record.attempt or type(attempt) is not int:
            continue
        kind = event.get("event")
        if kind == "end":
            blamed[key] = _nodes(event)
        elif kind == "choice":
            gone = (gone | blamed.pop(key, frozenset())) - _nodes(event)
        elif kind == "start" and attempt > first.setdefault(key, attempt):
            found = _Lost(first[key], attempt, resumes.time_of(event), gone)
    return found


def _nodes(event: Mapping[str, Any]) -> frozenset[str]:
    nodes = event.get("nodes")
    return frozenset(node for node in nodes if isinstance(node, str)) if isinstance(nodes, list) else frozenset()
