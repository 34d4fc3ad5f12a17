# SPDX-License-Identifier: Apache-2.0
"""Finds out what a pasted text is, and what it says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepguard.health.catalogue import Catalogue, shipped, status_of
from stepguard.health.explain.markup import without_markup
from stepguard.health.explain.quotation import unquoted
from stepguard.health.kernel.fold import Folder
from stepguard.health.kernel.lines import read, whole_shape
from stepguard.health.kernel.pasted import utf8
from stepguard.health.kernel.shape import Shape
from stepguard.health.model import Event, FaultClass, Judgement, Status, worst
from stepguard.health.tools.conclusion import ended_with
from stepguard.health.tools.kind import Kind
from stepguard.health.tools.kinds import KINDS

KERNEL_LOG = "kernel-log"
UNKNOWN = "unknown"
EMPTY = "empty"
TOO_LARGE = "too-large"
# Of a file; a larger one is refused. A tool's output is never near it, so tools are only given smaller texts.
MAX_BYTES = 256 << 20
_MAX_TOOL_BYTES = 64 << 20
# Of what a reason names.
_MAX_NAMED = 3


class Explained(NamedTuple):
    """`kind`: the tool's name (of several, with "+" between them), "kernel-log", "unknown" (events may be in it all the
    same, none of them trusted), "empty" or "too-large"."""

    kind: str
    judgement: Judgement


def explain(
    content: bytes,
    exit_status: int | None = None,
    catalogue: Catalogue | None = None,
    kinds: Sequence[Kind] = KINDS,
) -> Explained:
    """What a text is and says. `exit_status`: of the command that printed it, where it is known. Never raises for what
    the text holds; time and memory go with its size."""
    if len(content) > MAX_BYTES:
        return Explained(TOO_LARGE, Judgement(Status.UNKNOWN, f"more than {MAX_BYTES >> 20} MiB: give a part of it"))
    content = unquoted(without_markup(utf8(content)))
    if not content.strip():
        return Explained(EMPTY, Judgement(Status.UNKNOWN, "nothing to read"))
    if len(content) <= _MAX_TOOL_BYTES and kinds:
        text = content.decode(errors="replace")
        if tools := [kind for kind in kinds if kind.recognizes(text)]:
            return _as_tools(content, text, exit_status, tools, catalogue or shipped())
    return _as_log(content, exit_status, catalogue or shipped())


def _as_tools(
    content: bytes, text: str, exit_status: int | None, tools: Sequence[Kind], catalogue: Catalogue
) -> Explained:
    """The worst of what they say; lines of a kernel's log between them make no "ok"."""
    judgements = [tool.read(text, exit_status) for tool in tools]
    status = worst(judgement.status for judgement in judgements)
    reason = "; ".join(judgement.reason for judgement in judgements if judgement.reason)
    events = [event for judgement in judgements for event in judgement.events]
    folder = Folder(catalogue)
    for line in read(content, Shape.OTHER):
        folder.add(line)
    if beside := [event for event in folder.events() if event.fault_class is not FaultClass.IGNORE]:
        events += beside
        if status is Status.OK:
            status, reason = Status.UNKNOWN, "lines of a kernel's log stand beside it: give that log by itself"
    devices = [device for judgement in judgements for device in judgement.devices]
    return Explained("+".join(tool.name for tool in tools), Judgement(status, reason, events, devices))


def _as_log(content: bytes, exit_status: int | None, catalogue: Catalogue) -> Explained:
    shape = whole_shape(content)
    folder = Folder(catalogue)
    trusted_lines = 0
    for line in read(content, shape):
        trusted_lines += line.is_kernel
        folder.add(line)
    events = folder.events()
    if shape is Shape.OTHER:
        reason = "no log and no tool's output that is known"
        if events:
            reason = "a kernel's lines among others prove nothing: give the kernel's log by itself"
        return Explained(UNKNOWN, Judgement(Status.UNKNOWN, reason, events))
    judgement = _judged(events, trusted_lines, folder.is_cut)
    if exit_status and judgement.status is Status.OK:
        judgement = Judgement(*ended_with(exit_status), judgement.events)
    return Explained(KERNEL_LOG, judgement)


def _judged(events: list[Event], trusted_lines: int, is_cut: bool) -> Judgement:
    if not trusted_lines:
        return Judgement(Status.UNKNOWN, "no line of it was written by the kernel", events)
    trusted = [event for event in events if event.trusted]
    status = worst((status_of(event.fault_class, event.action) for event in trusted), of_none=Status.OK)
    if is_cut and status is Status.OK:
        status = Status.UNKNOWN
    reason = "more different events than are kept" if is_cut else "" if trusted else "no event that is known"
    if trusted and not is_cut and status is Status.UNKNOWN:
        reason = "no catalogue tells whether this is a fault: " + _unjudged(trusted)
    return Judgement(status, reason, events)


def _unjudged(events: list[Event]) -> str:
    """The names of the first that only somebody who looks can judge."""
    unjudged = (one for one in events if status_of(one.fault_class, one.action) is Status.UNKNOWN)
    names = dict.fromkeys(f"{one.source} {one.row if one.code is None else one.code}" for one in unjudged)
    return ", ".join(list(names)[:_MAX_NAMED]) + (", …" if len(names) > _MAX_NAMED else "")
