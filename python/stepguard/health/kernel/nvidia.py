# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA driver: XIDs, a GPU that is gone without one, and the NVSwitch's SXIDs.

    NVRM: Xid (PCI:0000:0f:00): 79, pid=1234, name=python, GPU has fallen off the bus.
    NVRM: Xid (PCI:0000:0f:00 GPU-I:05): 94, …                   a MIG instance
    NVRM: Xid (0000:0f:00): 13, …                                before R343
    NVRM: GPU 0000:0f:00.0: GPU has fallen off the bus.          no number
    nvidia-nvswitch1: SXid (PCI:0000:c2:00.0): 20034, Fatal, Link 28 LTSSM Fault Up
    nvidia-nvswitch1: SXid (PCI:0000:c2:00.0): 20034, Severity 5 Engine instance 28 …    more of the same
    nvidia-nvswitch1: SXid (PCI:0000:c2:00.0): 20034, Data {0x00000000, …

Facts: NVIDIA's "Xid Messages" and the open kernel modules' nvlog, nvswitch and gpu sources.
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import XID_154, Catalogue, nvlink5
from stepguard.health.kernel.held_gpus import NONE_FOUND, held
from stepguard.health.kernel.sighting import PCI, Sighting, by_catalogue, pci_address
from stepguard.health.model import Action, FaultClass

_THE_GPU = "NVRM: The NVIDIA GPU "
NAMES_A_GPU = (
    _THE_GPU,
    "NVRM: This PCI I/O region ",
    "NVRM: BAR",
    "nvidia: probe of ",
    "nvidia ",
)
_XID_BODY = rf"Xid \((?:PCI:)?(?P<device>{PCI})(?: [^)\s]{{1,48}})?\): (?P<code>\d{{1,6}})(?=,|\s|$)"
_XID = re.compile(rf"(?:NVRM: )?{_XID_BODY}")
# A line end was lost between two messages. No name of a task has room for this.
_NEXT_XID = re.compile(rf"NVRM: {_XID_BODY}")
_MORE_CODE = re.compile(r", (?:Xid )?(?P<code>\d{1,3})(?=, |$)")
# Of what stands behind the number, no more is looked at.
_MAX_REST = 512
# The task may call itself anything, ", " and "Fatal" among it: all that can be its name is left out.
_TASK = re.compile(r", pid='?(?P<pid>\d{1,10}|<unknown>)'?(?:, name=.{0,15}(?=, |$))?", re.DOTALL)
_UNKNOWN_TASK = "<unknown>"
# Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address
_PLACE = re.compile(r"\(GPC (\d{1,3}), (?:CPC \d{1,3}, )?TPC (\d{1,3})\b")
# A client's version is 63 characters of its own choice: "NVRM: API mismatch: the client has the version …, but".
_NVRM = r"NVRM: (?!API mismatch)"
_GONE = re.compile(
    rf"{_NVRM}[^'\"]{{0,64}}(?:GPU has fallen off the bus|has fallen off the bus|NV_ERR_GPU_IS_LOST|GPU is lost)"
    rf"|(?:{_THE_GPU}{PCI}\s{{1,2}}(?:NVRM: )?\(PCI ID: [0-9a-f:]{{4,16}}\) installed in this system has\s{{1,2}})?"
    r"NVRM: (?:GPU )?fallen off the bus and is not responding"
)
_NOT_INITIALIZED = re.compile(rf"{_NVRM}[^'\"]{{0,64}}RmInitAdapter failed!")
_PROBE_FAILED = re.compile(
    r"NVRM: (?:The NVIDIA probe routine failed for \d{1,4} device|None of the NVIDIA devices were initialized)"
)
_NONE_FOUND = re.compile(r"NVRM: No NVIDIA (?:GPU found|devices probed)")
# Any program may bring a library of its own, and names itself and its version.
_API_MISMATCH = re.compile(r"NVRM: API mismatch: the client\b")
_DEVICE = re.compile(rf"\bGPU (?:at )?(?:PCI:)?(?P<device>{PCI})\b")
_NAMED = re.compile(
    rf"{_THE_GPU}(?:at )?(?:PCI:)?(?P<gpu>{PCI})\b"
    rf"|(?:NVRM: This PCI I/O region .{{0,64}}\n)?NVRM: BAR\d is \d{{1,9}}M @ 0x[0-9a-f]{{1,16}} \(PCI:(?P<bar>{PCI})\)"
    rf"|nvidia: probe of (?P<probed>{PCI}) failed|nvidia (?P<taken>{PCI}): probe with driver nvidia failed"
)
_OF_THE_DRIVER = {"probe-failed": _PROBE_FAILED, NONE_FOUND: _NONE_FOUND, "api-mismatch": _API_MISMATCH}
_SXID = re.compile(
    rf"(?:nvidia-nvswitch\d{{1,3}}: )?SXid \(PCI:(?P<device>{PCI})\): (?P<code>\d{{1,6}}), ?(?P<text>.{{0,64}})"
)
_SXID_DETAIL = re.compile(r"Severity \d|Data \{")


def xids(text: str, catalogue: Catalogue) -> list[Sighting]:
    """The XIDs of a line, two when it names two, or a GPU that is gone without one."""
    first = _XID.match(text)
    if not first:
        return _without_number(text, catalogue)
    found = [first, *_NEXT_XID.finditer(text, first.end())]
    sightings = []
    for position, match in enumerate(found):
        end = found[position + 1].start() if position + 1 < len(found) else len(text)
        rest = text[match.end() : min(end, match.end() + _MAX_REST)]
        device = pci_address(match["device"])
        sightings.append(_xid(int(match["code"]), device, rest, catalogue))
        if (more := _MORE_CODE.match(rest)) and catalogue.lookup("xid", int(more["code"])).is_known:
            sightings.append(_xid(int(more["code"]), device, rest[more.end() :], catalogue))
    return sightings


def _xid(code: int, device: str, rest: str, catalogue: Catalogue) -> Sighting:
    entry = catalogue.lookup("xid", code)
    fault_class, action = entry.fault_class, entry.action
    task = _TASK.match(rest)
    rest = rest[task.end() :] if task else rest
    if code in nvlink5.XIDS and "sub-code" in entry.overridden_by:
        if sub_code := nvlink5.sub_code(code, rest):
            fault_class, action = sub_code.fault_class, sub_code.action
    elif code == nvlink5.RECOVERY_XID and "recovery" in entry.overridden_by:
        fault_class, action = nvlink5.recovery(rest) or (fault_class, action)
    place = _PLACE.search(rest) if entry.repeats else None
    return Sighting(
        "xid",
        code,
        device,
        fault_class,
        action,
        pid=task["pid"] if task and task["pid"] != _UNKNOWN_TASK else "",
        place=".".join(place.groups()) if place else "",
        is_overridable=XID_154 in entry.overridden_by,
        recovers=code == nvlink5.RECOVERY_XID,
    )


def _without_number(text: str, catalogue: Catalogue) -> list[Sighting]:
    for name, pattern in _OF_THE_DRIVER.items():
        if pattern.match(text):
            # Of the device itself the kernel's driver core tells, just before.
            return [by_catalogue(catalogue, "xid", name, "", is_detail=name == "probe-failed")]
    if found_held := held(text, catalogue):
        return found_held
    code = "gone" if _GONE.match(text) else "not-initialized" if _NOT_INITIALIZED.match(text) else ""
    if not code:
        return []
    device = _DEVICE.search(text)
    found = by_catalogue(catalogue, "xid", code, pci_address(device["device"]) if device else "")
    return [found._replace(code=None, row=code)]


def named_gpu(text: str) -> str:
    """The GPU that a line of the driver names, for lines that follow and name none; "" for another line."""
    found = _NAMED.match(text) if text.startswith(NAMES_A_GPU) else None
    return pci_address(found[found.lastgroup or 0]) if found else ""


def sxids(text: str, catalogue: Catalogue) -> list[Sighting]:
    """The SXID of a line. The line's own word, Fatal or Non-fatal, decides where the catalogue lists the code as fatal
    and where it does not know it."""
    found = _SXID.match(text)
    if not found:
        return []
    entry = catalogue.lookup("sxid", int(found["code"]))
    fault_class, action = entry.fault_class, entry.action
    words = found["text"]
    if words.startswith("Non-fatal") and "severity" in entry.overridden_by:
        fault_class, action = FaultClass.NETWORK, Action.CHECK
    elif words.startswith("Fatal") and not entry.is_known:
        fault_class, action = FaultClass.REBOOT, Action.REBOOT
    device, is_detail = pci_address(found["device"]), _SXID_DETAIL.match(words) is not None
    return [Sighting("sxid", int(found["code"]), device, fault_class, action, is_detail=is_detail)]
