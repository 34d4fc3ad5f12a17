# SPDX-License-Identifier: Apache-2.0
"""`nvidia-smi -q`, whole or some of its displays (`-d ECC,ROW_REMAPPER,…`): indented text, one section a GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepguard.health.model import Judgement, Status
from stepguard.health.tools.conclusion import Remark, conclude
from stepguard.health.tools.kind import bounded, lines
from stepguard.health.tools.nvidia_errors import EXITS, errors
from stepguard.health.tools.nvidia_readings import gpu_of
from stepguard.health.tools.nvidia_rules import judge
from stepguard.health.tools.values import bus_id

_LOG = re.compile(r"={3,40}\s?NVSMI LOG\s?={3,40}")
_GPU = re.compile(r"GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\s*$")
_PAIR = re.compile(r"( {1,60})([^:\s][^:]{0,79}?)\s*:(?: (.*))?$")
_SECTION = re.compile(r"( {1,60})(\S[^:]{0,79}?)\s*$")
_ATTACHED = re.compile(r"Attached GPUs\s{0,60}: (\d{1,4})\s*$")
_WORDS = re.compile(r"[^a-z0-9]+")

Pairs = list[tuple[str, str]]


def recognizes(text: str) -> bool:
    """By its first line; by a GPU's own line followed by an indented one where that was left out."""
    before = ""
    for line in lines(text):
        if _LOG.match(line) or (_GPU.match(before) and (_PAIR.match(line) or _SECTION.match(line))):
            return True
        before = line
    return False


def read(text: str, exit_status: int | None) -> Judgement:
    sections, attached = _sections(text)
    full = any(name == "product_name" for _, pairs in sections for name, _ in pairs)
    cut = [full and not _is_whole(pairs) for _, pairs in sections]
    if any(cut[-1:]) and not text.endswith("\n"):
        # Where a report is cut, the last value may be half a one.
        del sections[-1][1][-1:]
    devices = [judge(gpu_of(device, pairs, one)) for (device, pairs), one in zip(sections, cut, strict=True)]
    failed = errors(lines(text))
    remarks = missing(attached, len({one.device for one in [*devices, *failed]}))
    return conclude([*devices, *failed], exit_status, remarks, EXITS)


def missing(attached: int | None, seen: int) -> list[Remark]:
    """What there is to say where fewer GPUs are told than are attached."""
    if attached is None or seen >= attached:
        return []
    return [Remark(Status.UNKNOWN, f"{seen} of {attached} attached GPUs are told")]


def _is_whole(pairs: Pairs) -> bool:
    """Whether a GPU's part of a full report, which begins with the product's name, has its end, the processes."""
    return any(name.startswith(("processes", "compute_processes")) for name, _ in pairs)


def _sections(text: str) -> tuple[list[tuple[str, Pairs]], int | None]:
    """Each GPU with its readings, by the paths of their sections; and how many GPUs are attached."""
    sections: list[tuple[str, Pairs]] = []
    attached = None
    path: list[tuple[int, str]] = []
    for line in lines(text):
        if _GPU.match(line):
            sections.append((bus_id(line) or line.strip(), []))
            path = []
        elif match := _ATTACHED.match(line):
            attached = int(match[1])
        elif sections:
            for name, value in _reading(line.expandtabs(4), path):
                sections[-1][1].append((name, value))
    return sections, attached


def _reading(line: str, path: list[tuple[int, str]]) -> Iterator[tuple[str, str]]:
    """The path and the value of a line, "" of a section's; `path` is that of the line before, with its indents."""
    match = _PAIR.match(line) or _SECTION.match(line)
    if match is None:
        return
    indent = len(match[1])
    while path and path[-1][0] >= indent:
        path.pop()
    path.append((indent, _WORDS.sub("_", match[2].lower()).strip("_")))
    yield "/".join(name for _, name in path), (match[3] or "") if match.re is _PAIR else ""


KIND = bounded("nvidia-smi-query", recognizes, read)
