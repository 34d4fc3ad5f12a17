# SPDX-License-Identifier: Apache-2.0
"""The table of `dcgmi diag`.

Two columns. DCGM 2 and 3: `| PCIe | Fail - GPUs: 0, 2 |`, an empty name going on with other GPUs. DCGM 4: the test's
summary, then one line a device with an empty name, `GPU0: Pass`. Below come notes, `Warning`, `Warning: GPU0`, `Error`,
`Info`, broken after 45 characters in the middle of a word, their later lines without a name.
"""

from __future__ import annotations

import re

from stepguard.health.tools.conclusion import CUT, Remark
from stepguard.health.tools.dcgm_result import ALL_GPUS, NODE, Problem, Result
from stepguard.health.tools.kind import lines

_BEGIN = re.compile(r"Successfully ran diagnostic for group\.|\| Diagnostic {2,40}\| Result {2,60}\|")
_ROW = re.compile(r"\| (.{25}) \| (.{1,200}) ?\|\s*$")
_SECTION = re.compile(r"[|+]-{5} {2}(.{1,20}?) {2}-{1,20}\+-{10,80}[|+]\s*$")
_END = re.compile(r"\+-{10,40}\+-{10,80}\+\s*$")
_ITERATION = re.compile(r"Running iteration (\d{1,9}) of (\d{1,9})\.\.\.")
_GPUS = re.compile(r"(\w{1,10}) - GPUs?: ([\d, ]{1,80})")
_DEVICE = re.compile(r"([A-Za-z]{2,20}) ?(\d{1,5}): (\w{1,10})")
_NOTE = re.compile(r"(Warning|Error|Info)(?:: ?([A-Za-z]{2,20}) ?(\d{1,5}))?")
_NAMED = re.compile(r"\s?GPU (\d{1,4})(?!\d)")
# DCGM breaks them so (DATA_INFO_TAG_LEN of dcgmi/Diag.cpp, releases 2 to 4), though its column has a place more.
_NOTE_CHARS = 45


def begins(line: str) -> bool:
    """Whether the line is one that only this table has."""
    return _BEGIN.match(line) is not None


def read(text: str) -> tuple[list[Result], list[Remark]]:
    """The results, and what is to be said of the table itself."""
    table = _Table()
    for line in lines(text):
        table.take(line)
    return table.results(), [CUT] if table.begun and not table.ended else []


class _Table:
    def __init__(self) -> None:
        self.begun = self.ended = False
        self._results: list[Result] = []
        self._test: list[Result] = []
        self._more = False
        self._section = ""
        self._note: tuple[str, str, list[str]] | None = None

    def results(self) -> list[Result]:
        self._end_of_note()
        return [result for result in self._results if result.status]

    def take(self, line: str) -> None:
        if begins(line):
            self.begun, self.ended = True, False
        elif match := _ITERATION.match(line):
            self._more = int(match[1]) < int(match[2])
        elif match := _SECTION.match(line):
            self._end_of_note()
            self._section, self._test, self.ended = match[1].lower(), [], False
        elif match := _ROW.match(line):
            self.ended = False
            self._row(match[1].strip(), match[2])
        elif _END.match(line) and self._section:
            self.ended = not self._more

    def _row(self, name: str, value: str) -> None:
        if self._section in ("", "metadata"):
            return
        if match := _NOTE.fullmatch(name):
            self._end_of_note()
            self._note = (match[1], f"{match[2]} {match[3]}" if match[2] else "", [value])
        elif name:
            self._end_of_note()
            self._test = []
            self._statuses(name, value)
        elif self._note:
            self._note[2].append(value)
        elif self._test:
            self._statuses(self._test[0].test, value)

    def _statuses(self, test: str, value: str) -> None:
        if match := _GPUS.match(value):
            devices = [f"GPU {number}" for number in match[2].replace(" ", "").split(",") if number]
            added = [Result(device, test, match[1]) for device in devices or [NODE]]
        elif match := _DEVICE.match(value):
            added = [Result(f"{match[1]} {match[2]}", test, match[3])]
            # The summary said no more than its devices do.
            for result in self._test:
                if result.device == NODE and result.status.lower() in ("pass", added[0].status.lower()):
                    result.status = ""
        else:
            said = value.strip()
            added = [Result(ALL_GPUS if said.endswith("- All") else NODE, test, said or "no status")]
        self._test += added
        self._results += added

    def _end_of_note(self) -> None:
        if self._note and self._note[0] != "Info" and self._test:
            _, device, parts = self._note
            text = "".join(part.rstrip().ljust(_NOTE_CHARS) for part in parts)
            self._whose(device, text).problems.append(Problem(" ".join(text.split()), None))
        self._note = None

    def _whose(self, device: str, text: str) -> Result:
        """The result of the device that a note names, else of the first that did not pass, else the first."""
        told = [result for result in self._test if result.status]
        failed = [result for result in told if not result.status.lower().startswith(("pass", "skip"))]
        likely = [*failed, *told][0]
        named = _NAMED.match(text)
        device = device or (f"GPU {named[1]}" if named else likely.device)
        for result in told:
            if result.device == device:
                return result
        # DCGM 3 tells a test of the deployment, or of all GPUs alike, once.
        self._test.append(Result(device, likely.test, likely.status))
        self._results.append(self._test[-1])
        return self._test[-1]
