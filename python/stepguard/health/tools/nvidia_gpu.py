# SPDX-License-Identifier: Apache-2.0
"""What is known of one NVIDIA GPU, whoever told it: nvidia-smi, or NVML."""

from __future__ import annotations

from dataclasses import dataclass, field

# Bits of NVML's clocks event reasons in which a GPU is slower than it should be; the others are the power limit, what
# somebody has set, and a GPU that has nothing to do.
SLOWDOWN_BITS = {
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}


@dataclass
class Gpu:
    """What a tool told of a GPU. None and the empty are what it did not tell.

    `faults`          readings in whose place the driver told of an error: reading → what it said
    `unread`          readings that could not be read, or have no known meaning: reading → what stands there
    `cut`             the text ends within this GPU
    `told`            how many readings that bear on health were told
    `ecc_uncorrected` volatile uncorrectable errors by place: since the driver was loaded or the GPU reset
    `slowdowns`       the causes for which the GPU now runs slower that are not the power limit or an idle GPU
    `margin_c`        how far the GPU is from its limit (T.Limit); the thresholds are margins too
    `repairs_pending` channel or TPC repair that waits for a reset
    `fabric`          state, status and the parts of health of the NVLink fabric as text, in lower case
    `links`           whether each NVLink is up
    """

    device: str
    faults: dict[str, str] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    told: int = 0
    ecc_uncorrected: dict[str, int] = field(default_factory=dict)
    sram_threshold_exceeded: bool | None = None
    retired_pages: dict[str, int] = field(default_factory=dict)
    retired_pages_pending: bool | None = None
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    banks_without_spare_rows: float | None = None
    repairs_pending: dict[str, bool] = field(default_factory=dict)
    unrepairable_memory: bool | None = None
    recovery_action: str | None = None
    reset_required: bool | None = None
    drain_and_reset: bool | None = None
    slowdowns: dict[str, bool] = field(default_factory=dict)
    temperature_c: float | None = None
    slowdown_at_c: float | None = None
    shutdown_at_c: float | None = None
    margin_c: float | None = None
    slowdown_margin_c: float | None = None
    shutdown_margin_c: float | None = None
    memory_temperature_c: float | None = None
    memory_limit_c: float | None = None
    pcie_width: float | None = None
    pcie_width_max: float | None = None
    fabric: dict[str, str] = field(default_factory=dict)
    links: list[bool] = field(default_factory=list)
    ecc: bool | None = None
    ecc_pending: bool | None = None
    mig: bool | None = None
    mig_pending: bool | None = None
