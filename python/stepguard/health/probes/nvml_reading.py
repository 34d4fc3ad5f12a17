# SPDX-License-Identifier: Apache-2.0
"""What NVML tells of one GPU, as plain values. None is what the GPU, or its driver, does not tell.

Counters that NVML keeps for each NVLink are lists, one number a link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stepguard.health.probes import nvml_numbers as numbers

# NVML, as the module pynvml.
Nvml = Any
Values = dict[str, Any]

# nvmlReturn_t: not supported, no permission, not found, function not found, no data, wrong version, deprecated.
_NOT_TOLD = frozenset({3, 4, 6, 13, 21, 25, 26})
# GPU is lost, reset required: no other call about it will be answered.
GONE = frozenset({15, 16})


class GpuGone(Exception):
    """The GPU answers no longer; the text is NVML's."""


class Gpu:
    """One GPU that is asked. `errors`: call → what NVML said where it should have told a value."""

    def __init__(self, nvml: Nvml, handle: Any) -> None:
        self.nvml = nvml
        self.handle = handle
        self.errors: dict[str, str] = {}

    def ask(self, function: str, *arguments: Any) -> Any:
        """What nvmlDeviceGet… returns; None where nothing is told. Raises GpuGone."""
        call = getattr(self.nvml, f"nvmlDeviceGet{function}", None)
        if call is None:
            return None
        try:
            return call(self.handle, *arguments)
        except self.nvml.NVMLError as error:
            if error.value in GONE:
                raise GpuGone(str(error)) from None
            if error.value not in _NOT_TOLD:
                self.errors[f"nvmlDeviceGet{function}"] = str(error)
            return None

    def ask_structure(self, function: str, structure: str) -> Any:
        """The same for a call that fills a structure of that name; None where pynvml has no such structure."""
        made = getattr(self.nvml, structure, None)
        if made is None:
            return None
        filled = made()
        return None if self.ask(function, self.nvml.byref(filled)) is None else filled

    def fields(self, wanted: Iterable[int | tuple[int, int]]) -> list[int | float | None]:
        """Values by their number, or number and scope, in one call."""
        wanted = list(wanted)
        answers = self.ask("FieldValues", wanted)
        if answers is None:
            return [None] * len(wanted)
        return [self._field(answer) for answer in answers]

    def _field(self, answer: Any) -> int | float | None:
        result = answer.nvmlReturn
        if result in GONE:
            raise GpuGone(str(self.nvml.NVMLError(result)))
        if result == 0 and answer.valueType < len(numbers.VALUE_MEMBERS):
            value: int | float = getattr(answer.value, numbers.VALUE_MEMBERS[answer.valueType])
            return value
        # Counters of a link that is down are an error that says no more than its state.
        if result not in _NOT_TOLD and answer.fieldId not in numbers.OF_LINKS:
            self.errors[f"field {answer.fieldId}"] = str(self.nvml.NVMLError(result)) if result else "unknown type"
        return None


def identity(gpu: Gpu) -> Values:
    """Which GPU this is: what a snapshot finds it by. `pci` as the kernel writes it, without the function."""
    pci = gpu.ask("PciInfo_v3")
    return {
        "uuid": gpu.ask("UUID"),
        "index": gpu.ask("Index"),
        "pci": None if pci is None else f"{pci.domain:04x}:{pci.bus:02x}:{pci.device:02x}",
        "minor": gpu.ask("MinorNumber"),
        "name": gpu.ask("Name"),
        "serial": gpu.ask("Serial"),
        "vbios": gpu.ask("VbiosVersion"),
    }


def _ecc(gpu: Gpu) -> Values:
    mode = gpu.ask("EccMode") or (None, None)
    values: Values = {"mode": mode[0], "pending_mode": mode[1]}
    for age, counter in numbers.AGES.items():
        for kind, number in numbers.KINDS.items():
            values[f"{age}_{kind}"] = gpu.ask("TotalEccErrors", number, counter)
            by_location = {
                location: gpu.ask("MemoryErrorCounter", number, counter, place)
                for location, place in numbers.LOCATIONS.items()
            }
            values[f"{age}_{kind}_by_location"] = {k: v for k, v in by_location.items() if v is not None} or None
    sram = gpu.ask_structure("SramEccErrorStatus", "c_nvmlEccSramErrorStatus_v1_t")
    values["sram_threshold_exceeded"] = None if sram is None else sram.bThresholdExceeded
    return values


def _rows(gpu: Gpu) -> Values:
    rows = gpu.ask("RemappedRows") or (None, None, None, None)
    histogram = gpu.ask("RowRemapperHistogram")
    banks = ("max", "high", "partial", "low", "none")
    return {
        **dict(zip(("corrected", "uncorrected", "pending", "failure"), rows, strict=True)),
        "banks_by_spare_rows": None if histogram is None else {bank: getattr(histogram, bank) for bank in banks},
    }


def _pages(gpu: Gpu) -> Values:
    retired = {kind: gpu.ask("RetiredPages", cause) for kind, cause in numbers.PAGE_CAUSES.items()}
    return {
        **{kind: None if pages is None else len(pages) for kind, pages in retired.items()},
        "pending": gpu.ask("RetiredPagesPendingStatus"),
    }


