# SPDX-License-Identifier: Apache-2.0
"""`ibv_devinfo`, with or without -v."""

from __future__ import annotations

import re

from stepguard.health.model import DeviceJudgement, Judgement, Status
from stepguard.health.tools.conclusion import Remark, conclude
from stepguard.health.tools.ib_port import Port, judge
from stepguard.health.tools.kind import bounded, lines

_DEVICE = re.compile(r"hca_id:\s{1,16}(\S{1,64})\s*$")
_PAIR = re.compile(r"\s{1,32}([a-z_]{1,40}):\s{1,32}(.{1,200})$")
_NONE = re.compile(r"(?:No IB devices found|Failed to get IB devices list.{0,100})\s*$")


def recognizes(text: str) -> bool:
    return any(_DEVICE.match(line) or _NONE.match(line) for line in lines(text))


def read(text: str, exit_status: int | None) -> Judgement:
    ports: list[Port] = []
    failed = []
    missing: dict[str, int] = {}
    device = ""
    for line in lines(text):
        if match := _DEVICE.match(line):
            device = match[1]
            missing[device] = 1
        elif match := _PAIR.match(line):
            name, value = match[1], match[2].strip()
            if name == "phys_port_cnt" and value.isdecimal():
                missing[device] = int(value[:4])
            elif name == "port" and value.isdecimal():
                ports.append(Port(f"{device}/{value[:4]}", cut=True))
                missing[device] = missing.get(device, 1) - 1
            elif ports:
                _take(ports[-1], name, value)
        elif match := _NONE.match(line):
            failed.append(DeviceJudgement("adapters", Status.FAIL, match[0].strip()))
    remarks = [
        Remark(Status.UNKNOWN, f"{one}: {count} ports are not told") for one, count in missing.items() if count > 0
    ]
    return conclude([*judge(ports), *failed], exit_status, remarks)


def _take(port: Port, name: str, value: str) -> None:
    if name == "state":
        port.state = value
    elif name == "phys_state":
        port.physical = value
    elif name == "link_layer":
        # The last line of a port without -v.
        port.cut = False


KIND = bounded("ibv_devinfo", recognizes, read)
