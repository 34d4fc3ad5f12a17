# SPDX-License-Identifier: Apache-2.0
"""A difference in lines that a person reads: findings first, then what moved, and one line for all the rest."""

from __future__ import annotations

from collections.abc import Mapping

from stepguard.health.difference import Change, Difference, Kind
from stepguard.health.model import Status

_WORST_FIRST = (Status.FAIL, Status.WARN, Status.UNKNOWN, Status.OK)
_WORDS = {
    Kind.MOVED: "{what} moved by {by:g}, to {after}",
    Kind.CHANGED: "{what} was {before}, is {after}",
    Kind.RESET: "{what} was {before}, is {after}: reset in between",
    Kind.VANISHED: "the GPU at {before} vanished",
    Kind.UNREAD: "the GPU at {before} does not answer: {after}",
    Kind.NEW: "a new GPU at {after}",
    Kind.SWAPPED: "another GPU is at {what}: {after}",
    Kind.MIG_VANISHED: "MIG device {what} vanished",
    Kind.MIG_NEW: "MIG device {what} is new",
    Kind.DEVICE_GONE: "gone",
    Kind.DEVICE_NEW: "new",
    Kind.REBOOTED: "the node was rebooted in between",
}


def lines(difference: Difference) -> list[str]:
    """At least one."""
    told = [(one.status, _line(one.device, f"{one.what}: {one.evidence}")) for one in difference.appeared]
    told += [(change.status, _line(change.device, _words(change))) for change in difference.changes]
    told.sort(key=lambda one: _WORST_FIRST.index(one[0]))  # stable: findings stay before what moved
    shown = [line if status is Status.OK else f"{status.upper()} {line}" for status, line in told]
    if "gpus" in difference.not_known.get("", ()):
        return [*shown, "the GPUs of one of the two snapshots are not known"]
    return [*shown, _rest(difference, bool(told))]


def _words(change: Change) -> str:
    return _WORDS[change.kind].format_map(vars(change))


def _line(device: str, text: str) -> str:
    return f"{device}: {text}" if device else text


def _rest(difference: Difference, is_rest: bool) -> str:
    count = difference.gpus
    words = [f"{count} GPU{'' if count == 1 else 's'}: {'nothing else' if is_rest else 'nothing'} moved"]
    known = [joules for joules in difference.energy_j.values() if joules is not None]
    if known:
        words.append(f"{sum(known):.0f} J used")
    held = _sum_by_cause(difference.throttled_ms)
    if held:
        words.append("clocks held down " + ", ".join(f"{time_ms:.0f} ms by {cause}" for cause, time_ms in held.items()))
    return "; ".join(words)


def _sum_by_cause(throttled_ms: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for causes in throttled_ms.values():
        for cause, time_ms in causes.items():
            sums[cause.replace("_", " ")] = sums.get(cause.replace("_", " "), 0) + time_ms
    return sums