def _repair(gpu: Gpu) -> Values:
    channel, tpc = gpu.ask("RepairStatus") or (None, None)
    return {
        "channel_pending": channel,
        "tpc_pending": tpc,
        "unrepairable_memory": gpu.ask("UnrepairableMemoryFlag_v1"),
    }


def _clocks(gpu: Gpu) -> Values:
    return {"event_reasons": gpu.ask("CurrentClocksEventReasons")}


def _temperature(gpu: Gpu) -> Values:
    """In °C. `margin`: how far it is from its limit."""
    return {
        "gpu": gpu.ask("TemperatureV", 0),
        "margin": gpu.ask("MarginTemperature"),
        **{name: gpu.ask("TemperatureThreshold", number) for name, number in numbers.THRESHOLDS.items()},
    }


def _power(gpu: Gpu) -> Values:
    return {
        "usage_mw": gpu.ask("PowerUsage"),
        "limit_mw": gpu.ask("EnforcedPowerLimit"),
        "energy_mj": gpu.ask("TotalEnergyConsumption"),
    }


def _pcie(gpu: Gpu) -> Values:
    return {
        "replays": gpu.ask("PcieReplayCounter"),
        "width": gpu.ask("CurrPcieLinkWidth"),
        "width_max": gpu.ask("MaxPcieLinkWidth"),
        "generation": gpu.ask("CurrPcieLinkGeneration"),
        "generation_max": gpu.ask("MaxPcieLinkGeneration"),
    }


def _fields(gpu: Gpu) -> Values:
    """All that is told by number and not by link, under the parts that it belongs to."""
    places = [(part, name) for part, names in numbers.FIELDS.items() for name in names]
    values: Values = {}
    for (part, name), value in zip(
        places, gpu.fields(numbers.FIELDS[part][name] for part, name in places), strict=True
    ):
        if name:
            values.setdefault(part, {})[name] = value
        else:
            values[part] = value
    return values


def _nvlink(gpu: Gpu, links: int) -> Values:
    """`states`: 1 for each link that is up."""
    states = [gpu.ask("NvLinkState", link) for link in range(links)]
    names = list(numbers.LINK_FIELDS)
    told = gpu.fields((numbers.LINK_FIELDS[name], link) for name in names for link in range(links))
    counters = {name: told[place * links : (place + 1) * links] for place, name in enumerate(names)}
    return {
        "states": states or None,
        **{name: values for name, values in counters.items() if any(value is not None for value in values)},
    }


def _mig(gpu: Gpu) -> Values:
    mode = gpu.ask("MigMode") or (None, None)
    devices = {}
    if mode[0]:
        for index in range(gpu.ask("MaxMigDeviceCount") or 0):
            handle = gpu.ask("MigDeviceHandleByIndex", index)
            if handle is not None:
                device = Gpu(gpu.nvml, handle)
                instances = {
                    "gpu_instance": device.ask("GpuInstanceId"),
                    "compute_instance": device.ask("ComputeInstanceId"),
                }
                devices[device.ask("UUID") or f"index {index}"] = instances
                gpu.errors.update(device.errors)
    return {"mode": mode[0], "pending_mode": mode[1], "devices": devices}


def _fabric(gpu: Gpu) -> Values | None:
    # Version 3 came with driver 580.
    info = gpu.ask_structure("GpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t")
    summary = None if info is None else info.healthSummary
    info = info or gpu.ask_structure("GpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t")
    if info is None:
        return None
    return {
        "state": info.state & 0xFF,  # pynvml makes an int of NVML's unsigned char
        "status": info.status,
        "clique": info.cliqueId,
        "cluster": bytes(info.clusterUuid).hex(),
        "health_mask": info.healthMask,
        "health_summary": summary,
    }


def _processes(gpu: Gpu) -> Values | None:
    """pid → what it holds of the GPU's memory, in bytes; None where that is not told (MIG)."""
    compute, graphics = gpu.ask("ComputeRunningProcesses_v3"), gpu.ask("GraphicsRunningProcesses_v3")
    if compute is None and graphics is None:
        return None
    return {str(process.pid): process.usedGpuMemory for process in (*(compute or ()), *(graphics or ()))}


def _persistence(gpu: Gpu) -> int | None:
    """1 where the driver keeps the GPU started although nobody uses it."""
    mode: int | None = gpu.ask("PersistenceMode")
    return mode


_PARTS: dict[str, Callable[[Gpu], Any]] = {
    "persistence": _persistence,
    "ecc": _ecc,
    "rows": _rows,
    "pages": _pages,
    "repair": _repair,
    "clocks": _clocks,
    "temperature": _temperature,
    "power": _power,
    "pcie": _pcie,
    "mig": _mig,
    "fabric": _fabric,
    "processes": _processes,
}


def read(gpu: Gpu, progress: Callable[[str], None]) -> Values:
    """All but its identity, in parts; `progress` is told the part that comes next. Raises GpuGone."""
    values: Values = {}
    for part, ask in _PARTS.items():
        progress(part)
        values[part] = ask(gpu)
    progress("fields")
    for part, more in _fields(gpu).items():
        values[part] = {**values.get(part, {}), **more} if isinstance(more, dict) else more
    progress("nvlink")
    values["nvlink"].update(_nvlink(gpu, int(values["nvlink"]["links"] or 0)))
    values["errors"] = gpu.errors
    return values
