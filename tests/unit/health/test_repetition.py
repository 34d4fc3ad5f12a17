# SPDX-License-Identifier: Apache-2.0
"""When XIDs that programs cause are the hardware's: the same in a pasted log and for an agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from stepguard.agent.health.kernel_events import KernelEvents
from stepguard.agent.health.kernel_log import Line
from stepguard.health.catalogue import shipped
from stepguard.health.kernel import LogLine, events
from stepguard.health.kernel.fold import Folder
from stepguard.health.model import Status
from stepguard.health.policy import NodeHealth
from unit.health.building import SHIPPED, looked_at

MINUTE = 60.0
Said = tuple[float, str]
"""When, and what stands behind the number of an XID."""


def line(at_s: float, pid: int, words: str) -> Said:
    return at_s, f"pid={pid}, name=python, {words}"


def sm(gpc: int, tpc: int = 0, number: int = 0) -> str:
    return f"Graphics SM Warp Exception on (GPC {gpc}, TPC {tpc}, SM {number}): Out Of Range Address"


def mmu(client: str) -> str:
    return f"Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS {client} faulted @ 0x7f_0"


REGISTERS = "Graphics Exception: ESR 0x505730=0xb010020"
EVERYWHERE = tuple(sm(gpc) for gpc in range(8))


def pasted(code: int, lines: list[Said]) -> bool:
    read = [LogLine(n, at_s, "", "kernel", text(code, rest), True) for n, (at_s, rest) in enumerate(lines)]
    return {event.fault_class for event in events(read)} == {"hardware-reset"}


def on_a_node(code: int, lines: list[Said]) -> bool:
    """A restart of the agent in the middle of it changes nothing."""
    health, kernel = looked_at(SHIPPED), KernelEvents(shipped)
    for at_s, rest in lines:
        for event, seen_s in kernel.of([Line(at_s, text(code, rest))]):
            health.add_event(event, seen_s)
        health = NodeHealth.from_state(health.to_state(at_s), SHIPPED, "boot-1", at_s)
    return any(item.status is Status.FAIL for item in health.verdict(lines[-1][0]).items)


def at_once(code: int, lines: list[Said]) -> bool:
    """Read together, as an agent does that was not there."""
    health = looked_at(SHIPPED)
    for event, seen_s in KernelEvents(shipped).of([Line(at_s, text(code, rest)) for at_s, rest in lines]):
        health.add_event(event, seen_s)
    return any(item.status is Status.FAIL for item in health.verdict(lines[-1][0]).items)


def text(code: int, rest: str) -> str:
    return f"NVRM: Xid (PCI:0000:1b:00): {code}, {rest}"


def same(*words: str, count: int = 5, every_s: float = MINUTE) -> list[Said]:
    """So many programs that crash in this way, one after the other."""
    return [line(run * every_s + n * 0.001, 40 + run, one) for run in range(count) for n, one in enumerate(words)]


def each(*words: str, pid: int = 40) -> list[Said]:
    """One program after the other, each of which crashes in one of these ways."""
    return [line(run * MINUTE, pid + run, one) for run, one in enumerate(words)]


CASES: dict[str, tuple[int, list[Said], bool]] = {
    "one SM": (13, same(sm(7, 2)), True),
    "one SM, too seldom": (13, same(sm(7, 2), count=4), False),
    "one SM, over days": (13, same(sm(7, 2), every_s=6 * 3600 + 1), False),
    "one TPC": (13, each(*(sm(7, 2, n % 2) for n in range(5))), True),
    "a place and its registers": (13, same(sm(7, 2), REGISTERS), True),
    "registers and their place": (13, same(REGISTERS, sm(7, 2)), True),
    "another SM each time": (13, each(*(sm(n, n % 3, n % 2) for n in range(6))), False),
    "another TPC each time": (13, each(*(sm(1, n) for n in range(6))), False),
    "two SMs by turns": (13, each(*(sm(n % 2) for n in range(8))), False),
    "two SMs by turns, more often": (13, each(*(sm(n % 2) for n in range(10))), True),
    "TPCs of one GPC": (13, same(sm(10, 2), sm(10, 3), sm(10, 4)), True),
    "all GPCs": (13, same(*EVERYWHERE, REGISTERS), False),
    "all GPCs, and a bad SM": (13, [*same(*EVERYWHERE), *((s + 600, w) for s, w in each(*[sm(3)] * 5, pid=80))], True),
    "no place": (13, same(REGISTERS), True),
    "mostly no place": (13, each(*[REGISTERS] * 4, sm(3, 1)), True),
    "one program that crashes slowly": (13, [line(n * 2.2, 40, REGISTERS) for n in range(30)], False),
    "one program at one SM, slowly": (13, [line(n * 2.2, 40, sm(7, 2)) for n in range(30)], False),
    "programs of one moment": (13, [line(n * 0.1, 40 + n, sm(7, 2)) for n in range(8)], False),
    "no program": (13, [(n * 2.2, f"pid='<unknown>', name=<unknown>, {REGISTERS}") for n in range(5)], True),
    "before R470": (13, [(n * 2.2, "Graphics SM Warp Exception on (GPC 0, TPC 1): x") for n in range(5)], True),
    "MMU faults of one client": (31, same(mmu("GPCCLIENT_T1_0")), True),
    "MMU faults of others": (31, each(*(mmu(f"GPCCLIENT_T1_{n}") for n in range(5))), True),
    "MMU faults of one program": (31, [line(n * 2.2, 40, mmu("HUBCLIENT_CE0")) for n in range(9)], False),
}


@pytest.mark.parametrize("where", [pasted, on_a_node, at_once])
@pytest.mark.parametrize("case", CASES)
def test_what_repeats_is_hardware(case: str, where: Callable[[int, list[Said]], bool]) -> None:
    code, lines, is_hardware = CASES[case]
    assert where(code, lines) is is_hardware


def test_what_has_repeated_in_a_long_log_stays_so() -> None:
    later = [line(1e4 + n * MINUTE, 100 + n, sm(n % 8, n % 7)) for n in range(300)]
    assert pasted(13, [*same(sm(7, 2)), *later])
    assert not pasted(13, [*same(sm(7, 2), count=2), *later[:50]])


def test_of_many_crashes_the_newest_are_kept() -> None:
    folder, health = Folder(), looked_at(SHIPPED)
    for n in range(1000):
        said = text(13, line(0, n, sm(n % 2, n % 97))[1])
        folder.add(LogLine(n, n * MINUTE, "", "kernel", said, True))
        for event, seen_s in KernelEvents(shipped).of([Line(n * MINUTE, said)]):
            health.add_event(event, seen_s)
    (event,) = folder.events()
    assert event.count == 1000
    (kept,) = health.to_state(0)["events"]
    assert (kept["count"], len(kept["lines"])) == (1000, 64)


def test_nvml_and_the_kernel_tell_of_one_crash() -> None:
    """NVML knows neither program nor place."""
    health, kernel = looked_at(SHIPPED), KernelEvents(shipped)
    for at_s, rest in [line(n * 2.2, 40, sm(7, 2)) for n in range(9)]:
        for event, seen_s in kernel.of([Line(at_s, text(13, rest))]):
            health.add_event(dataclasses.replace(event, pid="", places=frozenset(), count=0), seen_s)
            health.add_event(event, seen_s)
    assert [item.status for item in health.verdict(20).items] == [Status.WARN]
