# SPDX-License-Identifier: Apache-2.0
"""`fi_info` of libfabric, with or without `-p efa`: the providers and their devices."""

from __future__ import annotations

import re

from stepguard.health.model import DeviceJudgement, Judgement, Status
from stepguard.health.tools.conclusion import CUT, Remark, conclude
from stepguard.health.tools.kind import bounded, lines

_PROVIDER = re.compile(r"\s{0,8}provider: ([a-z][a-z0-9_]{0,31})")
_PAIR = re.compile(r"\s{1,16}(fabric|domain|version|type|protocol): ?(.{0,200})$")
_FAILED = re.compile(r"fi_getinfo: (-?\d{1,4})(?: \((.{1,80})\))?")
# An EFA has an endpoint of each type: rdmap16s27-rdm, rdmap16s27-dgrm.
_ENDPOINT = re.compile(r"-(?:rdm|dgrm|direct)$")
# Providers that drive a network adapter for RDMA. The others work over sockets or within the host.
_OF_FABRIC = frozenset({"efa", "verbs", "cxi", "psm2", "psm3", "opx", "gni", "bgq"})
# errno: ENODATA is that no provider has a device; ENOMEM that memory could not be locked.
_ERRORS = {
    61: (Status.FAIL, "no provider has a device: the adapter or its driver is missing"),
    12: (Status.WARN, "memory could not be locked: see ulimit -l and huge pages"),
}


def recognizes(text: str) -> bool:
    before = ""
    for line in lines(text):
        if _FAILED.match(line) or (_PROVIDER.match(before) and _PAIR.match(line)):
            return True
        before = line
    return False


def read(text: str, exit_status: int | None) -> Judgement:
    devices: dict[str, DeviceJudgement] = {}
    others: set[str] = set()
    failed = []
    provider = ""
    whole = True
    for line in lines(text):
        if match := _PROVIDER.match(line):
            provider, whole = match[1], False
        elif match := _PAIR.match(line):
            if match[1] == "protocol" and match[2]:
                whole = True
                others |= {provider} - _OF_FABRIC
            if match[1] == "domain" and provider in _OF_FABRIC:
                name = _ENDPOINT.sub("", match[2].strip())
                devices[name] = DeviceJudgement(name, Status.OK, f"provider {provider}")
        elif match := _FAILED.match(line):
            failed.append(_error(int(match[1]), match[2] or ""))
    remarks = [] if whole else [CUT]
    if others and not devices:
        names = ", ".join(sorted(others)[:10])
        remarks.append(Remark(Status.WARN, f"no provider of a fabric, such as efa: traffic would go over {names}"))
    return conclude([*devices.values(), *failed], exit_status, remarks)


def _error(code: int, words: str) -> DeviceJudgement:
    status, reason = _ERRORS.get(abs(code), (Status.UNKNOWN, "libfabric could not list its providers"))
    return DeviceJudgement("libfabric", status, f"fi_getinfo: {code}{f' ({words})' if words else ''}: {reason}")


KIND = bounded("fi_info", recognizes, read)
