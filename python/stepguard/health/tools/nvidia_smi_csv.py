# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi --query-gpu=… --format=csv`, and its like for remapped rows and retired pages.

The header says what the columns are. Without one (`noheader`) only a fault that stands in a column's place can be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from stepguard.health.model import DeviceJudgement, Judgement, Status
from stepguard.health.tools.conclusion import Remark, conclude
from stepguard.health.tools.kind import bounded, lines
from stepguard.health.tools.nvidia_errors import EXITS, errors
from stepguard.health.tools.nvidia_readings import gpu_of, knows
from stepguard.health.tools.nvidia_rules import judge
from stepguard.health.tools.values import bus_id, is_fault

_COLUMN = re.compile(r"([a-z][A-Za-z0-9_.]{0,79})(?: \[[A-Za-z/%]{1,8}\])?")
_OF_NVIDIA = re.compile(
    r"(?:ecc|clocks_throttle_reasons|clocks_event_reasons|clocks|memory|utilization|temperature|power|pcie?|retired_pages"
    r"|remapped_rows|mig|fan|fabric|inforom|reset_status|encoder|enforced)\.|gpu_|driver_version$|vbios_version$|pstate$"
    r"|compute_(?:mode|cap)$|persistence_mode$|used_gpu_memory$"
)
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_LONG_BUS_ID = re.compile(r"[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
_BRACKETED = re.compile(r"\[(?:N/A|Not Supported|Unknown Error|GPU is lost|GPU requires reset|Insufficient Perm\w+)\]")
# A line without a comma that may be a value: not a prompt, not the fence of a ticket.
_VALUE = re.compile(r"\s*[\w.:\[\]/-][\w.:\[\]/ -]*")
# In the order of preference.
_NAMES = ("pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid", "index")
# A prompt, or a line of the shell, before the header.
_LINES_BEFORE = 20
_UNNAMED = "its columns are not named: leave noheader out"


def recognizes(text: str) -> bool:
    return _begin(text) is not None


def read(text: str, exit_status: int | None) -> Judgement:
    columns, first = _begin(text) or ([], 0)
    # A loop (-l) repeats itself.
    rows = dict.fromkeys(line for line in islice(lines(text), first, None) if "," in line or _VALUE.fullmatch(line))
    failed = errors(lines(text))
    remarks = []
    if columns and not any(map(knows, columns)):
        remarks.append(Remark(Status.UNKNOWN, "no column tells of health"))
    if columns and not rows and not failed:
        remarks.append(Remark(Status.UNKNOWN, "no GPU is told"))
    return conclude([*_devices(columns, rows), *failed], exit_status, remarks, EXITS)


def _devices(columns: list[str], rows: Iterable[str]) -> Iterator[DeviceJudgement]:
    # Of processes nothing is read, whose names users choose.
    if "pid" in columns:
        return
    for place, row in enumerate(rows):
        fields = _fields(row)
        if errors([row]) or _is_header(fields):
            continue
        if not columns:
            yield _unnamed(fields, place)
            continue
        told = dict(zip(columns, fields, strict=False))
        device = next((_name(name, told[name]) for name in _NAMES if told.get(name)), f"GPU {place}")
        yield judge(gpu_of(device, told.items(), cut=len(fields) != len(columns)))


def _name(column: str, value: str) -> str:
    return f"GPU {value}" if column == "index" else bus_id(value) or value


def _unnamed(fields: list[str], place: int) -> DeviceJudgement:
    named = next((bus_id(one) or one for one in fields if _LONG_BUS_ID.fullmatch(one) or _UUID.fullmatch(one)), None)
    device = named or f"GPU {fields[0] if fields[0].isdigit() else place}"
    fault = next((one for one in fields if is_fault(one)), None)
    if fault:
        return DeviceJudgement(device, Status.FAIL, f"{fault.strip('[]')} in place of a reading")
    return DeviceJudgement(device, Status.UNKNOWN, _UNNAMED)


def _begin(text: str) -> tuple[list[str], int] | None:
    """The columns (none without a header) and the number of the first line of values; None where it is no such CSV."""
    for number, line in enumerate(lines(text)):
        if number > _LINES_BEFORE:
            break
        fields = _fields(line)
        if _is_header(fields):
            return [_column(field) for field in fields], number + 1
        if len(fields) > 1 and any(
            pattern.fullmatch(field) for field in fields for pattern in (_UUID, _LONG_BUS_ID, _BRACKETED)
        ):
            return [], number
    return None


def _is_header(fields: list[str]) -> bool:
    return bool(fields) and all(map(_COLUMN.fullmatch, fields)) and any(map(_OF_NVIDIA.match, fields))


def _column(field: str) -> str:
    return field.split(" ")[0].lower()


def _fields(line: str) -> list[str]:
    return [field.strip() for field in line.split(",", 400)] if line.strip() else []


KIND = bounded("nvidia-smi-csv", recognizes, read)
