# SPDX-License-Identifier: Apache-2.0
"""What of the values that NVML told of a GPU is a finding: tools.nvidia_rules says it, of what they come to here."""

from __future__ import annotations

from typing import Any

from stepguard.health.model import Finding
from stepguard.health.tools import nvidia_rules
from stepguard.health.tools.nvidia_gpu import SLOWDOWN_BITS, Gpu

Values = dict[str, Any]

_FABRIC_STATES = {0: "not supported", 1: "not started", 2: "in progress", 3: "completed"}  # NVML_GPU_FABRIC_STATE
_FABRIC_SUMMARIES = {1: "healthy", 2: "unhealthy", 3: "limited capacity"}  # NVML_GPU_FABRIC_HEALTH_SUMMARY
# NVML_GPU_FABRIC_HEALTH_MASK: two bits each, by their shift, of which 1 is true; and what nvidia-smi says then.
_FABRIC_HEALTH = {
    0: ("bandwidth", "degraded"),
    2: ("route recovery in progress:", "true"),
    4: ("route unhealthy:", "true"),
    6: ("access timeout recovery:", "true"),
}
_FABRIC_CONFIGURATION = 8  # four bits, 1 is none incorrect


def judge(device: str, values: Values) -> list[Finding]:
    """The findings of one GPU; a value that is not told is none."""
    return nvidia_rules.findings(gpu_of(device, values))


def gpu_of(device: str, values: Values) -> Gpu:
    """The GPU of which NVML told these values (nvml_reading)."""
    ecc, rows, repair, pcie = values["ecc"], values["rows"], values["repair"], values["pcie"]
    temperature = values["temperature"]
    wanted = values["recovery_action"]
    return Gpu(
        device,
        unread=values["errors"],
        ecc_uncorrected=_ecc_uncorrected(ecc),
        sram_threshold_exceeded=_flag(ecc["sram_threshold_exceeded"]),
        retired_pages={kind: values["pages"][kind] or 0 for kind in ("corrected", "uncorrected")},
        retired_pages_pending=_flag(values["pages"]["pending"]),
        remap_pending=_flag(rows["pending"]),
        remap_failure=_flag(rows["failure"]),
        banks_without_spare_rows=(rows["banks_by_spare_rows"] or {}).get("none"),
        repairs_pending={"channel": bool(repair["channel_pending"]), "TPC": bool(repair["tpc_pending"])},
        unrepairable_memory=_flag(repair["unrepairable_memory"]),
        recovery_action=nvidia_rules.RECOVERY_ACTIONS.get(wanted, str(wanted)) if wanted else None,
        slowdowns={words: bool((values["clocks"]["event_reasons"] or 0) & bit) for bit, words in SLOWDOWN_BITS.items()},
        temperature_c=temperature["gpu"],
        slowdown_at_c=temperature["slowdown"],
        shutdown_at_c=temperature["shutdown"],
        margin_c=temperature["margin"],
        slowdown_margin_c=temperature["slowdown_margin"],
        shutdown_margin_c=temperature["shutdown_margin"],
        memory_temperature_c=temperature["memory"],
        memory_limit_c=temperature["memory_max"],
        pcie_width=pcie["width"],
        pcie_width_max=pcie["width_max"],
        fabric=_fabric(values["fabric"] or {}),
        links=[state != 0 for state in values["nvlink"]["states"] or ()],
        ecc=_flag(ecc["mode"]),
        ecc_pending=_flag(ecc["pending_mode"]),
        mig=_flag(values["mig"]["mode"]),
        mig_pending=_flag(values["mig"]["pending_mode"]),
    )


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _ecc_uncorrected(ecc: Values) -> dict[str, int]:
    total = ecc["volatile_uncorrected"] or 0
    places = {place: count for place, count in (ecc["volatile_uncorrected_by_location"] or {}).items() if count}
    return places if total and places else {"all memories": total}


def _fabric(told: Values) -> dict[str, str]:
    """As nvidia-smi says it. Of a registration that has not ended the status says nothing."""
    if not told:
        return {}
    state = _FABRIC_STATES.get(told["state"], str(told["state"]))
    fabric = {"state": state}
    if state == "completed":
        fabric["status"] = f"NVML error {told['status']}" if told["status"] else "success"
    if told["health_summary"] in _FABRIC_SUMMARIES:
        fabric["summary"] = _FABRIC_SUMMARIES[told["health_summary"]]
    mask = told["health_mask"] or 0
    for shift, (part, value) in _FABRIC_HEALTH.items():
        if mask >> shift & 3 == 1:
            fabric[part] = value
    configuration = mask >> _FABRIC_CONFIGURATION & 0xF
    if configuration > 1:
        fabric["incorrect configuration:"] = str(configuration)
    return fabric
