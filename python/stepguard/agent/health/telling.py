# SPDX-License-Identifier: Apache-2.0
"""What is told of this node to whoever looks at the whole cluster: a small file in the spool, for the archiver."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepguard import __version__
from stepguard.agent.health.offences import count
from stepguard.agent.health.state import StateFile
from stepguard.agent.log import Log
from stepguard.agent.storing import Storing
from stepguard.health.discretion import item_for_all
from stepguard.health.model import Status, worst
from stepguard.health.offenders import Offender
from stepguard.health.verdict import NodeVerdict
from stepguard.records.node_state import NodeState, StateItem, StateOffender, to_record

_ITEMS, _OFFENDERS, _JOBS, _TEXT_MAX = 20, 64, 100, 300
# What comes and goes is not written each time: all nodes of a cluster write to one file server. What is worse is.
_APART_S = 30.0


class Telling:
    """Writes where something has changed that matters to others, and nothing for a node that never had trouble."""

    def __init__(self, path: Path, boot_id: str, storing: Storing, log: Log) -> None:
        self._file = StateFile(path, storing, log)
        self._boot_id = boot_id
        self._told = _substance(self._file.loaded)
        self._not_before_s = 0.0
        self._state: dict[str, Any] = {}

    def look(self, node: str, verdict: NodeVerdict, offenders: Sequence[Offender]) -> None:
        """Tells how the node is, where that is news."""
        is_known = verdict.status is not Status.UNKNOWN or bool(verdict.items)
        had_trouble = verdict.status is not Status.OK or bool(offenders) or self._told is not None
        if is_known and had_trouble and (self._is_worse(verdict) or time.monotonic() >= self._not_before_s):
            self._tell(to_record(_state_of(node, verdict, offenders, self._boot_id)))
        self._file.write(lambda: self._state)

    def write_again(self) -> None:
        """What was told last was removed from the spool."""
        if self._state:
            self._file.change()

    def _is_worse(self, verdict: NodeVerdict) -> bool:
        """Than what was told last."""
        told = Status(self._told[1]) if self._told else Status.OK
        return verdict.status is not told and worst([verdict.status, told]) is verdict.status

    def _tell(self, state: dict[str, Any]) -> None:
        if (substance := _substance(state)) == self._told:
            return
        self._told, self._state = substance, state
        self._not_before_s = time.monotonic() + _APART_S
        self._file.change()


def _substance(state: dict[str, Any]) -> list[Any] | None:
    """What is told anew when it changes."""
    try:
        items = sorted([item[name] for name in ("source", "code", "device", "status")] for item in state["items"])
        offenders = [[one["gpu"], one["job_count"]] for one in state["offenders"]]
        return [state["node"], Status(state["status"]), state["action"], items, state["left_out"], offenders]
    except (KeyError, TypeError, ValueError):
        return None


def _state_of(node: str, verdict: NodeVerdict, offenders: Sequence[Offender], boot_id: str) -> NodeState:
    now_s = time.time()
    began_s = now_s - time.clock_gettime(time.CLOCK_BOOTTIME)
    items = [
        StateItem(
            source=item.source,
            code="" if item.code is None else str(item.code)[:_TEXT_MAX],
            device=(item.gpu or item.device)[:_TEXT_MAX],
            status=item.status,
            action=item.action,
            text=str(item)[:_TEXT_MAX],
            since_s=round(began_s + item.since_s, 1),
        )
        for item in map(item_for_all, verdict.items[:_ITEMS])
    ]
    return NodeState(
        node=node,
        status=verdict.status,
        action=verdict.action,
        items=tuple(items),
        left_out=len(verdict.items) - len(items),
        offences=count(offenders),
        offenders=tuple(
            StateOffender(one.gpu, one.job_ids[-_JOBS:], len(one.job_ids), one.last_s) for one in offenders[:_OFFENDERS]
        ),
        boot_id=boot_id,
        at_s=round(now_s, 1),
        version=__version__,
    )
