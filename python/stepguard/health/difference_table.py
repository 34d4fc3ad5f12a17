# SPDX-License-Identifier: Apache-2.0
"""Which values of two snapshots are compared, and how: the data of difference."""

from __future__ import annotations

from typing import NamedTuple

from stepguard.health.model import Status


class Counter(NamedTuple):
    """A value that only grows, or a list of such, one an NVLink or a core. `status`: how bad it is that it did."""

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
NODE_STATES = (
    ("nvml", "driver.version"),
    ("nvml", "driver.cuda_version"),
    ("nvml", "count"),
    ("host", "clocksource"),
)


class Part(NamedTuple):
    """Devices that a probe tells of by their name, at `path` of its values. `gone`: how bad it is that one is gone."""

    probe: str
    path: str
    counters: tuple[Counter, ...]
    states: tuple[str, ...]
    gone: Status


PARTS = (
    # What a congested network moves as well is told, no more: discards, retries, and errors that were corrected.
    Part(
        "infiniband",
        "ports",
        (
            *_counters(_WARN, "counters", "link_downed", "link_error_recovery", "local_link_integrity_errors"),
            *_counters(_WARN, "counters", "excessive_buffer_overrun_errors"),
            *_counters(_OK, "counters", "symbol_error", "port_rcv_errors", "port_xmit_discards", "VL15_dropped"),
            *_counters(_OK, "hw_counters", "out_of_sequence", "packet_seq_err", "local_ack_timeout_err"),
            *_counters(_OK, "hw_counters", "rnr_nak_retry_err", "retrans_pkts", "rx_drops"),
            # EFA, from Nitro v4 on.
            *_counters(_WARN, "hw_counters", "retrans_timeout_events", "unresponsive_remote_events"),
            *_counters(_WARN, "hw_counters", "impaired_remote_conn_events"),
            *_counters(_WARN, "hw_counters", "rdma_read_wr_err", "rdma_write_wr_err"),
        ),
        ("state", "physical", "rate_gbps", "link"),
        _WARN,
    ),
    Part("infiniband", "devices", (), ("type", "firmware"), _WARN),
    # As the probe's rules have it; what programs do wrong is told.
    Part(
        "neuron",
        "devices",
        (
            *_counters(
                _FAIL, "counters", "mem_ecc_uncorrected", "sram_ecc_uncorrected", "hw_error", "reset_fail_count"
            ),
            *_counters(_WARN, "counters", "mem_ecc_repairable_uncorrected", "timeout"),
            *_counters(_OK, "counters", "failure", "generic_error", "reset_req_count"),
        ),
        ("serial", "cores"),
        _FAIL,
    ),
    Part(
        "amd",
        "devices",
        (
            *_counters(_FAIL, "ecc", "uncorrectable"),
            *_counters(_WARN, "ecc", "deferred"),
            *_counters(_OK, "ecc", "correctable"),
            Counter("bad_pages", _WARN),
        ),
        ("uuid", "xgmi_links"),
        _FAIL,
    ),
    Part("host", "edac", (Counter("corrected", _OK), Counter("uncorrected", _FAIL)), (), _WARN),
)
