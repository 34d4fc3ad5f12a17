# SPDX-License-Identifier: Apache-2.0
"""The names under which nvidia-smi tells a reading, in text, XML and CSV.

A name of `-q` is the path of its sections in lower case, words joined by _, sections by /: the text and the XML mostly
agree then. A name of CSV is the column's, without its unit. Names of driver 450 to 580, from nvidia-smi(1),
`--help-query-gpu` and the DTDs nvsmi_device_v11 to v13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stepguard.health.tools.nvidia_gpu import SLOWDOWN_BITS, Gpu
from stepguard.health.tools.values import flag, is_fault, is_told, number

# Takes the value into the GPU; False where the value has no known meaning.
Reading = Callable[[Gpu, str], bool]

# What a user can name, or what is long and tells nothing of health.
SKIPPED = ("processes", "accounted_processes", "compute_processes", "supported_clocks")


def gpu_of(device: str, readings: Iterable[tuple[str, str]], cut: bool = False) -> Gpu:
    """The GPU of which these names and values were told."""
    gpu = Gpu(device, cut=cut)
    for name, value in readings:
        if name.startswith(SKIPPED):
            continue
        if is_fault(value):
            gpu.faults[name.rsplit("/", 1)[-1].replace("_", " ")] = value.strip().strip("[]")
        elif (take := READINGS.get(name) or _MODES.get(name)) and is_told(value):
            if not take(gpu, value):
                gpu.unread[name] = value
            elif name in READINGS:
                gpu.told += 1
    return gpu


def knows(column: str) -> bool:
    """Whether a column of CSV tells of health."""
    return column in READINGS


# -- how a value is taken ---------------------------------------------------------------------------------------------


def _set(attribute: str, parse: Callable[[str], object]) -> Reading:
    def take(gpu: Gpu, value: str) -> bool:
        parsed = parse(value)
        if parsed is not None:
            setattr(gpu, attribute, parsed)
        return parsed is not None

    return take


def _flag(attribute: str) -> Reading:
    return _set(attribute, flag)


def _number(attribute: str) -> Reading:
    return _set(attribute, number)


def _count(attribute: str, place: str) -> Reading:
    def take(gpu: Gpu, value: str) -> bool:
        count = number(value)
        if count is None or count < 0:
            return False
        counts = getattr(gpu, attribute)
        # MIG devices of one GPU are told one after the other.
        counts[place] = counts.get(place, 0) + int(count)
        return True

    return take


def _active(attribute: str, what: str) -> Reading:
    def take(gpu: Gpu, value: str) -> bool:
        active = flag(value)
        if active is not None:
            getattr(gpu, attribute)[what] = active
        return active is not None

    return take


def _fabric(part: str) -> Reading:
    def take(gpu: Gpu, value: str) -> bool:
        gpu.fabric[part] = value.strip().lower()
        return True

    return take


def _slowdown_bits(gpu: Gpu, value: str) -> bool:
    try:
        bits = int(value.strip()[:20], 16)
    except ValueError:
        return False
    gpu.slowdowns.update({cause: bool(bits & bit) for bit, cause in SLOWDOWN_BITS.items()})
    return True


def _word(attribute: str) -> Reading:
    return _set(attribute, lambda value: value.strip() or None)


# -- names ------------------------------------------------------------------------------------------------------------

_CAUSES = {
    "hw_slowdown": "hardware slowdown",
    "hw_thermal_slowdown": "hardware thermal slowdown",
    "hw_power_brake_slowdown": "power brake",
    "sw_thermal_slowdown": "software thermal slowdown",
}


def _slowdowns() -> dict[str, Reading]:
    names: dict[str, Reading] = {}
    for reason in ("clocks_throttle_reason", "clocks_event_reason"):
        reasons = f"{reason}s"
        for cause, words in _CAUSES.items():
            take = _active("slowdowns", words)
            # Text, text below HW Slowdown, XML, CSV.
            for name in (f"/{cause}", f"/hw_slowdown/{cause}", f"/{reason}_{cause}", f".{cause}"):
                names[reasons + name] = take
        names[f"{reasons}.active"] = _slowdown_bits
    return names


READINGS: dict[str, Reading] = {
    # Volatile uncorrectable ECC errors
    "ecc_errors/volatile/sram_uncorrectable": _count("ecc_uncorrected", "SRAM"),
    "ecc_errors/volatile/sram_uncorrectable_parity": _count("ecc_uncorrected", "SRAM parity"),
    "ecc_errors/volatile/sram_uncorrectable_sec_ded": _count("ecc_uncorrected", "SRAM SEC-DED"),
    "ecc_errors/volatile/sram_uncorrectable_secded": _count("ecc_uncorrected", "SRAM SEC-DED"),
    "ecc_errors/volatile/dram_uncorrectable": _count("ecc_uncorrected", "DRAM"),
    "ecc_errors/volatile/double_bit/total": _count("ecc_uncorrected", "all memories"),
    "ecc_errors/volatile/double_bit/device_memory": _count("ecc_uncorrected", "device memory"),
    "mig_device/ecc_errors/volatile/sram_uncorrectable": _count("ecc_uncorrected", "SRAM of MIG devices"),
    "mig_devices/mig_device/ecc_error_count/volatile_count/sram_uncorrectable": _count(
        "ecc_uncorrected", "SRAM of MIG devices"
    ),
    "ecc.errors.uncorrected.volatile.total": _count("ecc_uncorrected", "all memories"),
    "ecc.errors.uncorrected.volatile.dram": _count("ecc_uncorrected", "DRAM"),
    "ecc.errors.uncorrected.volatile.sram": _count("ecc_uncorrected", "SRAM"),
    "ecc.errors.uncorrected.volatile.sram.parity": _count("ecc_uncorrected", "SRAM parity"),
    "ecc.errors.uncorrected.volatile.sram.secded": _count("ecc_uncorrected", "SRAM SEC-DED"),
    "ecc.errors.uncorrected.volatile.device_memory": _count("ecc_uncorrected", "device memory"),
    "ecc_errors/aggregate/sram_threshold_exceeded": _flag("sram_threshold_exceeded"),
    "ecc.errors.uncorrected.aggregate.sram.thresholdexceeded": _flag("sram_threshold_exceeded"),
    "ecc_errors/channel_repair_pending": _active("repairs_pending", "channel"),
    "ecc_errors/tpc_repair_pending": _active("repairs_pending", "TPC"),
    "ecc_errors/unrepairable_memory": _flag("unrepairable_memory"),
    # Retired pages: before Ampere
    "retired_pages/single_bit_ecc": _count("retired_pages", "single bit"),
    "retired_pages/double_bit_ecc": _count("retired_pages", "double bit"),
    "retired_pages/multiple_single_bit_retirement/retired_count": _count("retired_pages", "single bit"),
    "retired_pages/double_bit_retirement/retired_count": _count("retired_pages", "double bit"),
    "retired_pages.single_bit_ecc.count": _count("retired_pages", "single bit"),
    "retired_pages.sbe": _count("retired_pages", "single bit"),
    "retired_pages.double_bit.count": _count("retired_pages", "double bit"),
    "retired_pages.dbe": _count("retired_pages", "double bit"),
    "retired_pages/pending": _flag("retired_pages_pending"),
    "retired_pages/pending_page_blacklist": _flag("retired_pages_pending"),
    "retired_pages/pending_blacklist": _flag("retired_pages_pending"),
    "retired_pages/pending_retirement": _flag("retired_pages_pending"),
    "retired_pages.pending": _flag("retired_pages_pending"),
    # Remapped rows: from Ampere on
    "remapped_rows/pending": _flag("remap_pending"),
    "remapped_rows/remapped_row_pending": _flag("remap_pending"),
    "remapped_rows.pending": _flag("remap_pending"),
    "remapped_rows/remapping_failure_occurred": _flag("remap_failure"),
    "remapped_rows/remapped_row_failure": _flag("remap_failure"),
    "remapped_rows.failure": _flag("remap_failure"),
    "remapped_rows/bank_remap_availability_histogram/none": _number("banks_without_spare_rows"),
    "remapped_rows/row_remapper_histogram/row_remapper_histogram_none": _number("banks_without_spare_rows"),
    "remapped_rows.histogram.none": _number("banks_without_spare_rows"),
    # What the driver asks for
    "gpu_recovery_action": _word("recovery_action"),
    "gpu_reset_status/reset_required": _flag("reset_required"),
    "reset_status.reset_required": _flag("reset_required"),
    "gpu_reset_status/drain_and_reset_recommended": _flag("drain_and_reset"),
    "reset_status.drain_and_reset_recommended": _flag("drain_and_reset"),
    **_slowdowns(),
    # Temperature: thresholds before Hopper, margins since
    "temperature/gpu_current_temp": _number("temperature_c"),
    "temperature/gpu_temp": _number("temperature_c"),
    "temperature.gpu": _number("temperature_c"),
    "temperature/gpu_slowdown_temp": _number("slowdown_at_c"),
    "temperature/gpu_temp_slow_threshold": _number("slowdown_at_c"),
    "temperature/gpu_shutdown_temp": _number("shutdown_at_c"),
    "temperature/gpu_temp_max_threshold": _number("shutdown_at_c"),
    "temperature/gpu_t_limit_temp": _number("margin_c"),
    "temperature/gpu_temp_tlimit": _number("margin_c"),
    "temperature.gpu.tlimit": _number("margin_c"),
    "temperature/gpu_slowdown_t_limit_temp": _number("slowdown_margin_c"),
    "temperature/gpu_temp_slow_tlimit_threshold": _number("slowdown_margin_c"),
    "temperature/gpu_shutdown_t_limit_temp": _number("shutdown_margin_c"),
    "temperature/gpu_temp_max_tlimit_threshold": _number("shutdown_margin_c"),
    "temperature/memory_current_temp": _number("memory_temperature_c"),
    "temperature/memory_temp": _number("memory_temperature_c"),
    "temperature.memory": _number("memory_temperature_c"),
    "temperature/memory_max_operating_temp": _number("memory_limit_c"),
    "temperature/gpu_temp_max_mem_threshold": _number("memory_limit_c"),
    # PCIe
    "pci/gpu_link_info/link_width/current": _number("pcie_width"),
    "pci/pci_gpu_link_info/link_widths/current_link_width": _number("pcie_width"),
    "pcie.link.width.current": _number("pcie_width"),
    "pci/gpu_link_info/link_width/max": _number("pcie_width_max"),
    "pci/pci_gpu_link_info/link_widths/max_link_width": _number("pcie_width_max"),
    "pcie.link.width.max": _number("pcie_width_max"),
    # The NVLink fabric
    "fabric/state": _fabric("state"),
    "fabric.state": _fabric("state"),
    "fabric/status": _fabric("status"),
    "fabric.status": _fabric("status"),
    "fabric/health/summary": _fabric("summary"),
    "fabric/health/bandwidth": _fabric("bandwidth"),
    "fabric/health/route_recovery_in_progress": _fabric("route recovery in progress:"),
    "fabric/health/route_unhealthy": _fabric("route unhealthy:"),
    "fabric/health/access_timeout_recovery": _fabric("access timeout recovery:"),
    "fabric/health/incorrect_configuration": _fabric("incorrect configuration:"),
}

# Of themselves they tell nothing of health.
_MODES: dict[str, Reading] = {
    "ecc_mode/current": _flag("ecc"),
    "ecc_mode/current_ecc": _flag("ecc"),
    "ecc.mode.current": _flag("ecc"),
    "ecc_mode/pending": _flag("ecc_pending"),
    "ecc_mode/pending_ecc": _flag("ecc_pending"),
    "ecc.mode.pending": _flag("ecc_pending"),
    "mig_mode/current": _flag("mig"),
    "mig_mode/current_mig": _flag("mig"),
    "mig.mode.current": _flag("mig"),
    "mig_mode/pending": _flag("mig_pending"),
    "mig_mode/pending_mig": _flag("mig_pending"),
    "mig.mode.pending": _flag("mig_pending"),
}
