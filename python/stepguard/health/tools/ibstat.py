# SPDX-License-Identifier: Apache-2.0
"""`ibstat` and `ibstatus`."""

from __future__ import annotations

import re

from stepguard.health.model import DeviceJudgement, Judgement, Status
from stepguard.health.tools.conclusion import Remark, conclude
from stepguard.health.tools.ib_port import Port, judge
from stepguard.health.tools.kind import bounded, lines
from stepguard.health.tools.values import number

_CA = re.compile(r"\s{0,16}CA:? '([^']{1,64})'\s*$")
_PORT = re.compile(r"\s{0,16}Port (\d{1,3}):\s*$")
_STATUS_PORT = re.compile(r"\s{0,16}Infiniband device '([^']{1,64})' port (\d{1,3}) status:")
_PAIR = re.compile(r"\s{0,32}([A-Za-z][A-Za-z _]{1,40}):\s{0,32}(.{0,200})$")
_NO_DEVICE = re.compile(
    r"(?:ibpanic: .{0,80}|Fatal error: .{0,80})(?:can't list|stat of|sys files not found|no (?:IB )?devices?).{0,200}",
    re.IGNORECASE,
)


def recognizes(text: str) -> bool:
    return any(pattern.match(line) for line in lines(text) for pattern in (_CA, _STATUS_PORT, _NO_DEVICE))


def read(text: str, exit_status: int | None) -> Judgement:
    reader = _Reader()
    failed = []
    for line in lines(text):
        reader.take(line)
        if match := _NO_DEVICE.match(line):
            failed.append(DeviceJudgement("adapters", Status.FAIL, match[0].strip()))
    if text.endswith("\n"):
        reader.take("")
    remarks = [Remark(Status.UNKNOWN, "no port is told")] if not reader.ports and not failed else []
    return conclude([*judge(reader.ports), *failed], exit_status, [*remarks, *reader.missing()])


class _Reader:
    def __init__(self) -> None:
        self.ports: list[Port] = []
        self._ca = ""
        self._type = ""
        self._expected: dict[str, int] = {}

    def missing(self) -> list[Remark]:
        """The adapters of which fewer ports are told than they have."""
        told: dict[str, int] = {}
        for port in self.ports:
            ca = port.name.split("/")[0]
            told[ca] = told.get(ca, 0) + 1
        return [
            Remark(Status.UNKNOWN, f"{ca}: {told.get(ca, 0)} of {count} ports are told")
            for ca, count in self._expected.items()
            if told.get(ca, 0) < count
        ]

    def take(self, line: str) -> None:
        # Both tools tell the rate after the states; a line after it says that it is whole.
        if self.ports and self.ports[-1].rate_gbps is not None:
            self.ports[-1].cut = False
        if match := _CA.match(line):
            self._ca, self._type = match[1], ""
            self._expected.setdefault(self._ca, 1)
        elif match := _PORT.match(line):
            self.ports.append(Port(f"{self._ca}/{match[1]}", group=self._type, cut=True))
        elif match := _STATUS_PORT.match(line):
            self.ports.append(Port(f"{match[1]}/{match[2]}", cut=True))
        elif match := _PAIR.match(line):
            self._pair(match[1].strip().lower(), match[2].strip())

    def _pair(self, name: str, value: str) -> None:
        port = self.ports[-1] if self.ports else None
        if name == "ca type":
            self._type = value
        elif name == "number of ports" and value.isdecimal():
            self._expected[self._ca] = int(value[:4])
        elif port is None:
            return
        elif name == "state":
            port.state = value
        elif name in ("physical state", "phys state"):
            port.physical = value
        elif name == "rate":
            port.rate_gbps = number(value)
        elif name == "link layer" and port.group:
            port.group = f"{port.group} {value}"


KIND = bounded("ibstat", recognizes, read)
