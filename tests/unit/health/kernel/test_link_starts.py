# SPDX-License-Identifier: Apache-2.0
"""Links that have not been up yet, and those that go down."""

from __future__ import annotations

import pytest

from stepguard.health.kernel import events
from stepguard.health.kernel.lines import read
from stepguard.health.kernel.link_starts import LinkStarts

BOOT = "Linux version 6.8.0-41-generic (buildd@lcy02-amd64-100) (x86_64-linux-gnu-gcc-13) #41-Ubuntu SMP"
DOWN, UP = "mlx5_core 0000:9b:00.0 eth7: Link down", "mlx5_core 0000:9b:00.0 eth7: Link up"
EMPTY = "mlx5_core 0000:9b:00.0: Port module event: module 0, Cable unplugged"
RENAMED = "mlx5_core 0000:9b:00.0 eth7: renamed from eth1"
LATE_S = 90_000.0


def told(*lines: tuple[float, str]) -> list[tuple[object, int]]:
    text = "".join(f"[{at_s:12.6f}] {text}\n" for at_s, text in lines)
    return [(event.code, event.count) for event in events(read(text.encode()))]


@pytest.mark.parametrize(
    "down",
    [
        DOWN,
        "ixgbe 0000:01:00.0 eth7: NIC Link is Down",
        "igb 0000:02:00.0 eth7: igb: eth7 NIC Link is Down",
        "bnxt_en 0000:41:00.0 eth7: NIC Link is Down",
        "tg3 0000:04:00.0 eth7: Link is down",
        "e1000e 0000:00:1f.6 eth7: NIC Link is Down",
        "bond0: (slave eth7): link status definitely down, disabling slave",
    ],
)
def test_a_port_that_has_not_been_up(down: str) -> None:
    assert told((12.0, down)) == [("not-up-yet", 1)]
    assert told((0.0, BOOT), (400.0, down)) == [("not-up-yet", 1)]
    assert told((LATE_S, RENAMED), (LATE_S + 9, down)) == [("not-up-yet", 1)]
    assert told((LATE_S, down)) == [("down", 1)]
    assert told((12.0, UP), (13.0, down)) == [("up", 1), ("down", 1)]
    assert told((0.0, BOOT), (12.0, UP), (LATE_S, down)) == [("up", 1), ("down", 1)]


def test_a_boot_forgets_and_a_rename_does_not() -> None:
    assert told((12.0, UP), (0.0, BOOT), (12.0, DOWN)) == [("up", 1), ("not-up-yet", 1)]
    old = UP.replace("eth7", "eth1")
    assert told((0.0, BOOT), (12.0, old), (13.0, RENAMED), (LATE_S, DOWN)) == [("up", 1), ("down", 1)]


@pytest.mark.parametrize(
    "enslaved",
    [
        "bond0: (slave eth7): Enslaving as an active interface with an up link",
        "bond0: Enslaving eth7 as a backup interface with an up link",
    ],
)
def test_a_link_that_was_up_when_a_bond_took_it(enslaved: str) -> None:
    assert told((0.0, BOOT), (12.0, enslaved), (LATE_S, DOWN)) == [("down", 1)]


def test_an_empty_cage() -> None:
    assert told((12.0, EMPTY)) == [("not-up-yet", 1)]
    assert told((0.0, BOOT), (LATE_S, EMPTY)) == [("cable", 1)]
    assert told((12.0, EMPTY.replace("Cable unplugged", "Cable error, High Temperature"))) == [("cable", 1)]


@pytest.mark.parametrize(
    "forged",
    [
        "Linux version 6[4711]: segfault at 0 ip 0000 sp 0000 error 4 in x[0+1]",
        "Linux version 6.8.0-41-generic: train: potentially unexpected fatal signal 11.",
        "eth7: renamed from dummy0",
    ],
)
def test_words_of_a_user_begin_nothing(forged: str) -> None:
    assert told((LATE_S, forged), (LATE_S + 1, DOWN)) == [("down", 1)]


def test_each_host_has_its_own_boot() -> None:
    first = "Mar 01 08:00:01 n{} kernel: {}\n"
    text = first.format(1, BOOT) + first.format(1, DOWN) + first.format(2, DOWN) + first.format(1, EMPTY)
    assert [event.code for event in events(read(text.encode()))] == ["not-up-yet", "down", "not-up-yet"]


def test_links_take_bounded_memory_and_are_told_then() -> None:
    starts = LinkStarts()
    starts.take(BOOT, None, None)
    assert starts.waits("eth7", None, None)
    for number in range(5000):
        starts.is_up(f"eth{number}", None)
    assert not starts.waits("eth7000", None, None)
