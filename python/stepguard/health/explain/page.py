# SPDX-License-Identifier: Apache-2.0
"""The result of `stepguard health explain`, and a row of the catalogue, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stepguard.health.catalogue import Catalogue, Entry
from stepguard.health.explain.explained import Explained
from stepguard.health.model import Event

_HOUR_S = 3600


def lines_of(name: str, one: Explained, catalogue: Catalogue, visible: Callable[[str], str]) -> Iterator[str]:
    """What there is to say of one text. `visible` makes text that others wrote harmless to a terminal."""
    judgement = one.judgement
    head = (visible(name) or "''", one.kind, judgement.status.upper(), visible(judgement.reason))
    yield ": ".join(part for part in head if part)
    for device in judgement.devices:
        yield f"  {visible(device.device)}: {device.status}: {visible(device.reason)}"
    for event in judgement.events:
        yield "  " + _of_event(event, visible)
        if meaning := _meaning(event, catalogue):
            yield f"      {meaning}"


def entry_lines(entry: Entry) -> Iterator[str]:
    """A row of the catalogue."""
    yield f"{entry.source} {entry.code}  {entry.name}"
    yield f"  {entry.meaning}"
    rows = [("class", entry.fault_class), ("action", entry.action), ("vendor", entry.vendor)]
    if entry.repeats:
        often = f"{entry.repeats.count} times on one device within {entry.repeats.within_s / _HOUR_S:g} h"
        rows.append(("repeated", f"{often}: {entry.repeats.fault_class}, {entry.repeats.action}"))
    rows += [("less than", ", ".join(entry.overridden_by)), ("source", entry.origin)]
    rows += [("but", text) for text in entry.disagreements]
    yield from (f"  {label:<10}{text}" for label, text in rows if text)


def _of_event(event: Event, visible: Callable[[str], str]) -> str:
    code = event.row if event.code is None else event.code
    device = f" on {visible(event.device)}" if event.device else ""
    times = f", {event.count} times" if event.count > 1 else ""
    doubt = "" if event.trusted else " (not the kernel's own words: counts for nothing)"
    return f"line {event.line}: {event.source} {code}{device}{times}: {event.fault_class}, {event.action}{doubt}"


def _meaning(event: Event, catalogue: Catalogue) -> str:
    return catalogue.lookup(event.source, event.row if event.code is None else event.code).meaning
