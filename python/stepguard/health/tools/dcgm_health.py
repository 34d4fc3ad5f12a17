# SPDX-License-Identifier: Apache-2.0
"""`dcgmi health --check`: the table and the JSON (`-j`), and what any dcgmi prints when it finds no host engine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepguard.health.model import DeviceJudgement, Judgement, Status, worst
from stepguard.health.tools.conclusion import CUT, Remark, conclude
from stepguard.health.tools.json_text import first_document, items, mapping, text_of
from stepguard.health.tools.kind import bounded, lines

_TITLE = re.compile(r"\| {1,4}Health Monitor Report {2,}|Health Monitor Report\s*$")
_JSON = re.compile(
    r'"Health Monitor Report"|"body"\s{0,8}:\s{0,8}\{\s{0,8}"(?:GPU|NvSwitch|CPU|Overall Health)"\s{0,8}:'
)
_ERROR = re.compile(
    r"Error: (?:Unable to (?:check|get|set) health watches|Health watches not enabled"
    r"|[Uu]nable to (?:establish a connection|connect to host engine)).*"
)
_ROW = re.compile(r"\| (.{1,60}?) \| (.{1,200})\|\s*$")
_OVERALL = re.compile(r"\| {1,4}Overall Health:? {0,40}\|? {0,4}(\w{1,20}(?: \w{1,20})?) {0,80}\|")
_RULE = re.compile(r"\+[-=]{5,}")
_LABEL = re.compile(r"( *)(?:-> )?(\S.*?)\s*$")
_STATUSES = {"healthy": Status.OK, "warning": Status.WARN, "failure": Status.FAIL}

# Group, number of the entity, its health, and each system with its health and what is told of it.
System = tuple[str, str, str]


def recognizes(text: str) -> bool:
    return bool(_JSON.search(text)) or any(_TITLE.match(line) or _ERROR.match(line) for line in lines(text))


def read(text: str, exit_status: int | None) -> Judgement:
    remarks = [Remark(Status.UNKNOWN, line.strip()) for line in lines(text) if _ERROR.match(line)]
    if _JSON.search(text):
        devices, more = _read_json(text)
    elif remarks:
        devices, more = [], []
    else:
        devices, more = _read_table(text)
    return conclude(devices, exit_status, [*remarks, *more])


def _overall(said: str) -> Remark:
    status = _STATUSES.get(said.strip().lower(), Status.UNKNOWN)
    return Remark(status, f"overall health: {said.strip() or 'not told'}")


def _judged(device: str, said: str, systems: list[System]) -> DeviceJudgement:
    statuses = [_STATUSES.get(one.lower(), Status.UNKNOWN) for one in (said, *(health for _, health, _ in systems))]
    reasons = [f"{system}: {health}{': ' if told else ''}{told}" for system, health, told in systems]
    return DeviceJudgement(device, worst(statuses), "; ".join(reasons) or said)


# -- the table --------------------------------------------------------------------------------------------------------


def _read_table(text: str) -> tuple[list[DeviceJudgement], list[Remark]]:
    overall = None
    ended = False
    rows: list[tuple[str, str]] = []
    for line in lines(text):
        if match := _OVERALL.match(line):
            overall, ended = match[1], False
        elif match := _ROW.match(line):
            ended = False
            rows.append((match[1], match[2].strip()))
        elif _RULE.match(line):
            ended = overall is not None
    remarks = [_overall(overall or "")]
    return list(_entities(rows)), remarks if ended else [*remarks, CUT]


def _entities(rows: list[tuple[str, str]]) -> Iterator[DeviceJudgement]:
    """A tree: a group, below it `-> 0`, `   -> Errors`, `      -> Memory system`; a text without a label goes on."""
    group, entity, health = "", "", ""
    systems: list[System] = []
    for label, value in rows:
        match = _LABEL.match(label)
        if match is None:
            if systems:
                system, said, told = systems[-1]
                systems[-1] = (system, said, f"{told} {value}".strip())
            continue
        arrow = "-> " in label
        depth = len(match[1]) // 3
        if not arrow or depth == 0:
            if entity:
                yield _judged(f"{group} {entity}", health, systems)
            entity, health, systems = "", "", []
        if not arrow:
            group = match[2]
        elif depth == 0:
            entity, health = match[2], value
        elif match[2] != "Errors":
            systems.append((match[2], value, ""))
    if entity:
        yield _judged(f"{group} {entity}", health, systems)


# -- JSON -------------------------------------------------------------------------------------------------------------


def _read_json(text: str) -> tuple[list[DeviceJudgement], list[Remark]]:
    document = first_document(text)
    if document is None:
        return [], [CUT]
    body = mapping(mapping(document).get("body"))
    devices = []
    for group, node in body.items():
        if group != "Overall Health":
            for entity, one in mapping(mapping(node).get("children")).items():
                errors = mapping(mapping(mapping(mapping(one).get("children")).get("Errors")).get("children"))
                systems = [(system, _value(told), _overflow(told)) for system, told in errors.items()]
                devices.append(_judged(f"{group} {entity}", _value(one), systems))
    return devices, [_overall(_value(body.get("Overall Health")))]


def _value(node: object) -> str:
    return text_of(node) or text_of(mapping(node).get("value"))


def _overflow(node: object) -> str:
    return " ".join(text_of(part) for part in items(mapping(node).get("overflow")))[:1000]


KIND = bounded("dcgmi-health", recognizes, read)
