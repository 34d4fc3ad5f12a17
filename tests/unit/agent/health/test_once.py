# SPDX-License-Identifier: Apache-2.0
"""An XID that two tell of is counted once, with the kernel's words."""

from __future__ import annotations

import dataclasses

import pytest

from stepguard.agent.health.once import KERNEL, NVML, Once
from unit.health.building import XID_13, XID_79, looked_at, xid

TOLD = dataclasses.replace(XID_79, text="NVML tells of it")


@pytest.mark.parametrize("order", [(KERNEL, NVML), (NVML, KERNEL)])
@pytest.mark.parametrize("apart_s", [0.0, 0.4, 1.9, -0.4])
def test_two_that_tell_of_one(order: tuple[str, str], apart_s: float) -> None:
    once, health = Once(), looked_at()
    for teller, at_s in zip(order, (100.0, 100.0 + apart_s), strict=True):
        counted = once.counted(XID_79 if teller == KERNEL else TOLD, at_s, teller)
        if counted is not None:
            health.add_event(*counted)
    [item] = health.verdict(101).items
    assert (item.code, item.count, item.text) == (79, 1, XID_79.text)


def test_a_crash_of_many_lines_that_both_tell_of() -> None:
    once, health = Once(), looked_at()
    for number in range(12):
        for teller in (NVML, KERNEL):
            if (counted := once.counted(XID_13, 100 + number / 10, teller)) is not None:
                health.add_event(*counted)
    [item] = health.verdict(110).items
    assert item.count == 12


@pytest.mark.parametrize(("event", "at_s"), [(xid(79, device="0000:10:00"), 100.0), (xid(48), 100.0), (XID_79, 103.0)])
def test_another_gpu_code_or_moment_is_another(event: object, at_s: float) -> None:
    once = Once()
    once.counted(XID_79, 100.0, KERNEL)
    assert once.counted(event, at_s, NVML) == (event, at_s)  # type: ignore[arg-type]


def test_over_a_restart() -> None:
    once = Once()
    once.counted(XID_79, 100.0, NVML)
    assert Once(once.state(101.0)).counted(XID_79, 100.1, KERNEL) == (dataclasses.replace(XID_79, count=0), 100.1)
    assert once.state(200.0) == []
    for nonsense in ([["nonsense"]], [3], "x", 7):
        with pytest.raises((ValueError, TypeError)):
            Once(nonsense)  # type: ignore[arg-type]


def test_only_so_many_are_remembered() -> None:
    once = Once()
    for code in range(1000):
        once.counted(xid(code), 1.0, KERNEL)
    assert len(once.state(1.0)) <= 64
