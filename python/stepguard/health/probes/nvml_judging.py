# SPDX-License-Identifier: Apache-2.0
"""What of a GPU's values is a finding: a table, each row with who says so.

It says of values what tools.nvidia_gpu says of what nvidia-smi prints, and besides what is to be done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from stepguard.health.model import Action, Finding, Status

Values = dict[str, Any]

_WARN, _FAIL, _UNKNOWN = Status.WARN, Status.FAIL, Status.UNKNOWN
# "Dynamic page retirement", NVIDIA: 64 is the most a GPU can retire, from 60 on it is to be returned.
_RETIRED_PAGES_LIMIT = 60
_SLOWDOWNS = {0x08: "hardware", 0x20: "software, thermal", 0x40: "hardware, thermal", 0x80: "power brake"}
# nvmlDeviceGpuRecoveryAction_t; 5 to 7 came after driver 580.
_RECOVERY = {
    1: (_FAIL, Action.RESET_GPU, "reset the GPU"),
    2: (_FAIL, Action.REBOOT, "reboot the node"),
    3: (_WARN, Action.CHECK, "drain P2P"),
    4: (_FAIL, Action.RESET_GPU, "drain, then reset the GPU"),
    5: (_WARN, Action.CHECK, "recover the IMEX domain"),
    6: (_FAIL, Action.RESET_GPU, "reset the GPU's bus"),
    7: (_FAIL, Action.REBOOT, "reboot the system"),
}
_FABRIC_COMPLETED = 3
_FABRIC_STATES = {1: "not started", 2: "in progress"}
_UNHEALTHY, _LIMITED = 2, 3  # NVML_GPU_FABRIC_HEALTH_SUMMARY
# NVML_GPU_FABRIC_HEALTH_MASK: shift, of two bits each, where 1 is true.
_FABRIC_HEALTH = {
    "bandwidth degraded": 0,
    "route recovery in progress": 2,
    "route unhealthy": 4,
    "access timeout recovery": 6,
}
_FABRIC_CONFIGURATION = 8  # four bits, 1 is none incorrect

Evidence = Callable[[Values], str]


class Rule(NamedTuple):
    """`evidence` gives the values that make it a finding, "" where they do not; `source` is who says so."""

    what: str
    status: Status
    action: Action
    evidence: Evidence
    source: str


def judge(device: str, values: Values) -> list[Finding]:
    """The findings of one GPU; a value that is not told is none."""
    found = [
        Finding(rule.status, device, rule.what, rule.action, evidence)
        for rule in RULES
        if (evidence := rule.evidence(values))
    ]
    return [*found, *_recovery(device, values), *_unread(device, values)]


def _recovery(device: str, values: Values) -> Iterator[Finding]:
    wanted = values["recovery_action"]
    if wanted:
        status, action, words = _RECOVERY.get(wanted, (_UNKNOWN, Action.CHECK, "not known here"))
        yield Finding(status, device, "recovery-action", action, f"the driver asks for {wanted}: {words}")


def _unread(device: str, values: Values) -> Iterator[Finding]:
    errors = values["errors"]
    if errors:
        call, error = next(iter(errors.items()))
        more = f", and {len(errors) - 1} more" if len(errors) > 1 else ""
        yield Finding(_UNKNOWN, device, "not-readable", Action.CHECK, f"{call}: {error}{more}")


def _set(part: str, name: str, words: str) -> Evidence:
    return lambda values: words if values[part][name] else ""


def _ecc(values: Values) -> str:
    count = values["ecc"]["volatile_uncorrected"]
    places = values["ecc"]["volatile_uncorrected_by_location"] or {}
    where = ", ".join(f"{place} {number}" for place, number in places.items() if number)
    return f"{count} uncorrectable errors since the last reset{f': {where}' if where else ''}" if count else ""


def _pending(part: str, what: str) -> Evidence:
    def evidence(values: Values) -> str:
        now, then = values[part]["mode"], values[part]["pending_mode"]
        return f"{what} will be {'on' if then else 'off'} after a reset" if now != then and then is not None else ""

    return evidence


def _retired(values: Values) -> str:
    count = sum(values["pages"][kind] or 0 for kind in ("corrected", "uncorrected"))
    return f"{count} pages retired, at most 64 are possible" if count >= _RETIRED_PAGES_LIMIT else ""


def _no_spare_rows(values: Values) -> str:
    banks = (values["rows"]["banks_by_spare_rows"] or {}).get("none")
    return f"{banks} memory banks have no spare row left" if banks else ""


def _repairs(values: Values) -> str:
    waiting = [what for what in ("channel", "tpc") if values["repair"][f"{what}_pending"]]
    return f"{' and '.join(waiting)} repair waits for a reset" if waiting else ""


def _slowdown(values: Values) -> str:
    reasons = values["clocks"]["event_reasons"] or 0
    return ", ".join(words for bit, words in _SLOWDOWNS.items() if reasons & bit)


def _hot(threshold: str) -> Evidence:
    """Thresholds are temperatures before Hopper, and margins to the limit since."""

    def evidence(values: Values) -> str:
        has = values["temperature"]
        if has["margin"] is not None and has[f"{threshold}_margin"] is not None:
            reached = has["margin"] <= has[f"{threshold}_margin"]
            return f"margin {has['margin']} °C, {threshold} at {has[f'{threshold}_margin']} °C" if reached else ""
        reached = has["gpu"] is not None and has[threshold] is not None and has["gpu"] >= has[threshold]
        return f"{has['gpu']} °C, {threshold} at {has[threshold]} °C" if reached else ""

    return evidence


def _slowdown_near(values: Values) -> str:
    return "" if _hot("shutdown")(values) else _hot("slowdown")(values)


def _narrow(values: Values) -> str:
    width, width_max = values["pcie"]["width"], values["pcie"]["width_max"]
    known = width is not None and width_max is not None
    return f"x{width} of x{width_max}" if known and width < width_max else ""


def _links_down(values: Values) -> str:
    states = values["nvlink"]["states"] or []
    down = [str(link) for link, state in enumerate(states) if state == 0]
    # None is up on a card without a bridge, and where the fabric is not ready, which its state says.
    return f"link {', '.join(down)} of {len(states)}" if down and len(down) < len(states) else ""


def _fabric_state(values: Values) -> str:
    fabric = values["fabric"] or {}
    words = _FABRIC_STATES.get(fabric.get("state", 0))
    return f"registration {words}: CUDA cannot start" if words else ""


def _fabric_failed(values: Values) -> str:
    fabric = values["fabric"] or {}
    if fabric.get("state") == _FABRIC_COMPLETED and fabric["status"] != 0:
        return f"registration ended with NVML error {fabric['status']}"
    return "unhealthy" if fabric.get("health_summary") == _UNHEALTHY else ""


def _fabric_poor(values: Values) -> str:
    fabric = values["fabric"] or {}
    mask = fabric.get("health_mask") or 0
    poor = [words for words, shift in _FABRIC_HEALTH.items() if mask >> shift & 3 == 1]
    configuration = mask >> _FABRIC_CONFIGURATION & 0xF
    if configuration > 1:
        poor.append(f"incorrect configuration {configuration}")
    if fabric.get("health_summary") == _LIMITED:
        poor.append("limited capacity")
    return ", ".join(poor)


_MEMORY = "NVIDIA GPU memory error management"
_PAGES = "NVIDIA dynamic page retirement"
_FABRIC = "nvml.h, nvmlGpuFabricInfo_v3_t"

RULES = (
    Rule("row-remap-failure", _FAIL, Action.REPLACE, _set("rows", "failure", "a row could not be remapped"), _MEMORY),
    Rule("unrepairable-memory", _FAIL, Action.REPLACE, _set("repair", "unrepairable_memory", "it is set"), "nvml.h"),
    Rule(
        "sram-threshold",
        _FAIL,
        Action.REPLACE,
        _set("ecc", "sram_threshold_exceeded", "more SRAM errors than the field diagnostic allows"),
        f"{_MEMORY}: RMA after a field diagnostic",
    ),
    Rule("retired-pages", _FAIL, Action.REPLACE, _retired, _PAGES),
    Rule("ecc-uncorrected", _FAIL, Action.RESET_GPU, _ecc, f"{_MEMORY}; Azure cyclecloud-healthagent 2.0.2"),
    Rule("shutdown-temperature", _FAIL, Action.CHECK, _hot("shutdown"), "nvml.h, nvmlTemperatureThresholds_t"),
    Rule("fabric", _FAIL, Action.CHECK, _fabric_failed, _FABRIC),
    Rule("fabric-state", _WARN, Action.CHECK, _fabric_state, _FABRIC),
    Rule("fabric-health", _WARN, Action.CHECK, _fabric_poor, _FABRIC),
    Rule(
        "row-remap-pending", _WARN, Action.RESET_GPU, _set("rows", "pending", "a row is remapped at a reset"), _MEMORY
    ),
    Rule("retirement-pending", _WARN, Action.RESET_GPU, _set("pages", "pending", "pages retire at a reset"), _PAGES),
    Rule("no-spare-rows", _WARN, Action.CHECK, _no_spare_rows, _MEMORY),
    Rule("repair-pending", _WARN, Action.RESET_GPU, _repairs, "nvml.h, nvmlRepairStatus_v1_t"),
    Rule("clocks-slowed", _WARN, Action.CHECK, _slowdown, "nvml.h, clocks event reasons; healthagent: mask 0xE8"),
    Rule("slowdown-temperature", _WARN, Action.CHECK, _slowdown_near, "nvml.h, nvmlTemperatureThresholds_t"),
    Rule("pcie-width", _WARN, Action.CHECK, _narrow, "nvidia-smi(1): an idle GPU lowers the generation, not the width"),
    Rule("nvlink-down", _WARN, Action.CHECK, _links_down, "AzNHC: all links of a GPU are up"),
    Rule("ecc-mode-pending", _WARN, Action.RESET_GPU, _pending("ecc", "ECC"), "nvml.h, nvmlDeviceGetEccMode"),
    Rule("mig-mode-pending", _WARN, Action.RESET_GPU, _pending("mig", "MIG"), "nvml.h, nvmlDeviceGetMigMode"),
)
