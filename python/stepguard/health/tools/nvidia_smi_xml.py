# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi -q -x`: the same as XML.

Read with expat alone, from the root element on: what can declare an entity, of which a few nested ones fill any memory,
stands before it and is not read; nothing is fetched; the depth is bounded.
"""

from __future__ import annotations

import re
from itertools import islice, pairwise
from xml.parsers import expat

from stepguard.health.model import Judgement, Status
from stepguard.health.tools.conclusion import CUT, Remark, conclude
from stepguard.health.tools.kind import bounded, lines
from stepguard.health.tools.nvidia_errors import EXITS, errors
from stepguard.health.tools.nvidia_gpu import Gpu
from stepguard.health.tools.nvidia_readings import SKIPPED, gpu_of
from stepguard.health.tools.nvidia_rules import judge
from stepguard.health.tools.nvidia_smi_query import missing
from stepguard.health.tools.values import bus_id, number

_MAX_DEPTH = 32
_MAX_VALUE_CHARS = 4096
_MAX_DOCUMENTS = 1000
_SIGNATURE = re.compile(r"<!DOCTYPE nvidia_smi_log\b|<nvidia_smi_log\b")
_ROOT = re.compile(r"<nvidia_smi_log\b")


def recognizes(text: str) -> bool:
    return _SIGNATURE.search(text) is not None


def read(text: str, exit_status: int | None) -> Judgement:
    reports, remarks = _reports(text)
    devices = [*errors(lines(text)), *(judge(gpu) for report in reports for gpu in report.known())]
    return conclude(devices, exit_status, remarks, EXITS)


def gpus(text: str) -> list[Gpu]:
    """The GPUs that it tells of; of a loop, each as often as it is told."""
    return [gpu for report in _reports(text)[0] for gpu in report.known()]


def _reports(text: str) -> tuple[list[_Report], list[Remark]]:
    # A loop (-l) prints one document after the other.
    starts = [match.start() for match in islice(_ROOT.finditer(text), _MAX_DOCUMENTS + 1)]
    remarks = [] if 0 < len(starts) <= _MAX_DOCUMENTS else [CUT]
    reports = []
    for start, end in pairwise([*starts[:_MAX_DOCUMENTS], len(text)]):
        report = _Report()
        remarks += report.parse(text[start:end])
        remarks += missing(report.attached, len(report.gpus))
        reports.append(report)
    return reports, remarks


class _TooDeep(Exception):
    """The document is deeper than nvidia-smi ever writes."""


class _Report:
    """The GPUs of a document: name, readings by the path of their elements below <gpu>, whether it is cut."""

    def __init__(self) -> None:
        self.gpus: list[tuple[str, list[tuple[str, str]], bool]] = []
        self.attached: int | None = None
        self._path: list[str] = []
        self._value = ""
        self._ended = False

    def known(self) -> list[Gpu]:
        return [gpu_of(device, readings, cut) for device, readings, cut in self.gpus]

    def parse(self, document: str) -> list[Remark]:
        """What there is to say of the document itself; the GPUs that were read before a fault in it stay."""
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        try:
            parser.Parse(document.encode("utf-8", "surrogateescape"), True)
        except _TooDeep:
            return [Remark(Status.UNKNOWN, f"not from nvidia-smi: more than {_MAX_DEPTH} elements deep")]
        except (expat.ExpatError, UnicodeEncodeError) as error:
            # What comes after the document's end, as a prompt, does not matter.
            return [] if self._ended else [Remark(Status.UNKNOWN, f"cut, or not well-formed XML: {error}")]
        return []

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._value = ""
        if len(self._path) > _MAX_DEPTH:
            raise _TooDeep
        if self._path[1:] == ["gpu"]:
            given = attributes.get("id", "")
            # Until its end is seen the GPU is cut.
            self.gpus.append((bus_id(given) or given or f"GPU {len(self.gpus)}", [], True))

    def _text(self, text: str) -> None:
        if len(self._value) < _MAX_VALUE_CHARS:
            self._value += text[:_MAX_VALUE_CHARS]

    def _end(self, name: str) -> None:
        path, value = self._path[1:], self._value.strip()
        if path == ["attached_gpus"]:
            told = number(value)
            self.attached = None if told is None else int(told)
        elif path == ["gpu"]:
            device, readings, _ = self.gpus[-1]
            self.gpus[-1] = (device, readings, False)
        elif path[:1] == ["gpu"] and value and path[1] not in SKIPPED:
            self.gpus[-1][1].append(("/".join(path[1:]), value))
        self._value = ""
        self._path.pop()
        self._ended = not self._path


KIND = bounded("nvidia-smi-xml", recognizes, read)
