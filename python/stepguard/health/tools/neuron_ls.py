# SPDX-License-Identifier: Apache-2.0
"""`neuron-ls`: the table and the JSON (`-j`).

It tells which devices the driver has found and how they are connected, nothing of their state: a device is well when it
is there with all its cores and all that it is connected to is there too.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from stepguard.health.model import DeviceJudgement, Judgement, Status
from stepguard.health.tools.conclusion import CUT, Remark, conclude
from stepguard.health.tools.json_text import first_document, items, mapping, text_of, whole_number
from stepguard.health.tools.kind import bounded, lines
from stepguard.health.tools.neuron_instances import missing

_TITLE = re.compile(r"\| NEURON {1,6}\| NEURON {1,8}\|")
_JSON = re.compile(r'"neuron_device"\s{0,8}:')
_RULE = re.compile(r"\+-{4,}")
_INSTANCE = re.compile(r"instance-type: (\S{1,40})\s*$")
_ERROR = re.compile(
    r"(?:neuron-ls: .{0,80}|.{0,40})(?:no neuron devices? (?:found|detected|available)"
    r"|neuron driver (?:is )?not (?:loaded|installed|found|running)).{0,100}",
    re.IGNORECASE,
)


class _Device(NamedTuple):
    number: int
    cores: int | None
    connected: tuple[int, ...]


def recognizes(text: str) -> bool:
    return bool(_JSON.search(text)) or any(_TITLE.match(line) or _ERROR.match(line) for line in lines(text))


def read(text: str, exit_status: int | None) -> Judgement:
    errors = [DeviceJudgement("neuron", Status.FAIL, line.strip()) for line in lines(text) if _ERROR.match(line)]
    instance = next((match[1] for line in lines(text) if (match := _INSTANCE.match(line))), "")
    if _JSON.search(text):
        devices, remarks, instance = _read_json(text, instance)
    elif errors:
        devices, remarks = [], []
    else:
        devices, remarks = _read_table(text)
    if devices and not remarks:
        remarks = missing(instance, len(devices))
    return conclude([*_judge(devices, CUT not in remarks), *errors], exit_status, remarks)


def _judge(devices: list[_Device], whole: bool) -> list[DeviceJudgement]:
    present = {device.number for device in devices}
    usual = next(iter(Counter(device.cores for device in devices).most_common(1)), (None, 0))[0]
    judged = []
    for device in devices:
        absent = [index for index in device.connected if index not in present]
        if device.cores is None:
            status, reason = Status.UNKNOWN, "its cores are not told"
        elif absent and whole:
            status, reason = Status.FAIL, f"connected to device {', '.join(map(str, absent))}, which is not there"
        elif device.cores != usual:
            status, reason = Status.WARN, f"{device.cores} cores, the other devices {usual}"
        else:
            status, reason = Status.OK, f"{device.cores} cores"
        judged.append(DeviceJudgement(f"neuron{device.number}", status, reason))
    return judged


def _read_json(text: str, instance: str) -> tuple[list[_Device], list[Remark], str]:
    document = first_document(text)
    if document is None:
        return [], [CUT], instance
    root = mapping(document)
    listed = items(document) or next((items(value) for value in root.values() if items(value)), [])
    devices = []
    for entry in map(mapping, listed):
        index = whole_number(entry.get("neuron_device"))
        if index is not None:
            connected = [number for number in map(whole_number, items(entry.get("connected_to"))) if number is not None]
            devices.append(_Device(index, whole_number(entry.get("nc_count")), tuple(connected)))
    instance = text_of(root.get("instance_type", root.get("instance-type"))) or instance
    remarks = [] if devices else [Remark(Status.UNKNOWN, "JSON of a shape that is not known: no device in it")]
    return devices, remarks, instance


def _read_table(text: str) -> tuple[list[_Device], list[Remark]]:
    """The table's title has two lines; a device with several processes has a line for each, without its number."""
    devices: list[_Device] = []
    titles: list[list[str]] = []
    rules = 0
    ended = False
    for line in lines(text):
        if _RULE.match(line):
            rules += 1
            ended = rules > 2
        elif line.startswith("|"):
            ended = False
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if rules < 2:
                titles.append(cells)
            elif cells and cells[0].isdecimal():
                devices.append(_row(_columns(titles), cells))
    return devices, [] if ended and devices else [CUT]


def _columns(titles: list[list[str]]) -> list[str]:
    return [" ".join(part for part in parts if part) for parts in zip(*titles, strict=False)]


def _row(columns: list[str], cells: list[str]) -> _Device:
    told = dict(zip(columns, cells, strict=False))
    connected = [whole_number(part.strip()) for part in told.get("CONNECTED DEVICES", "").split(",")]
    return _Device(
        int(cells[0][:6]),
        whole_number(told.get("NEURON CORES")),
        tuple(number for number in connected if number is not None),
    )


KIND = bounded("neuron-ls", recognizes, read)
