# SPDX-License-Identifier: Apache-2.0
"""What nvidia-smi prints and ends with when it cannot answer, whichever form it was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from stepguard.health.model import DeviceJudgement, Status
from stepguard.health.tools.conclusion import Remark
from stepguard.health.tools.values import bus_id

_DRIVER = "driver"
_WORDS = re.compile(r"Unable to |GPU is lost|infoROM|NVML|No devices were|NVIDIA-SMI|nvidia-smi")
_HANDLE = re.compile(r"Unable to .{1,60}? for (gpu\s?.{0,40}?): (\D.*)", re.IGNORECASE)
_LOST = re.compile(r"\s*(?:GPU\s?)?[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]: (GPU is lost.*)")
_INFOROM = re.compile(r"WARNING: infoROM is corrupted at gpu (\S{7,16})")
_NVML = re.compile(r"Failed to initialize NVML: (.*)")
_WHOLE = (
    (re.compile(r"No devices were found\.?$"), Status.FAIL, "the driver sees no GPU"),
    (
        re.compile(r"NVIDIA-SMI has failed because it couldn[^ ]{1,3}t communicate with the NVIDIA driver"),
        Status.FAIL,
        "no NVIDIA driver answers: not loaded, or not built for this kernel",
    ),
    (re.compile(r"NVIDIA-SMI couldn[^ ]{1,3}t find libnvidia-ml"), Status.FAIL, "the driver is not installed"),
    (
        re.compile(r".{0,80}nvidia-smi: (?:command )?not found|.{0,80}command not found: nvidia-smi"),
        Status.UNKNOWN,
        "nvidia-smi is not installed",
    ),
)
# What NVML says when it cannot start → how bad that is, what to do.
_NVML_ERRORS = {
    "driver/library version mismatch": (Status.FAIL, "an older driver is still loaded: reload it or reboot"),
    "driver not loaded": (Status.FAIL, "load the driver"),
    "gpu is lost": (Status.FAIL, "reboot the node"),
    "unknown error": (Status.FAIL, "the driver does not answer, or a container has lost its devices"),
}
# nvidia-smi(1), RETURN VALUE.
EXITS = {
    4: Remark(Status.UNKNOWN, "nvidia-smi ended with 4: no permission"),
    8: Remark(Status.FAIL, "nvidia-smi ended with 8: a GPU's power cables are not attached"),
    9: Remark(Status.FAIL, "nvidia-smi ended with 9: the driver is not loaded"),
    10: Remark(Status.FAIL, "nvidia-smi ended with 10: the kernel has an interrupt issue with a GPU"),
    12: Remark(Status.FAIL, "nvidia-smi ended with 12: the driver's library was not found"),
    14: Remark(Status.WARN, "nvidia-smi ended with 14: an infoROM is corrupted"),
    15: Remark(Status.FAIL, "nvidia-smi ended with 15: a GPU has fallen off the bus or is not accessible"),
}


def errors(lines: Iterable[str]) -> list[DeviceJudgement]:
    """The devices, or the driver, of which the lines say that they do not answer."""
    return [error for line in lines for error in _error(line.strip())]


def _error(line: str) -> Iterator[DeviceJudgement]:
    # A process's name, which a user chooses, is never at the beginning of a line.
    if line.startswith("|") or not _WORDS.search(line):
        return
    if match := _HANDLE.match(line):
        status = Status.UNKNOWN if "permission" in match[2].lower() else Status.FAIL
        yield DeviceJudgement(bus_id(match[1]) or match[1], status, f"does not answer: {match[2].strip()}")
    elif match := _LOST.match(line):
        yield DeviceJudgement(bus_id(line) or "GPU", Status.FAIL, match[1].strip())
    elif match := _INFOROM.match(line):
        yield DeviceJudgement(bus_id(match[1]) or match[1], Status.WARN, "its infoROM is corrupted")
    elif match := _NVML.match(line):
        said = match[1].strip()
        status, words = _NVML_ERRORS.get(said.lower(), (Status.UNKNOWN, "nothing is told of the GPUs"))
        yield DeviceJudgement(_DRIVER, status, f"NVML does not start: {said}: {words}")
    else:
        for pattern, status, reason in _WHOLE:
            if pattern.match(line):
                yield DeviceJudgement(_DRIVER, status, reason)
