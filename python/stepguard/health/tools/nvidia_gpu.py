# SPDX-License-Identifier: Apache-2.0
"""What is known of one NVIDIA GPU, whoever told it, and how it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from stepguard.health.model import DeviceJudgement, Status, worst

# "Dynamic page retirement", NVIDIA: 64 is the most a GPU can retire, from 60 on it is to be returned.
_RETIRED_PAGES_LIMIT = 60
# Where the tool names no threshold of the GPU's own: the default of Azure's healthagent.
_HOT_C = 93.0


@dataclass
class Gpu:
    """What a tool told of a GPU. None and the empty are what it did not tell.

    `faults`          readings in whose place the driver told of an error: reading → what it said
    `unread`          readings whose value has no known meaning: reading → the value
    `cut`             the text ends within this GPU
    `told`            how many readings that bear on health were told
    `ecc_uncorrected` volatile uncorrectable errors by place: since the driver was loaded or the GPU reset
    `slowdowns`       the causes for which the GPU now runs slower that are not the power limit or an idle GPU
    `margin_c`        how far the GPU is from its limit (T.Limit); the thresholds are margins too
    `repairs_pending` channel or TPC repair that waits for a reset
    `fabric`          state, status and the parts of health of the NVLink fabric as text, in lower case
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
    mig: bool | None = None


class Rule(NamedTuple):
    """`finding` says in plain words what is wrong, "" where nothing is; `source` is who says that it is wrong."""

    status: Status
    finding: Callable[[Gpu], str]
    source: str


def judge(gpu: Gpu) -> DeviceJudgement:
    """How the GPU is: all its findings, the worst first; without one OK only where something was told of it."""
    found = [(rule.status, text) for rule in RULES if (text := rule.finding(gpu))]
    if found:
        status = worst(one for one, _ in found)
        found.sort(key=lambda one: one[0] is not status)
        return DeviceJudgement(gpu.device, status, "; ".join(text for _, text in found))
    if gpu.cut:
        return DeviceJudgement(gpu.device, Status.UNKNOWN, "the text ends before all is told of it")
    if gpu.unread:
        reading, value = next(iter(gpu.unread.items()))
        return DeviceJudgement(gpu.device, Status.UNKNOWN, f"{reading} has a value of no known meaning: {value}")
    if not gpu.told:
        return DeviceJudgement(gpu.device, Status.UNKNOWN, "nothing is told of its health")
    return DeviceJudgement(gpu.device, Status.OK, "no finding")


# -- findings ---------------------------------------------------------------------------------------------------------

# NVML's GPU recovery action (field 230) in nvidia-smi's words; 5 to 7 came after driver 580.
_RECOVERY_ACTIONS = {
    "gpu reset": (Status.FAIL, "reset the GPU"),
    "reset": (Status.FAIL, "reset the GPU"),
    "node reboot": (Status.FAIL, "reboot the node"),
    "reboot": (Status.FAIL, "reboot the node"),
    "drain p2p": (Status.WARN, "let its peers drain"),
    "drain and reset": (Status.FAIL, "drain, then reset the GPU"),
    "recover imex domain": (Status.WARN, "recover the IMEX domain"),
    "bus reset": (Status.FAIL, "reset the bus"),
    "system reboot": (Status.FAIL, "reboot the system"),
}


def _recovery(status: Status) -> Callable[[Gpu], str]:
    def finding(gpu: Gpu) -> str:
        action = (gpu.recovery_action or "none").replace("_", " ").strip().lower()
        if action == "none":
            return ""
        wanted, words = _RECOVERY_ACTIONS.get(action, (Status.WARN, "not known here, see the driver's documentation"))
        return f"the driver asks for recovery action {gpu.recovery_action}: {words}" if wanted is status else ""

    return finding


def _faults(gpu: Gpu) -> str:
    return ", ".join(f"{reading}: {said}" for reading, said in gpu.faults.items())


def _ecc(gpu: Gpu) -> str:
    counts = ", ".join(f"{place} {count}" for place, count in gpu.ecc_uncorrected.items() if count > 0)
    return f"volatile uncorrectable ECC errors: {counts}: reset the GPU" if counts else ""


def _retired(gpu: Gpu) -> str:
    count = sum(gpu.retired_pages.values())
    return f"{count} pages retired, at most 64 are possible: replace" if count >= _RETIRED_PAGES_LIMIT else ""


def _spare_rows(gpu: Gpu) -> str:
    banks = gpu.banks_without_spare_rows
    return f"{banks:.0f} memory banks have no spare row left" if banks else ""


def _repairs(gpu: Gpu) -> str:
    pending = ", ".join(what for what, waits in gpu.repairs_pending.items() if waits)
    return f"{pending} repair pending: reset the GPU when convenient" if pending else ""


def _slowdown(gpu: Gpu) -> str:
    causes = ", ".join(cause for cause, active in gpu.slowdowns.items() if active)
    return f"slowed down: {causes}" if causes else ""


def _shutdown_near(gpu: Gpu) -> str:
    if _reached(gpu.temperature_c, gpu.shutdown_at_c):
        return f"{gpu.temperature_c:.0f} C, shuts down at {gpu.shutdown_at_c:.0f} C"
    if _reached(gpu.shutdown_margin_c, gpu.margin_c):
        return f"{gpu.margin_c:.0f} C to its limit, shuts down at {gpu.shutdown_margin_c:.0f} C"
    return ""


