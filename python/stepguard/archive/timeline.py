# SPDX-License-Identifier: Apache-2.0
"""The messages of an attempt on one node in the order in which they happened, whatever the node's clock did meanwhile.

Within one boot, CLOCK_BOOTTIME gives order and durations: nobody can set it. The wall clock is read once a boot, at the
first message, and all times of that boot are counted on from there; so a clock that is stepped by an hour neither
reorders nor stretches a job. Boots are in the order in which their first messages arrived.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stepguard.records import wire

# A difference between the two clocks that is more than the one's slewing and the other's rounding.
_STEPPED_S = 2.0
# Sent by the job's own process, which could say anything of the time: it happened when it arrived.
_USERS_OWN = "output"


class Message(NamedTuple):
    """One message as it lay in the spool."""

    sequence: int
    kind: str
    fields: Mapping[str, bytes]


class Event(NamedTuple):
    """A message, and when it was: `at_s` in seconds since 1970 (None when nothing tells), `boot` counted from 0."""

    at_s: float | None
    boot: int
    message: Message

    @property
    def kind(self) -> str:
        return self.message.kind

    @property
    def fields(self) -> Mapping[str, bytes]:
        return self.message.fields


class Timeline(NamedTuple):
    """All events in order; `clock_steps_s` are the steps of the wall clock that were noticed among them."""

    events: list[Event]
    clock_steps_s: list[float]


def in_order(messages: Iterable[Message]) -> Timeline:
    """A timeline of messages in the order of their arrival."""
    events: list[Event] = []
    steps_s: list[float] = []
    for boot, arrived in enumerate(_boots(messages)):
        ordered = sorted(arrived, key=lambda timed: timed[0])
        first = next((timed for timed in ordered if _wall_s(timed[1]) is not None), None)
        if first is None:
            events += [Event(None, boot, message) for _, message in ordered]
            continue
        latest_s = max((event.at_s for event in events if event.at_s is not None), default=0.0)
        first_s = _wall_s(first[1]) or 0.0
        start_s = max(first_s, latest_s)  # a clock may be wrong until it is set, after a boot
        ahead_s = 0.0
        for boottime_ns, message in ordered:
            since_s = (boottime_ns - first[0]) / 1e9
            events.append(Event(start_s + since_s, boot, message))
            wall_s = _wall_s(message)
            if wall_s is not None and abs(wall_s - first_s - since_s - ahead_s) > _STEPPED_S:
                steps_s.append(wall_s - first_s - since_s - ahead_s)
                ahead_s = wall_s - first_s - since_s
    return Timeline(events, steps_s)


def _boots(messages: Iterable[Message]) -> list[list[tuple[int, Message]]]:
    """The messages of each boot with their CLOCK_BOOTTIME; one that has none happened when the one before it did."""
    boots: dict[str, list[tuple[int, Message]]] = {}
    boot_id = ""
    for message in messages:
        told = message.kind != _USERS_OWN
        boot_id = (told and wire.text(message.fields, "boot_id")) or boot_id
        boot = boots.setdefault(boot_id, [])
        boottime_ns = wire.number(message.fields, "boottime_ns") if told else None
        if boottime_ns is None:
            boottime_ns = boot[-1][0] if boot else 0
        boot.append((boottime_ns, message))
    return list(boots.values())


def _wall_s(message: Message) -> float | None:
    time_ns = wire.number(message.fields, "time_ns") if message.kind != _USERS_OWN else None
    return None if time_ns is None else time_ns / 1e9
