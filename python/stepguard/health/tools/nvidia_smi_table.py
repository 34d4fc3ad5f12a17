# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi` without options: the table of drivers 450 to 580; its list (`-L`); and what it prints instead of either.

A GPU has two lines (three since MIG, driver 450) of three cells: name and bus, fan to power, utilization and MIG mode.
The table tells little of a GPU: that it answers, its temperature, and its volatile uncorrectable ECC errors.
"""

from __future__ import annotations

import re

from stepguard.health.model import DeviceJudgement, Judgement, Status
from stepguard.health.tools import nvidia_smi_csv, nvidia_smi_query, nvidia_smi_xml
from stepguard.health.tools.conclusion import Remark, conclude
from stepguard.health.tools.kind import bounded, lines
from stepguard.health.tools.nvidia_errors import EXITS, errors
from stepguard.health.tools.nvidia_gpu import Gpu
from stepguard.health.tools.nvidia_rules import judge
from stepguard.health.tools.values import bus_id, is_fault

_HEADER = re.compile(r"\|\s{1,8}NVIDIA-SMI\s{1,4}\S")
_LISTED = re.compile(r"GPU (\d{1,4}): .{1,120} \(UUID: GPU-[0-9a-f-]{36}\)")
_PROCESSES = re.compile(r"\|\s{1,8}(?:Compute p|P)rocesses:")
_RULE = re.compile(r"[+|][-=+]{10,}")
_FIRST = re.compile(r"\s*(\d{1,4})\s+\S")
_TEMPERATURE = re.compile(r"(?<!\w)(\d{1,3})C(?!\w)")
_MIG_DEVICE = re.compile(r"\s*(\d{1,4})(?:\s+\d{1,4}){3}\s*$")
_FAULT = re.compile(r"ERR!|Unknown Error|GPU is lost|GPU requires reset", re.IGNORECASE)
# What stands in the cells of a GPU's lines.
_TITLES = (
    ("name", "bus", "ECC errors"),
    ("fan, temperature, power", "memory", "utilization"),
    ("name", "memory", "MIG mode"),
)
# How many GPUs there are, a table does not tell: that no more come is known by what comes last, in every release.
_CUT = Remark(Status.UNKNOWN, "the table ends before the list of processes, with which it ends: more GPUs may follow")
_MIG_SRAM = "SRAM of MIG devices"
_OTHER_FORMS = (nvidia_smi_query.recognizes, nvidia_smi_xml.recognizes, nvidia_smi_csv.recognizes)


def recognizes(text: str) -> bool:
    if any(form(text) for form in _OTHER_FORMS):
        return False
    return any(_HEADER.match(line.strip()) or _LISTED.match(line) for line in lines(text)) or bool(errors(lines(text)))


def read(text: str, exit_status: int | None) -> Judgement:
    table = _Table()
    listed = []
    for line in lines(text):
        table.take(line.strip())
        if match := _LISTED.match(line):
            listed.append(DeviceJudgement(f"GPU {match[1]}", Status.UNKNOWN, "listed; its health is not told"))
    table.end()
    remarks = [_CUT] if table.cut else []
    if table.begun and not table.gpus:
        remarks.append(Remark(Status.UNKNOWN, "no GPU can be read from the table"))
    return conclude([*map(judge, table.gpus), *listed, *errors(lines(text))], exit_status, remarks, EXITS)


class _Table:
    """The tables of a text, line by line; nothing is read of the list of processes, whose names users choose."""

    def __init__(self) -> None:
        self.gpus: list[Gpu] = []
        self.begun = False
        self.cut = False
        self._open = False
        self._rows: list[str] = []
        self._by_index: dict[str, Gpu] = {}

    def take(self, line: str) -> None:
        if _HEADER.match(line):
            self.end()
            self.begun = self._open = True
            self._rows, self._by_index = [], {}
        elif not self._open:
            return
        elif _PROCESSES.match(line):
            self._open = False
        elif _RULE.match(line):
            self._end_of_rows()
        elif line.startswith("|"):
            self._rows.append(line)

    def end(self) -> None:
        """Nothing of this table comes any more."""
        if self._open:
            self.cut = True
            self._end_of_rows()

    def _end_of_rows(self) -> None:
        rows, self._rows = self._rows, []
        cells = _cells(rows[0]) if rows else []
        if len(cells) < 2:
            return
        device = bus_id(cells[1])
        if device and (match := _FIRST.match(cells[0])):
            gpu = _gpu(device, rows)
            self.gpus.append(gpu)
            self._by_index[match[1]] = gpu
        elif (match := _MIG_DEVICE.match(cells[0])) and match[1] in self._by_index:
            for row in rows:
                _take_mig_device(self._by_index[match[1]], _cells(row))


def _gpu(device: str, rows: list[str]) -> Gpu:
    cells = [_cells(row) for row in rows]
    # A line that the terminal has cut has lost its last cells.
    gpu = Gpu(device, cut=len(rows) < 2 or any(len(row) < 3 for row in cells))
    for titles, row in zip(_TITLES, rows, strict=False):
        for title, cell in zip(titles, row.split("|")[1:], strict=False):
            if _FAULT.search(cell):
                gpu.faults[title] = " ".join(cell.split())
    if len(cells[0]) > 2 and cells[0][2].strip().isdigit():
        gpu.ecc_uncorrected["all memories"] = int(cells[0][2].strip()[:18])
        gpu.told += 1
    if len(cells) > 1 and cells[1] and (match := _TEMPERATURE.search(cells[1][0])):
        gpu.temperature_c = float(match[1])
        gpu.told += 1
    return gpu


def _take_mig_device(gpu: Gpu, cells: list[str]) -> None:
    counts = cells[2].split() if len(cells) > 2 and _MIG_DEVICE.match(cells[0]) else []
    if len(counts) == 2 and counts[1].isdigit():
        gpu.ecc_uncorrected[_MIG_SRAM] = gpu.ecc_uncorrected.get(_MIG_SRAM, 0) + int(counts[1][:18])
        gpu.told += 1
    elif any(map(is_fault, counts)):
        gpu.faults["MIG device"] = " ".join(counts)


def _cells(row: str) -> list[str]:
    return row.split("|")[1:-1]


KIND = bounded("nvidia-smi", recognizes, read)
