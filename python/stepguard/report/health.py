# SPDX-License-Identifier: Apache-2.0
"""What became of the devices of a job: findings first, a row for each node that had any, a line for all the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepguard.archive.health import change_words, findings
from stepguard.archive.reading_record import Record
from stepguard.records.health import HealthRecord
from stepguard.records.manifest import NodeRecord
from stepguard.report.layout import INDENT, section, table, wrapped
from stepguard.report.screen import Screen
from stepguard.report.times import duration
from stepguard.slurm import hostlist

_FINDINGS = 40
_MOVED = 3
_WORST_FIRST = ("fail", "warn", "unknown", "ok")
_HEADER = ("NODE", "STATUS", "ASKS FOR", "GPUS", "TOOK", "ENERGY", "CLOCKS HELD DOWN", "MOVED", "NOT KNOWN")
_J_PER_KJ = 1000.0

Looked = tuple[NodeRecord, HealthRecord]


def health_page(record: Record, screen: Screen) -> list[str]:
    """The lines of the page. `record` has at least one node that was looked at."""
    lines = list(_page(record, screen))
    return lines[1:] if lines[0] == "" else lines  # each section has a blank line before it


def _page(record: Record, screen: Screen) -> Iterator[str]:
    looked = looked_at(record)
    found = [one for one in looked if _has_any(one[1])]
    yield from _findings(found, screen)
    if found:
        yield from section("Nodes", table(_HEADER, [_row(*one, screen) for one in found], screen, INDENT), screen)
    done = [(part, health.reaction) for part, health in looked if health.reaction]
    told = [line for part, text in done for line in wrapped(screen.text(f"{part.node}: {text}"), INDENT, screen)]
    yield from section("What was done", told, screen)
    if found:
        yield ""
    yield _rest([one for one in looked if one not in found], unseen_nodes(record), bool(found), screen)


def looked_at(record: Record) -> list[Looked]:
    """The nodes whose agent has looked, the worst first."""
    looked = [(part, part.health) for part in record.nodes if part.health is not None]
    return sorted(looked, key=lambda one: _rank(one[1].status))


def unseen_nodes(record: Record) -> list[str]:
    """Nodes of an attempt that has ended of whose devices nothing is known: nobody has looked, or their part is not
    there."""
    looked = {part.node for part, _ in looked_at(record)}
    ended = record.manifest is not None and record.manifest.state != "running"
    expected = record.manifest.nodes if ended and record.manifest else [part.node for part in record.nodes]
    return [name for name in dict.fromkeys(expected) if name not in looked]


def _rank(status: str) -> int:
    return _WORST_FIRST.index(status) if status in _WORST_FIRST else 0


def _has_any(health: HealthRecord) -> bool:
    return health.status != "ok" or bool(health.changes or health.events or health.throttled_ms)


def _findings(found: Sequence[Looked], screen: Screen) -> Iterator[str]:
    told = [(part.node, one.text) for part, health in found for one in findings(health, part.node)]
    lines = [line for node, text in told for line in wrapped(screen.text(f"{node}: {text}"), INDENT, screen)]
    body = lines[:_FINDINGS] if len(told) > _FINDINGS else lines
    more = len(told) - _FINDINGS
    if more > 0:
        body = [*body, f"{INDENT}{more} more: with --json"]
    yield from section("Findings", body, screen)


def _row(part: NodeRecord, health: HealthRecord, screen: Screen) -> tuple[str, ...]:
    moved = [change_words(one) for one in health.changes if one.status == "ok"]
    more = f"; {len(moved) - _MOVED} more" if len(moved) > _MOVED else ""
    held = ", ".join(f"{cause.replace('_', ' ')} {time_ms:.0f} ms" for cause, time_ms in health.throttled_ms.items())
    return (
        screen.text(part.node),
        screen.text(health.status),
        "" if health.action == "none" else screen.text(health.action),
        str(len(health.gpus) or ""),
        duration(health.seconds),
        energy(health.energy_j),
        screen.text(held),
        screen.text("; ".join(moved[:_MOVED]) + more),
        screen.text("; ".join(_unknown(health))),
    )


def _unknown(health: HealthRecord) -> Iterator[str]:
    """What could not be told, and why."""
    if health.why:
        yield health.why
    for one in health.findings:
        if one.status == "unknown":
            yield f"{one.device or 'node'}: {one.what}: {one.evidence}"
    for event in health.events:
        if event.status == "unknown":
            where = f" on {event.device}" if event.device else ""
            yield f"{event.source} {event.code}".strip() + where + (f", {event.count} times" if event.count > 1 else "")
    for device, paths in health.not_known.items():
        yield f"{device or 'node'}: {', '.join(paths)}"


def energy(joules: float | None) -> str:
    """Joules as people read them; "" where they are not known."""
    if joules is None:
        return ""
    return f"{joules:.0f} J" if joules < 10 * _J_PER_KJ else f"{joules / _J_PER_KJ:.0f} kJ"


def _rest(rest: Sequence[Looked], unseen: Sequence[str], is_rest: bool, screen: Screen) -> str:
    nodes, gpus = len(rest), sum(len(health.gpus) for _, health in rest)
    words = []
    if nodes:
        other = "other " if is_rest else ""
        count = f"{nodes} {other}node{'s' if nodes > 1 else ''}, {gpus} GPU{'' if gpus == 1 else 's'}"
        joules = [health.energy_j for _, health in rest if health.energy_j is not None]
        used = f", {energy(sum(joules))} used" if joules else ""
        words.append(f"{count}: nothing found, nothing moved{used}")
    if unseen:
        words.append(f"nothing is known of {screen.text(hostlist.fold(unseen))}")
    return "; ".join(words)
