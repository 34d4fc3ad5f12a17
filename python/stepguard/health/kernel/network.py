# SPDX-License-Identifier: Apache-2.0
"""Network links: Ethernet, InfiniBand, and their adapters' firmware (mlx5).

    mlx5_core 0000:a1:00.0 ens1f0np0: Link down
    i40e 0000:3d:00.0 eth2: NIC Link is Down
    bond0: (slave eth0): link status definitely down, disabling slave
    IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready
    mlx5_core 0000:a1:00.0: Port module event: module 0, Cable unplugged
    mlx5_core 0000:a1:00.0: health_care:154:(pid 12): handling bad device here
    mlx5_core 0000:a1:00.0: wait_fw_init:201:(pid 8): Firmware over 120000 MS in pre-initializing state, aborting
    NETDEV WATCHDOG: ib0 (mlx5_core): transmit queue 3 timed out 5012 ms
    mlx5_core 0000:a1:00.0 ens1f0np0: NETDEV WATCHDOG: CPU: 3: transmit queue 3 timed out 5012 ms      since 6.9
    mlx5_core 0000:a1:00.0 ens1f0np0: TX timeout detected                            more of the same, by the driver

Links that come up are told too: down and up again is a link that flaps. link_starts has those
that have not been up yet.
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.sighting import PCI, Sighting, by_catalogue, pci_address

EMPTY_CAGE = ", Cable unplugged"
_NAME = r"[\w.@-]{1,32}"
_CABLE = re.compile(
    rf"mlx5_core (?P<pci>{PCI}).{{0,48}}Port module event.{{0,32}}, (?:Cable unplugged|Cable error|.{{0,32}}overtemp)"
)
_MLX5 = rf"mlx5_core (?P<pci>{PCI})(?: \S{{1,32}})?: (?:\w{{1,64}}:\d{{1,6}}:? ?(?:\(pid \d{{1,10}}\): )?)?"
_HEALTH = r"(?:[Hh]ealth issue observed, |synd 0x[0-9a-f]{1,4}: )"
# Severities are those of the kernel's log (mlx5_health_get_severity): from 4 on, a warning.
_FIRMWARE = re.compile(
    rf"{_MLX5}(?!{_HEALTH}.{{1,64}}, severity\([4-7]\)){_HEALTH}?"
    r"(?:handling bad device here|device's health compromised|Fatal error \d|firmware (?:internal|CRC) error"
    r"|irisc not responding|unrecoverable hardware error|HW fatal error|PCI slot is unavailable"
    r"|Firmware over \d{1,20} MS in (?:pre-)?initializing state, aborting)"
)
_ISSUE = re.compile(rf"{_MLX5}[Hh]ealth issue observed, ")
_BOND = re.compile(rf"{_NAME}: (?:\(slave (?P<slave>{_NAME})\): )?link status (?:definitely )?(?P<state>up|down)\b")
_BOND_OLD = re.compile(rf"{_NAME}: link status definitely (?P<state>up|down) for interface (?P<slave>{_NAME})")
_READY = re.compile(rf"IPv6: ADDRCONF\(NETDEV_CHANGE\): (?P<name>{_NAME}): link becomes ready")
# dev_watchdog, net/sched/sch_generic.c.
_STUCK = re.compile(
    rf"NETDEV WATCHDOG: (?P<name>{_NAME}) \([\w-]{{1,32}}\): transmit queue \d{{1,5}} timed out"
    rf"|[\w-]{{1,32}} (?:{PCI} )?(?P<named>{_NAME}): "
    r"(?:NETDEV WATCHDOG: CPU: \d{1,5}: transmit queue \d{1,5} timed out|(?P<more>TX timeout detected))"
)
# Not "ata1: SATA link down", which each port without a disk has.
_LINK = re.compile(
    r"(?!ata\d)"
    rf"(?:(?P<driver>[\w-]{{1,32}})(?: (?P<pci>{PCI}))?[: ] ?)?(?:(?P<name>{_NAME})(?:: [\w-]{{1,16}}: {_NAME})?:? )?"
    r"(?:NIC )?[Ll]ink (?:is )?(?P<state>[Uu]p|[Dd]own|DOWN|UP)\b"
)


def links(text: str, catalogue: Catalogue) -> list[Sighting]:
    """The link or adapter that a line tells of; its interface, or where there is none, its PCI address."""
    if found := _CABLE.match(text):
        return [by_catalogue(catalogue, "link", "cable", pci_address(found["pci"]))]
    if found := _FIRMWARE.match(text):
        return [by_catalogue(catalogue, "link", "firmware", pci_address(found["pci"]))]
    if found := _ISSUE.match(text):
        return [by_catalogue(catalogue, "link", "health", pci_address(found["pci"]))]
    if found := _STUCK.match(text):
        name, is_detail = found["name"] or found["named"], found["more"] is not None
        return [by_catalogue(catalogue, "link", "tx-timeout", name, is_detail)]
    if found := _BOND_OLD.match(text) or _BOND.match(text):
        return [by_catalogue(catalogue, "link", found["state"], found["slave"] or text.partition(":")[0][:32])]
    if found := _READY.match(text):
        return [by_catalogue(catalogue, "link", "up", found["name"])]
    if found := _LINK.match(text):
        device = found["name"] or (pci_address(found["pci"]) if found["pci"] else found["driver"] or "")
        return [by_catalogue(catalogue, "link", found["state"].lower(), device.rstrip(":"))]
    return []
