# SPDX-License-Identifier: Apache-2.0
"""From what was found of each device to what the whole text says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stepguard.health.model import DeviceJudgement, Judgement, Status, worst

_MAX_DEVICES = 4096
_MAX_REASON_CHARS = 300
_MAX_NAME_CHARS = 64
_NAMED_IN_REASON = 3


class Remark(NamedTuple):
    """Something about the whole text, of no one device."""

    status: Status
    reason: str


CUT = Remark(Status.UNKNOWN, "the text ends before all is told")


def conclude(
    devices: Iterable[DeviceJudgement],
    exit_status: int | None,
    remarks: Iterable[Remark] = (),
    exits: Mapping[int, Remark] | None = None,
) -> Judgement:
    """The judgement of a text: the worst of its devices, of the remarks and of the command's exit status.

    A device that is named more than once, as in the output of a loop, is as bad as it ever was. `exits` tells what
    exit statuses of the tool mean; another one than 0 is UNKNOWN.
    """
    merged, too_many = _merge(devices)
    said = list(remarks)
    if exit_status:
        said.append((exits or {}).get(exit_status) or ended_with(exit_status))
    if too_many:
        said.append(Remark(Status.UNKNOWN, f"more than {_MAX_DEVICES} devices: the rest was not looked at"))
    status = worst([*(one.status for one in merged), *(remark.status for remark in said)])
    reasons = [remark.reason for remark in said if remark.status is status]
    reasons += [f"{one.device}: {one.reason}" for one in merged if one.status is status]
    if status is Status.OK and merged:
        reasons = [f"{len(merged)} device{'s' if len(merged) > 1 else ''} without a finding"]
    return Judgement(status, _joined(reasons) or "it tells nothing of a device's health", devices=merged)


def _merge(devices: Iterable[DeviceJudgement]) -> tuple[list[DeviceJudgement], bool]:
    merged: dict[str, DeviceJudgement] = {}
    for one in devices:
        device = printable(one.device, _MAX_NAME_CHARS)
        before = merged.get(device)
        if before is None and len(merged) == _MAX_DEVICES:
            return list(merged.values()), True
        if before is None or worst([before.status, one.status]) is not before.status:
            merged[device] = DeviceJudgement(device, one.status, printable(one.reason, _MAX_REASON_CHARS))
    return list(merged.values()), False


def ended_with(exit_status: int) -> Remark:
    """What a failed command's own status says of its text: it may not be all."""
    # timeout(1) ends with 124, a shell says 128 + N of a command that signal N ended.
    why = ": it did not answer in time" if exit_status in (124, 128 + 9, 128 + 15) else ""
    return Remark(Status.UNKNOWN, f"the command ended with {exit_status}{why}")


def _joined(reasons: list[str]) -> str:
    more = len(reasons) - _NAMED_IN_REASON
    shown = "; ".join(reasons[:_NAMED_IN_REASON]) + (f"; and {more} more" if more > 0 else "")
    return printable(shown, _NAMED_IN_REASON * (_MAX_REASON_CHARS + _MAX_NAME_CHARS))


def printable(text: str, limit: int) -> str:
    """In one line, without control characters and undecoded bytes, at most `limit` characters."""
    shown = "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text[: limit + 1])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"
