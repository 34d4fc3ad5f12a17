# SPDX-License-Identifier: Apache-2.0
"""Links that have not been up yet. A driver says "Link down" of each port when it takes it, and once more while the
other end is sought: of a port without a cable that is all it ever says. A link that has been up and goes down is
another matter.

    Linux version 6.8.0-41-generic (…                                 a boot begins: no link has been up
    mlx5_core 0000:9b:00.1 enp155s0f1np1: renamed from eth1           the driver has just brought an interface
    bond0: (slave eth0): Enslaving as an active interface with an up link

Where a log shows none of these, as after a restart of the reader, only what is said soon after the boot is so taken.
So is what mlx5 says of an empty cage, "Cable unplugged": of that it does not always say when it was plugged.
Facts: drivers/net/ethernet/mellanox/mlx5/core/events.c (port_module); net/core/dev.c (dev_change_name);
drivers/net/bonding/bond_main.c (bond_enslave), before 5.3 without "(slave".
"""

from __future__ import annotations

import re
from collections.abc import Hashable

from stepguard.health.kernel import users_words
from stepguard.health.kernel.sighting import PCI

# One of these is in every line that tells something here.
_BOOT, _RENAMED, _ENSLAVED = "Linux version ", ": renamed from ", "with an up link"
_BEGINS = re.compile(r"Linux version \d{1,3}\.\d{1,4}\.\d")
_NAME = r"[\w.@-]{1,32}"
# Of an interface without a device, which users make and name in a namespace of their own, there is no address.
_RENAME = re.compile(rf"[\w-]{{1,32}} {PCI} (?P<name>{_NAME}): renamed from (?P<old>{_NAME})")
_UP_SLAVE = re.compile(
    rf"{_NAME}: (?:\(slave (?P<slave>{_NAME})\): Enslaving|Enslaving (?P<old>{_NAME})) as an? \w{{1,16}} interface "
    r"with an up link"
)
# By when a node has its links; a clock of the month is never so early, for it begins with day 1.
_BOOTS_S = 180.0
_MAX_LINKS = 4096


class LinkStarts:
    """Takes the lines of a log in order. `witness`: whose words they are."""

    def __init__(self) -> None:
        # When, by the clock of the log, where its lines tell that.
        self._begun: dict[Hashable, float | None] = {}
        # Of a link that is in it, whether it has been up.
        self._has_been_up: dict[tuple[Hashable, str], bool] = {}

    def take(self, text: str, witness: Hashable, clock_s: float | None) -> None:
        """A line that is of no link's state."""
        if _RENAMED in text and (found := _RENAME.match(text)):
            self._note(witness, found["name"], self._has_been_up.pop((witness, found["old"]), False))
        elif _ENSLAVED in text and (found := _UP_SLAVE.match(text)):
            self._note(witness, found["slave"] or found["old"], True)
        elif _BOOT in text and _BEGINS.match(text) and not users_words.begins_with_them(text):
            self._has_been_up = {key: up for key, up in self._has_been_up.items() if key[0] != witness}
            if len(self._begun) < _MAX_LINKS:
                self._begun[witness] = clock_s

    def is_up(self, device: str, witness: Hashable) -> None:
        """A link has come up."""
        self._note(witness, device, True)

    def waits(self, device: str, witness: Hashable, clock_s: float | None) -> bool:
        """Whether a link that is said to be down has not been up yet."""
        has_been_up = self._has_been_up.get((witness, device))
        if has_been_up is None:
            return witness in self._begun or self.boots(witness, clock_s)
        return not has_been_up

    def boots(self, witness: Hashable, clock_s: float | None) -> bool:
        """Whether it is soon after the boot, as far as the log tells."""
        begun_s = self._begun.get(witness)
        return clock_s is not None and (
            clock_s < _BOOTS_S or (begun_s is not None and 0 <= clock_s - begun_s < _BOOTS_S)
        )

    def _note(self, witness: Hashable, device: str, has_been_up: bool) -> None:
        if len(self._has_been_up) >= _MAX_LINKS:
            # No node has so many: what is no more known of is told.
            self._has_been_up.clear()
            self._begun.clear()
        self._has_been_up[witness, device] = has_been_up
