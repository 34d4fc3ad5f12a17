# SPDX-License-Identifier: Apache-2.0
"""Proves by their watch that new nodes are fit: it runs there, they are not faulty, and the plugin is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from stepguard.resume.told import told_in
from stepguard.resume.watch_step import WatchStep

# How long the watch of a new node may take to say that all is well, which on a busy one is some seconds.
_PROOF_S = 15.0
_POLL_S = 0.01
# A node that has not answered for so long is asked by its kernel.
_ASK_KERNEL_S = 2.0


class Unfit(NamedTuple):
    """Why nodes are of no use; `nodes` are those to blame."""

    why: str
    nodes: list[str]


def begin(watch: WatchStep) -> None:
    """Starts a watch and asks its nodes for an answer."""
    watch.tick(time.monotonic())
    watch.ping(0)


def finish(watch: WatchStep, goes_on: Callable[[float], bool], alive: Callable[[set[str]], set[str]]) -> Unfit | None:
    """Waits for all nodes to answer; None when all are fit.

    `goes_on` waits, and says whether to go on. `alive` says of nodes which have a kernel that answers.
    """
    waiting = set(watch.nodes)
    end_s = time.monotonic() + _PROOF_S
    ask_s = time.monotonic() + _ASK_KERNEL_S
    while waiting:
        for report in watch.read():
            name = str(report.get("node"))
            if report.get("plugin") is not True:
                return Unfit(f"the plugin is not loaded in slurmstepd on {name} (plugstack.conf)", [name])
            if faults := [one.text for one in told_in(report, time.monotonic()) if one.is_hardware]:
                return Unfit(f"{name} is faulty: {'; '.join(faults)}", [name])
            waiting.discard(name)
        if waiting and time.monotonic() > ask_s:
            ask_s = time.monotonic() + _ASK_KERNEL_S
            if silent := waiting - alive(waiting):
                return Unfit(f"{','.join(sorted(silent))} does not answer", sorted(silent))
        if waiting and time.monotonic() > end_s:
            return Unfit(f"{','.join(sorted(waiting))} runs no watch", sorted(waiting))
        if waiting and not goes_on(_POLL_S):
            return Unfit("it has ended", [])
    return None
