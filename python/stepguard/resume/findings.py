# SPDX-License-Identifier: Apache-2.0
"""What is known of an attempt's nodes, as findings to judge by."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from stepguard.resume.told import Told
from stepguard.resume.verdict import Finding

if TYPE_CHECKING:
    from stepguard.resume.lookout import Lookout


def lost_finding(name: str) -> Finding:
    """The finding on a node that neither its watch nor its kernel speaks for."""
    return Finding(name, "silence", "reboot", "does not answer", lost=True)


def told_findings(watch: Lookout, nodes: Collection[str]) -> tuple[Finding, ...]:
    """The broken hardware that those nodes told of."""
    told = ((name, one) for name, faults in watch.pulse.faults().items() if name in nodes for one in faults)
    return tuple(_told_finding(name, one, f"{one.text} ({one.source}: {one.action})") for name, one in told)


def standing_findings(watch: Lookout, nodes: Collection[str]) -> tuple[Finding, ...]:
    """The broken hardware that those nodes were known for before the guarded step began."""
    told = (
        (name, one)
        for name, faults in watch.pulse.standing_faults().items()
        if name in nodes
        for one in faults
        if not one.seen_since(watch.pulse.began_s)
    )
    return tuple(
        _told_finding(name, one, f"{one.text} ({one.source}: {one.action}), known before the step began")
        for name, one in told
    )


def unwell(watch: Lookout, nodes: Collection[str]) -> tuple[str, ...]:
    """What those nodes tell of themselves, beside what is a program's own fault: with any of it none is healthy."""
    told = ((name, one) for name, all_told in watch.pulse.told().items() if name in nodes for one in all_told)
    return tuple(f"{name}: {one.text}" for name, one in told if one.is_trouble and not one.is_programs)


def program_findings(watch: Lookout, nodes: Collection[str], since_s: float) -> tuple[Finding, ...]:
    """The program's own faults that those nodes have seen since then."""
    told = ((name, one) for name, faults in watch.pulse.told().items() if name in nodes for one in faults)
    return tuple(
        _told_finding(name, one, one.name) for name, one in told if one.is_programs and one.seen_since(since_s)
    )


def _told_finding(node: str, told: Told, text: str) -> Finding:
    return Finding(node, told.source, told.action, text, device=told.device, code=told.code, seen_s=told.last_s)


def as_record(finding: Finding) -> dict[str, Any]:
    """A finding for the journal."""
    known = finding._asdict()
    del known["seen_s"]  # a clock that means nothing to others
    return {name: value for name, value in known.items() if value not in ("", False)}
