# SPDX-License-Identifier: Apache-2.0
"""Which values of two snapshots are compared, and how: the data of difference."""

from __future__ import annotations

from typing import NamedTuple

from stepguard.health.model import Status


class Counter(NamedTuple):
    """A value that only grows, or a list of such, one an NVLink. `status`: how bad it is that it did."""

    path: str
    status: Status


def _counters(status: Status, part: str, *names: str) -> tuple[Counter, ...]:
    return tuple(Counter(f"{part}.{name}", status) for name in names)


_OK, _WARN, _FAIL = Status.OK, Status.WARN, Status.FAIL

# As the rules for values and DCGM's health watches see them: uncorrectable errors fail, corrected ones are told, links
# and remapped memory are watched. Effective and symbol errors of NVLink 5 are corrected all the time: kept, not told.
COUNTERS = (
    *_counters(_OK, "ecc", "volatile_corrected", "aggregate_corrected"),
    *_counters(_FAIL, "ecc", "volatile_uncorrected", "aggregate_uncorrected"),
    *_counters(_WARN, "rows", "corrected", "uncorrected"),
    *_counters(_WARN, "pages", "corrected", "uncorrected"),
    *_counters(_OK, "pcie", "replays", "correctable_errors", "naks_received", "naks_sent", "receiver_errors"),
    *_counters(_OK, "pcie", "bad_tlps", "bad_dllps", "unsupported_requests", "lcrc_errors", "lane_errors"),
    *_counters(_WARN, "pcie", "non_fatal_errors"),
    *_counters(_FAIL, "pcie", "fatal_errors"),
    *_counters(_WARN, "nvlink", "crc_flits", "crc_data", "replays", "recoveries", "ecc_data"),
    *_counters(_WARN, "nvlink", "link_replays", "link_recoveries", "link_crc_errors"),
    *_counters(_WARN, "nvlink", "malformed_packets", "buffer_overruns", "receive_errors", "remote_errors"),
    *_counters(_WARN, "nvlink", "general_errors", "integrity_errors", "discards"),
    *_counters(_WARN, "nvlink", "recovery_events", "recoveries_succeeded"),
    *_counters(_FAIL, "nvlink", "recoveries_failed"),
)

# What is as it is until something happens. Whether the new value is bad is for the findings to say.
STATES = (
    *("pci", "minor", "name", "serial", "vbios"),
    *("ecc.mode", "ecc.pending_mode", "ecc.sram_threshold_exceeded"),
    *("rows.pending", "rows.failure", "pages.pending"),
    *("repair.channel_pending", "repair.tpc_pending", "repair.unrepairable_memory"),
    *("recovery_action", "mig.mode", "mig.pending_mode", "power.limit_mw", "pcie.width", "pcie.width_max"),
    *("nvlink.links", "nvlink.states"),
    *("fabric.state", "fabric.status", "fabric.clique", "fabric.cluster"),
    *("fabric.health_mask", "fabric.health_summary"),
)
# Of the node, by the probe that tells them.
NODE_STATES = (("nvml", "driver.version"), ("nvml", "driver.cuda_version"), ("nvml", "count"))
