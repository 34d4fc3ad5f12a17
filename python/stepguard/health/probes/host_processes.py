# SPDX-License-Identifier: Apache-2.0
"""Processes that do not end: zombies, and those that were killed and wait for a device all the same (state D)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepguard.health.model import Action, Finding, Status
from stepguard.health.probes import memory
from stepguard.health.probes.files import Tree
from stepguard.health.probes.settings import Settings
from stepguard.health.tools.conclusion import printable

_REMEMBERED = "unkillable"
_SIGKILL_BIT = 1 << 8
_MAX_TOLD = 16


class Process(NamedTuple):
    """`name` may hold anything; `started`, in clock ticks since the boot, tells one user of a pid from the next."""

    pid: int
    name: str
    state: str
    started: int


def look(tree: Tree, settings: Settings) -> tuple[dict[str, object], list[Finding]]:
    """What there is, and what of it is a finding. Who was seen unkillable, and since when, is remembered."""
    processes = list(_processes(tree))
    zombies = [one for one in processes if one.state == "Z"]
    waiting = [one for one in processes if one.state == "D"]
    killed = [one for one in waiting if _is_killed(tree, one.pid)]
    # A parent that reaps nobody fills the table of processes sooner or later.
    too_many = zombies if len(zombies) >= settings.zombies else []
    findings = [*_zombies(too_many), *_unkillable(killed, settings.state, settings.unkillable_s)]
    counts = {"all": len(processes), "zombies": len(zombies), "waiting": len(waiting), "killed": len(killed)}
    return dict(counts), findings


def _processes(tree: Tree) -> Iterator[Process]:
    for name in tree.names("/proc"):
        if not name.isdecimal():
            continue
        # The name is in brackets and may hold brackets; after the last one stand state and, as the 20th, the start.
        head, bracket, tail = (tree.text(f"/proc/{name}/stat") or "").rpartition(")")
        words = tail.split()
        if bracket and len(words) > 19 and words[19].isdecimal():
            yield Process(int(name), head.partition("(")[2], words[0], int(words[19]))


def _is_killed(tree: Tree, pid: int) -> bool:
    """Whether SIGKILL waits for it (proc(5): SigPnd of its first thread, ShdPnd of the process)."""
    for line in (tree.text(f"/proc/{pid}/status", 16 << 10) or "").splitlines():
        name, _, value = line.partition(":")
        if name in ("SigPnd", "ShdPnd"):
            try:
                if int(value.strip()[:16], 16) & _SIGKILL_BIT:
                    return True
            except ValueError:
                continue
    return False


def _zombies(zombies: list[Process]) -> Iterator[Finding]:
    if zombies:
        yield Finding(Status.WARN, "", "zombies", Action.CHECK, f"{len(zombies)}: {_named(zombies)}")


def _unkillable(killed: list[Process], state: str | None, fault_s: float) -> Iterator[Finding]:
    """Only a reboot ends one. It may just be about to end, so that it is a warning until it has been so for a while."""
    now_s = memory.now_s()
    before = memory.load(state, _REMEMBERED)
    since = {f"{one.pid}:{one.started}": now_s for one in killed}
    for key, seen_s in before.items():
        if key in since and isinstance(seen_s, int | float):
            since[key] = min(float(seen_s), now_s)
    for one in killed[:_MAX_TOLD]:
        for_s = now_s - since[f"{one.pid}:{one.started}"]
        what = f"{printable(one.name, 40)} was killed and waits for a device"
        if for_s >= fault_s:
            yield Finding(Status.FAIL, f"pid {one.pid}", "unkillable", Action.REBOOT, f"{what}, for {for_s:.0f} s")
        else:
            yield Finding(Status.WARN, f"pid {one.pid}", "unkillable", Action.CHECK, what)
    try:
        if since or before:
            memory.save(state, _REMEMBERED, dict(since))
    except OSError as error:
        evidence = f"how long processes do not end cannot be kept: {state}: {error.strerror}"
        yield Finding(Status.UNKNOWN, "", "unkillable", Action.CHECK, evidence)


def _named(processes: list[Process]) -> str:
    named = ", ".join(f"{printable(one.name, 40)} ({one.pid})" for one in processes[:3])
    return f"{named}, …" if len(processes) > 3 else named
