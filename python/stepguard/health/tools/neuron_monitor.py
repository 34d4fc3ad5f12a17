# SPDX-License-Identifier: Apache-2.0
"""`neuron-monitor`: one JSON report a line (Neuron Monitor user guide).

What bears on health: the ECC counters of each device since the driver was loaded, the errors of executions in the
period, and what the tool could not collect.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from stepguard.health.model import DeviceJudgement, Judgement, Status
from stepguard.health.tools.conclusion import CUT, Remark, conclude
from stepguard.health.tools.json_text import first_document, items, mapping, text_of, whole_number
from stepguard.health.tools.kind import bounded, lines
from stepguard.health.tools.neuron_instances import missing

_SIGNATURE = re.compile(r'"(?:neuron_runtime_data|neuron_hardware_info|neuron_hw_counters)"\s{0,8}:')
_UNCORRECTED = ("mem_ecc_uncorrected", "sram_ecc_uncorrected")
_REPAIRABLE = "mem_ecc_repairable_uncorrected"
# Errors of the device; all others are of the program, its model or its input.
_HARDWARE = "hardware"
_OUTCOMES = ("completed_with_err", "completed_with_num_err", "timed_out", "incorrect_input", "failed_to_queue")


def recognizes(text: str) -> bool:
    return _SIGNATURE.search(text) is not None


def read(text: str, exit_status: int | None) -> Judgement:
    devices: list[DeviceJudgement] = []
    remarks: list[Remark] = []
    reports, whole = _reports(text)
    for report in reports:
        devices += _counters(report)
        devices += _executions(report)
        remarks += _of_node(report)
    if not whole:
        remarks.append(CUT)
    elif not devices and not remarks:
        remarks.append(Remark(Status.UNKNOWN, "no counters of a device in it"))
    return conclude(devices, exit_status, remarks)


def _reports(text: str) -> tuple[list[dict[str, object]], bool]:
    """The reports, and whether all of them could be read."""
    reports = []
    whole = True
    for line in lines(text):
        if line.startswith("{"):
            try:
                reports.append(mapping(json.loads(line)))
            except (ValueError, RecursionError):
                whole = False
    # A report that somebody has laid out over many lines.
    if not reports and (document := mapping(first_document(text))):
        return [document], True
    return reports, whole and bool(reports)


def _counters(report: dict[str, object]) -> Iterator[DeviceJudgement]:
    counters = mapping(mapping(report.get("system_data")).get("neuron_hw_counters"))
    for device in map(mapping, items(counters.get("neuron_devices"))):
        index = whole_number(device.get("neuron_device_index"))
        told = {name: whole_number(device.get(name)) for name in (*_UNCORRECTED, _REPAIRABLE)}
        bad = ", ".join(f"{name} {told[name]}" for name in _UNCORRECTED if told[name])
        if bad:
            status, reason = Status.FAIL, bad
        elif told[_REPAIRABLE]:
            status, reason = Status.WARN, f"{_REPAIRABLE} {told[_REPAIRABLE]}: repaired by a reset"
        elif any(told[name] is None for name in _UNCORRECTED):
            status, reason = Status.UNKNOWN, "its uncorrected ECC errors are not told"
        else:
            status, reason = Status.OK, "no uncorrected ECC error"
        yield DeviceJudgement("neuron" if index is None else f"neuron{index}", status, reason)


def _executions(report: dict[str, object]) -> Iterator[DeviceJudgement]:
    for runtime in map(mapping, items(report.get("neuron_runtime_data"))):
        stats = mapping(mapping(runtime.get("report")).get("execution_stats"))
        errors = {name: whole_number(count) or 0 for name, count in mapping(stats.get("error_summary")).items()}
        outcomes = mapping(stats.get("execution_summary"))
        told = [f"{name} errors {count}" for name, count in errors.items() if count]
        told += [f"{name} {outcomes[name]}" for name in _OUTCOMES if whole_number(outcomes.get(name))]
        if told:
            status = Status.FAIL if errors.get(_HARDWARE) else Status.WARN
            yield DeviceJudgement(f"pid {whole_number(runtime.get('pid'))}", status, ", ".join(told))


def _of_node(report: dict[str, object]) -> Iterator[Remark]:
    hardware = mapping(report.get("neuron_hardware_info"))
    if error := text_of(hardware.get("error")):
        yield Remark(Status.FAIL, f"no hardware can be read, is the driver loaded?: {error}")
    counters = mapping(mapping(report.get("system_data")).get("neuron_hw_counters"))
    if error := text_of(counters.get("error")):
        yield Remark(Status.UNKNOWN, f"the hardware counters could not be read: {error}")
    count = whole_number(hardware.get("neuron_device_count"))
    if count is not None:
        yield from missing(text_of(mapping(report.get("instance_info")).get("instance_type")), count)
        told = len(items(counters.get("neuron_devices")))
        if counters and told < count:
            yield Remark(Status.UNKNOWN, f"counters of {told} of {count} devices")


KIND = bounded("neuron-monitor", recognizes, read)
