# SPDX-License-Identifier: Apache-2.0
"""How an NVIDIA GPU is by what is known of it: a table, each row with who says so. It is the only one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stepguard.health.model import Action, DeviceJudgement, Finding, Status, worst
from stepguard.health.tools.nvidia_gpu import Gpu

Evidence = Callable[[Gpu], str]

_FAIL, _WARN, _UNKNOWN = Status.FAIL, Status.WARN, Status.UNKNOWN
# "Dynamic page retirement", NVIDIA: 64 is the most a GPU can retire, from 60 on it is to be returned.
_RETIRED_PAGES_LIMIT = 60
# Where no threshold of the GPU's own is told: the default of Azure's healthagent.
_HOT_C = 93.0


class Rule(NamedTuple):
    """`evidence` gives the values that make it a finding, "" where they do not; `source` is who says so."""

    what: str
    status: Status
    action: Action
    evidence: Evidence
    source: str


def findings(gpu: Gpu) -> list[Finding]:
    """All that is wrong with the GPU, the worst first."""
    found = [
        Finding(rule.status, gpu.device, rule.what, rule.action, evidence)
        for rule in RULES
        if (evidence := rule.evidence(gpu))
    ]
    order = [_FAIL, _WARN, _UNKNOWN]
    return sorted(found, key=lambda one: order.index(one.status))


def judge(gpu: Gpu) -> DeviceJudgement:
    """The same in a sentence; without a finding it is OK only where something was told of it, and nothing was cut."""
    found = findings(gpu)
    status = worst((one.status for one in found), of_none=Status.OK)
    if status in (_FAIL, _WARN):
        return DeviceJudgement(gpu.device, status, "; ".join(_sentence(one) for one in found))
    if gpu.cut:
        return DeviceJudgement(gpu.device, _UNKNOWN, "the text ends before all is told of it")
    if found:
        return DeviceJudgement(gpu.device, _UNKNOWN, "; ".join(one.evidence for one in found))
    if not gpu.told:
        return DeviceJudgement(gpu.device, _UNKNOWN, "nothing is told of its health")
    return DeviceJudgement(gpu.device, Status.OK, "no finding")


_ADVICE = {Action.REPLACE: ": replace", Action.RESET_GPU: ": reset the GPU", Action.REBOOT: ": reboot the node"}


def _sentence(finding: Finding) -> str:
    when = " when convenient" if finding.status is _WARN and finding.action in _ADVICE else ""
    return f"{finding.evidence}{_ADVICE.get(finding.action, '')}{when}"


# -- what the driver asks for -----------------------------------------------------------------------------------------

# nvmlDeviceGpuRecoveryAction_t in nvidia-smi's words; 5 to 7 came after driver 580.
RECOVERY_ACTIONS = {
    1: "gpu reset",
    2: "node reboot",
    3: "drain p2p",
    4: "drain and reset",
    5: "recover imex domain",
    6: "bus reset",
    7: "system reboot",
}
_RECOVERY = {
    ("gpu reset", "reset"): (_FAIL, Action.RESET_GPU),
    ("drain and reset",): (_FAIL, Action.RESET_GPU),
    ("bus reset",): (_FAIL, Action.RESET_GPU),
    ("node reboot", "reboot", "system reboot"): (_FAIL, Action.REBOOT),
    ("drain p2p", "recover imex domain"): (_WARN, Action.CHECK),
}
_KNOWN = frozenset(word for words in _RECOVERY for word in words)


def _asked(gpu: Gpu) -> str:
    word = (gpu.recovery_action or "none").replace("_", " ").strip().lower()
    return "" if word == "none" else word


def _asks_for(words: tuple[str, ...]) -> Evidence:
    def evidence(gpu: Gpu) -> str:
        asked = _asked(gpu)
        return f"the driver asks for recovery action {asked}" if asked in words else ""

    return evidence


def _asks_for_another(gpu: Gpu) -> str:
    asked = _asked(gpu)
    known = not asked or asked in _KNOWN
    return "" if known else f"the driver asks for recovery action {asked}: not known here, see its documentation"


# -- memory -----------------------------------------------------------------------------------------------------------


def _ecc(gpu: Gpu) -> str:
    counts = ", ".join(f"{place} {count}" for place, count in gpu.ecc_uncorrected.items() if count > 0)
    return f"volatile uncorrectable ECC errors: {counts}" if counts else ""


def _retired(gpu: Gpu) -> str:
    count = sum(gpu.retired_pages.values())
    return f"{count} pages retired, at most 64 are possible" if count >= _RETIRED_PAGES_LIMIT else ""


def _spare_rows(gpu: Gpu) -> str:
    banks = gpu.banks_without_spare_rows
    return f"{banks:.0f} memory banks have no spare row left" if banks else ""


def _repairs(gpu: Gpu) -> str:
    pending = ", ".join(what for what, waits in gpu.repairs_pending.items() if waits)
    return f"{pending} repair pending" if pending else ""


# -- clocks and temperature -------------------------------------------------------------------------------------------


def _slowdown(gpu: Gpu) -> str:
    causes = ", ".join(cause for cause, active in gpu.slowdowns.items() if active)
    return f"slowed down: {causes}" if causes else ""


def _shutdown_near(gpu: Gpu) -> str:
    if _reached(gpu.temperature_c, gpu.shutdown_at_c):
        return f"{gpu.temperature_c:.0f} °C, shuts down at {gpu.shutdown_at_c:.0f} °C"
    if _reached(gpu.shutdown_margin_c, gpu.margin_c):
        return f"{gpu.margin_c:.0f} °C to its limit, shuts down at {gpu.shutdown_margin_c:.0f} °C"
    return ""


def _hot(gpu: Gpu) -> str:
    if _shutdown_near(gpu):
        return ""
    if _reached(gpu.temperature_c, gpu.slowdown_at_c):
        return f"{gpu.temperature_c:.0f} °C, slows down at {gpu.slowdown_at_c:.0f} °C"
    if _reached(gpu.slowdown_margin_c, gpu.margin_c):
        return f"{gpu.margin_c:.0f} °C to its limit, slows down at {gpu.slowdown_margin_c:.0f} °C"
    if gpu.slowdown_at_c is None and gpu.margin_c is None and (gpu.temperature_c or 0) > _HOT_C:
        return f"{gpu.temperature_c:.0f} °C"
    return ""


def _hot_memory(gpu: Gpu) -> str:
    if _reached(gpu.memory_temperature_c, gpu.memory_limit_c):
        return f"memory at {gpu.memory_temperature_c:.0f} °C, made for at most {gpu.memory_limit_c:.0f} °C"
    return ""


def _reached(value: float | None, threshold: float | None) -> bool:
    return value is not None and threshold is not None and value >= threshold


# -- links ------------------------------------------------------------------------------------------------------------


def _narrow(gpu: Gpu) -> str:
    if gpu.pcie_width is None or gpu.pcie_width_max is None or gpu.pcie_width >= gpu.pcie_width_max:
        return ""
    return f"PCIe link {gpu.pcie_width:.0f}x wide of {gpu.pcie_width_max:.0f}x"


def _links_down(gpu: Gpu) -> str:
    down = [str(link) for link, is_up in enumerate(gpu.links) if not is_up]
    # None is up on a card without a bridge, and where the fabric is not ready, which its state says.
    return f"NVLink {', '.join(down)} of {len(gpu.links)} down" if down and len(down) < len(gpu.links) else ""


_FABRIC_GOOD = frozenset({"healthy", "full", "false", "no", "none", "not set", "disabled"})


def _fabric_failed(gpu: Gpu) -> str:
    status = gpu.fabric.get("status", "success")
    if status not in ("success", "in progress", "not started"):
        return f"NVLink fabric: status {status}"
    return "NVLink fabric: unhealthy" if gpu.fabric.get("summary") == "unhealthy" else ""


def _fabric_state(gpu: Gpu) -> str:
    state = gpu.fabric.get("state", "completed")
    return f"NVLink fabric: state {state}, not ready for jobs" if state not in ("completed", "not supported") else ""


def _fabric_poor(gpu: Gpu) -> str:
    poor = [
        f"{part} {value}"
        for part, value in gpu.fabric.items()
        if part not in ("state", "status") and value not in _FABRIC_GOOD and value != "unhealthy"
    ]
    return f"NVLink fabric: {', '.join(poor)}" if poor else ""


# -- the rest ---------------------------------------------------------------------------------------------------------


def _faults(gpu: Gpu) -> str:
    return ", ".join(f"{reading}: {said}" for reading, said in gpu.faults.items())


def _unread(gpu: Gpu) -> str:
    if not gpu.unread:
        return ""
    reading, said = next(iter(gpu.unread.items()))
    more = f", and {len(gpu.unread) - 1} more" if len(gpu.unread) > 1 else ""
    return f"cannot tell {reading}: {said}{more}"


def _set(attribute: str, words: str) -> Evidence:
    return lambda gpu: words if getattr(gpu, attribute) else ""


def _pending(what: str, attribute: str) -> Evidence:
    def evidence(gpu: Gpu) -> str:
        now, then = getattr(gpu, attribute), getattr(gpu, f"{attribute}_pending")
        return (
            f"{what} will be {'on' if then else 'off'} after a reset" if None not in (now, then) and now != then else ""
        )

    return evidence


_MEMORY = "NVIDIA GPU memory error management"
_PAGES = "NVIDIA dynamic page retirement"
_SMI = "nvidia-smi(1)"
_RECOVERY_ENUM = "nvml.h, nvmlDeviceGpuRecoveryAction_t"
_FABRIC = "nvml.h, nvmlGpuFabricInfo_v3_t"
_HEALTHAGENT = "Azure cyclecloud-healthagent 2.0.2, defaults"
_MORE_SRAM = "more SRAM errors than the field diagnostic allows"

RULES: tuple[Rule, ...] = (
    Rule("not-readable", _FAIL, Action.CHECK, _faults, f"{_SMI}: an error in place of a reading"),
    *(
        Rule("recovery-action", status, action, _asks_for(words), _RECOVERY_ENUM)
        for words, (status, action) in _RECOVERY.items()
    ),
    Rule("recovery-action", _UNKNOWN, Action.CHECK, _asks_for_another, _RECOVERY_ENUM),
    Rule("reset-required", _FAIL, Action.RESET_GPU, _set("reset_required", "reset required"), _SMI),
    Rule("drain-and-reset", _FAIL, Action.RESET_GPU, _set("drain_and_reset", "drain and reset recommended"), _SMI),
    Rule("ecc-uncorrected", _FAIL, Action.RESET_GPU, _ecc, f"{_MEMORY}; {_HEALTHAGENT}"),
    Rule("row-remap-failure", _FAIL, Action.REPLACE, _set("remap_failure", "row remapping failed"), f"{_MEMORY}: RMA"),
    Rule(
        "sram-threshold",
        _FAIL,
        Action.REPLACE,
        _set("sram_threshold_exceeded", _MORE_SRAM),
        f"{_MEMORY}: RMA after a field diagnostic",
    ),
    Rule("unrepairable-memory", _FAIL, Action.REPLACE, _set("unrepairable_memory", "unrepairable memory"), _SMI),
    Rule("retired-pages", _FAIL, Action.REPLACE, _retired, f"{_PAGES}: RMA"),
    Rule("shutdown-temperature", _FAIL, Action.CHECK, _shutdown_near, f"{_SMI}; nvml.h, nvmlTemperatureThresholds_t"),
    Rule("fabric", _FAIL, Action.CHECK, _fabric_failed, _FABRIC),
    Rule("fabric-state", _WARN, Action.CHECK, _fabric_state, f"{_FABRIC}: CUDA cannot start"),
    Rule("fabric-health", _WARN, Action.CHECK, _fabric_poor, _FABRIC),
    Rule("row-remap-pending", _WARN, Action.RESET_GPU, _set("remap_pending", "row remap pending"), _MEMORY),
    Rule(
        "retirement-pending",
        _WARN,
        Action.RESET_GPU,
        _set("retired_pages_pending", "page retirement pending"),
        f"{_PAGES}; {_HEALTHAGENT}",
    ),
    Rule("no-spare-rows", _WARN, Action.CHECK, _spare_rows, _MEMORY),
    Rule("repair-pending", _WARN, Action.RESET_GPU, _repairs, "nvml.h, nvmlRepairStatus_v1_t"),
    Rule("clocks-slowed", _WARN, Action.CHECK, _slowdown, f"nvml.h, clocks event reasons; {_HEALTHAGENT}: mask 0xE8"),
    Rule("slowdown-temperature", _WARN, Action.CHECK, _hot, f"{_SMI}; {_HEALTHAGENT}: more than 93 °C"),
    Rule("memory-temperature", _WARN, Action.CHECK, _hot_memory, _SMI),
    Rule("pcie-width", _WARN, Action.CHECK, _narrow, f"{_SMI}: an idle GPU lowers the generation, not the width"),
    Rule("nvlink-down", _WARN, Action.CHECK, _links_down, "AzNHC: all links of a GPU are up"),
    Rule("ecc-mode-pending", _WARN, Action.RESET_GPU, _pending("ECC", "ecc"), "nvml.h, nvmlDeviceGetEccMode"),
    Rule("mig-mode-pending", _WARN, Action.RESET_GPU, _pending("MIG", "mig"), "nvml.h, nvmlDeviceGetMigMode"),
    Rule("not-readable", _UNKNOWN, Action.CHECK, _unread, "what cannot be told is not well"),
)
