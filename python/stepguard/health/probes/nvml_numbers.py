# SPDX-License-Identifier: Apache-2.0
"""The numbers by which NVML is asked for values, under the names that values have here.

From nvml.h of CUDA 13 (NVIDIA NVML API reference, "Field Value Enums" and "Device Enums").
"""

from __future__ import annotations

KINDS = {"corrected": 0, "uncorrected": 1}  # nvmlMemoryErrorType_t
AGES = {"volatile": 0, "aggregate": 1}  # nvmlEccCounterType_t
LOCATIONS = {"l1": 0, "l2": 1, "dram": 2, "registers": 3, "texture": 4, "cbu": 6, "sram": 7}  # nvmlMemoryLocation_t
THRESHOLDS = {"shutdown": 0, "slowdown": 1, "memory_max": 2, "gpu_max": 3}  # before Hopper
PAGE_CAUSES = {"corrected": 0, "uncorrected": 1}  # nvmlPageRetirementCause_t: many single bit errors, a double bit one

# NVML_FI_DEV_…
FIELDS = {
    "recovery_action": {"": 230},
    # Time in ns that the clocks were held down, by cause.
    "throttled_ns": {"power_cap": 74, "sync_boost": 76, "software_thermal": 269, "hardware_thermal": 270, "brake": 271},
    # Since Hopper thresholds are margins, as temperature.margin is.
    "temperature": {
        "memory": 82,
        "shutdown_margin": 193,
        "slowdown_margin": 194,
        "memory_max_margin": 195,
        "gpu_max_margin": 196,
    },
    "pcie": {
        "correctable_errors": 173,
        "naks_received": 174,
        "receiver_errors": 175,
        "bad_tlps": 176,
        "naks_sent": 177,
        "bad_dllps": 178,
        "non_fatal_errors": 179,
        "fatal_errors": 180,
        "unsupported_requests": 181,
        "lcrc_errors": 182,
        "lane_errors": 183,
    },
    # Of all links together, up to Hopper.
    "nvlink": {"links": 91, "crc_flits": 38, "crc_data": 45, "replays": 52, "recoveries": 59, "ecc_data": 160},
}
# Of one link, the scope; those from 206 on are NVLink 5's (Blackwell), where the first three are not there.
LINK_FIELDS = {
    "link_replays": 161,
    "link_recoveries": 162,
    "link_crc_errors": 163,
    "malformed_packets": 206,
    "buffer_overruns": 207,
    "receive_errors": 208,
    "remote_errors": 209,
    "general_errors": 210,
    "integrity_errors": 211,
    "discards": 212,
    "recoveries_succeeded": 213,
    "recoveries_failed": 214,
    "recovery_events": 215,
    "effective_errors": 219,
    "symbol_errors": 221,
}
OF_LINKS = frozenset(LINK_FIELDS.values())
VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")  # nvmlValueType_t
