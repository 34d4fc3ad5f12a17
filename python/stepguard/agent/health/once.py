# SPDX-License-Identifier: Apache-2.0
"""An XID that the kernel's log and NVML both tell of is one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from stepguard.health.model import Event
from stepguard.health.repetition import APART_S

KERNEL, NVML = "kernel", "nvml"
_REMEMBERED = 64


class Once:
    """`state` is what an earlier `state()` gave; ValueError or TypeError where it is not. Who told of a code first is
    its teller for that moment; what the other tells within APART_S is the same."""

    def __init__(self, state: Iterable[Any] = ()) -> None:
        self._told: dict[tuple[Any, str], tuple[str, float]] = {}
        for code, device, teller, told_s in state:
            self._told[code, str(device)] = (str(teller), float(told_s))

    def state(self, now_s: float) -> list[list[Any]]:
        return [[*key, *told] for key, told in self._told.items() if abs(now_s - told[1]) < 2 * APART_S]

    def counted(self, event: Event, at_s: float, teller: str) -> tuple[Event, float] | None:
        """The event as it is to be counted, and its time; None where it has been told. The kernel tells more than a
        number: where it comes second, its words count, and it does not."""
        if event.source != "xid":
            return event, at_s
        key = (event.code, event.device)
        first, told_s = self._told.get(key, (teller, at_s))
        if first == teller or abs(at_s - told_s) > APART_S:
            self._told.pop(key, None)
            self._told[key] = (teller, at_s)
            if len(self._told) > _REMEMBERED:
                del self._told[next(iter(self._told))]
            return event, at_s
        if teller == KERNEL:
            return dataclasses.replace(event, count=0), max(at_s, told_s)
        return None