def _hot(gpu: Gpu) -> str:
    if _shutdown_near(gpu):
        return ""
    if _reached(gpu.temperature_c, gpu.slowdown_at_c):
        return f"{gpu.temperature_c:.0f} C, slows down at {gpu.slowdown_at_c:.0f} C"
    if _reached(gpu.slowdown_margin_c, gpu.margin_c):
        return f"{gpu.margin_c:.0f} C to its limit, slows down at {gpu.slowdown_margin_c:.0f} C"
    if gpu.slowdown_at_c is None and gpu.margin_c is None and (gpu.temperature_c or 0) > _HOT_C:
        return f"{gpu.temperature_c:.0f} C"
    return ""


def _hot_memory(gpu: Gpu) -> str:
    if _reached(gpu.memory_temperature_c, gpu.memory_limit_c):
        return f"memory at {gpu.memory_temperature_c:.0f} C, made for at most {gpu.memory_limit_c:.0f} C"
    return ""


def _reached(value: float | None, threshold: float | None) -> bool:
    return value is not None and threshold is not None and value >= threshold


def _narrow(gpu: Gpu) -> str:
    if gpu.pcie_width is None or gpu.pcie_width_max is None or gpu.pcie_width >= gpu.pcie_width_max:
        return ""
    return f"PCIe link {gpu.pcie_width:.0f}x wide of {gpu.pcie_width_max:.0f}x"


_FABRIC_GOOD = frozenset({"healthy", "full", "false", "no", "none", "not set", "disabled"})


def _fabric_failed(gpu: Gpu) -> str:
    status = gpu.fabric.get("status", "success")
    if status not in ("success", "in progress", "not started"):
        return f"NVLink fabric: status {status}"
    return "NVLink fabric: unhealthy" if gpu.fabric.get("summary") == "unhealthy" else ""


def _fabric_poor(gpu: Gpu) -> str:
    state = gpu.fabric.get("state", "completed")
    if state not in ("completed", "not supported"):
        return f"NVLink fabric: state {state}, not ready for jobs"
    poor = [
        f"{part} {value}"
        for part, value in gpu.fabric.items()
        if part not in ("state", "status") and value not in _FABRIC_GOOD and value != "unhealthy"
    ]
    return f"NVLink fabric: {', '.join(poor)}" if poor else ""


_MEMORY = "NVIDIA GPU memory error management"
_SMI = "nvidia-smi(1)"
_HEALTHAGENT = "Azure cyclecloud-healthagent 2.0.2, defaults"

RULES: tuple[Rule, ...] = (
    Rule(Status.FAIL, _faults, f"{_SMI}: an error in place of a reading"),
    Rule(Status.FAIL, _recovery(Status.FAIL), f"NVML nvmlDeviceGpuRecoveryAction_t; {_HEALTHAGENT}: 1, 2, 4 error"),
    Rule(Status.WARN, _recovery(Status.WARN), f"NVML nvmlDeviceGpuRecoveryAction_t; {_HEALTHAGENT}: 3 warning"),
    Rule(Status.FAIL, lambda gpu: "reset required" if gpu.reset_required else "", _SMI),
    Rule(Status.FAIL, lambda gpu: "drain and reset recommended" if gpu.drain_and_reset else "", _SMI),
    Rule(Status.FAIL, _ecc, f"{_MEMORY}; {_HEALTHAGENT}"),
    Rule(Status.FAIL, lambda gpu: "row remapping failed: replace" if gpu.remap_failure else "", f"{_MEMORY}: RMA"),
    Rule(
        Status.FAIL,
        lambda gpu: "more SRAM errors than allowed: replace" if gpu.sram_threshold_exceeded else "",
        f"{_MEMORY}: RMA after a field diagnostic",
    ),
    Rule(Status.FAIL, lambda gpu: "unrepairable memory: replace" if gpu.unrepairable_memory else "", _SMI),
    Rule(Status.FAIL, _retired, "NVIDIA dynamic page retirement: RMA"),
    Rule(Status.FAIL, _shutdown_near, _SMI),
    Rule(Status.FAIL, _fabric_failed, "NVML nvmlGpuFabricInfoV_t"),
    Rule(
        Status.WARN,
        lambda gpu: "row remap pending: reset the GPU when convenient" if gpu.remap_pending else "",
        _MEMORY,
    ),
    Rule(
        Status.WARN,
        lambda gpu: "page retirement pending: reboot when convenient" if gpu.retired_pages_pending else "",
        f"NVIDIA dynamic page retirement; {_HEALTHAGENT}",
    ),
    Rule(Status.WARN, _spare_rows, _MEMORY),
    Rule(Status.WARN, _repairs, _SMI),
    Rule(Status.WARN, _slowdown, f"NVML clocks event reasons; {_HEALTHAGENT}: mask 0xE8"),
    Rule(Status.WARN, _hot, f"{_SMI}; {_HEALTHAGENT}: more than 93 C"),
    Rule(Status.WARN, _hot_memory, _SMI),
    Rule(Status.WARN, _narrow, f"{_SMI}: an idle GPU lowers the generation, not the width"),
    Rule(Status.WARN, _fabric_poor, "NVML nvmlGpuFabricInfoV_t"),
)
