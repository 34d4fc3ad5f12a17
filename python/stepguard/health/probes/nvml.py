# SPDX-License-Identifier: Apache-2.0
"""The NVIDIA GPUs of the node, by NVML.

A GPU that does not answer is a finding, and the others are read all the same, by threads of their own.
A GPU that is lost keeps its place in the enumeration, where asking for it fails (koordinator-sh/koordinator#2706).
"""

from __future__ import annotations

import collections
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from stepguard.health.gpus import pci_address
from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.probes import nvml_reading as reading
from stepguard.health.probes.nvml_judging import judge
from stepguard.health.probes.report import conclude
from stepguard.health.probes.settings import Settings

NAME = "nvml"

# Of the deadline, so that what is known is told before the child is killed.
_SHARE_TO_READ = 0.8
# Threads that ask all at once take twice the processor time, as each call of NVML's gives up the interpreter's lock.
# So one reads on as long as it is quick, and each GPU that is left then has its own.
_ALONE_S = 0.02
_NO_PERMISSION, _DRIVER_NOT_LOADED, _LIBRARY_NOT_FOUND, _VERSION_MISMATCH = 4, 9, 12, 18
_NOT_HERE = {
    _DRIVER_NOT_LOADED: "the driver is not loaded",
    _LIBRARY_NOT_FOUND: "the driver's library libnvidia-ml.so.1 is not installed",
}
_NVIDIA_DEVICE = re.compile(r"nvidia[0-9]{1,4}")


class _Reading:
    """One GPU while it is read, by its place in the enumeration or its UUID."""

    def __init__(self, place: int | str) -> None:
        self.place = place
        self.identity: dict[str, Any] = {}
        self.values: dict[str, Any] | None = None
        self.doing = "handle"
        self.gone = ""
        self.is_forbidden = False

    def run(self, nvml: reading.Nvml) -> None:
        try:
            by_index = isinstance(self.place, int)
            find = nvml.nvmlDeviceGetHandleByIndex if by_index else nvml.nvmlDeviceGetHandleByUUID
            gpu = reading.Gpu(nvml, find(self.place))
            self.doing = "identity"
            self.identity = reading.identity(gpu)
            self.values = reading.read(gpu, self._progress)
        except (nvml.NVMLError, reading.GpuGone) as error:
            self.gone = str(error)
            self.is_forbidden = getattr(error, "value", None) == _NO_PERMISSION

    def _progress(self, part: str) -> None:
        self.doing = part

    @property
    def device(self) -> str:
        """How a finding names it."""
        place = self.place if isinstance(self.place, str) else f"GPU {self.place}"
        return str(self.identity.get("uuid") or self.identity.get("pci") or place)

    @property
    def index(self) -> int | None:
        """Its place in NVML's enumeration."""
        known = self.identity.get("index")
        return self.place if known is None and isinstance(self.place, int) else known

    def findings(self) -> list[Finding]:
        if self.values is not None:
            return judge(self.device, self.values)
        if self.is_forbidden:
            return [Finding(Status.UNKNOWN, self.device, "not-readable", Action.CHECK, f"{self.doing}: {self.gone}")]
        if self.gone:
            # nvidia-smi: "GPU is lost. Reboot the system to recover this GPU".
            return [Finding(Status.FAIL, self.device, "gpu-lost", Action.REBOOT, f"{self.doing}: {self.gone}")]
        evidence = f"no answer, asked for: {self.doing}"
        return [Finding(Status.UNKNOWN, self.device, "gpu-hangs", Action.CHECK, evidence)]


def run(settings: Settings) -> Report:
    """Reads and judges the GPUs. OK without a GPU where none is expected."""
    import pynvml  # here alone: it takes 25 ms, and only the child needs it

    until_s = time.monotonic() + settings.deadline_s * _SHARE_TO_READ
    expected = _expected(settings)
    print("nvmlInit was called", file=sys.stderr, flush=True)  # the last that is heard where it does not return
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        driver = _driver(pynvml)
    except pynvml.NVMLError as error:
        return _no_nvml(error, expected)
    if not count and not _most(expected):
        return Report(NAME, Status.OK, "no NVIDIA GPU here", values=_values(driver, count, expected, []))
    readings = _read(pynvml, _places(settings, count), until_s)
    if _has_mig(readings) and settings.gpus is not None:
        # Slurm counts MIG devices then, and its indices are not NVML's: take all.
        readings = _read(pynvml, range(count), until_s)
    _name_lost(readings, settings)
    if _has_mig(readings):
        expected["gres"] = None  # Slurm counts MIG devices
    findings = [*_count(count, expected), *(finding for one in readings for finding in one.findings())]
    well = f"{len(readings)} GPU{'s' if len(readings) != 1 else ''}, no finding"
    return conclude(NAME, findings, well, _values(driver, count, expected, readings))


def _has_mig(readings: list[_Reading]) -> bool:
    return any(one.values and one.values["mig"]["mode"] for one in readings)


def _places(settings: Settings, count: int) -> list[int | str]:
    """Host indices are places on the PCI bus, in which order Slurm and NVML both count (gres.conf(5), AutoDetect)."""
    if settings.gpus is None:
        return list(range(count))
    return [int(gpu) if gpu.isdecimal() else gpu for gpu in settings.gpus]


def _read(nvml: reading.Nvml, places: Iterable[int | str], until_s: float) -> list[_Reading]:
    readings = [_Reading(place) for place in places]
    waiting = collections.deque(readings)

    def read_on() -> None:
        while waiting:
            try:
                one = waiting.popleft()
            except IndexError:  # another thread was faster
                return
            one.run(nvml)

    threads = [_started(read_on)]
    threads[0].join(_ALONE_S)
    threads += [_started(read_on) for _ in tuple(waiting)]
    for thread in threads:
        thread.join(max(0.0, until_s - time.monotonic()))
    return readings


def _started(run: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def _name_lost(readings: list[_Reading], settings: Settings) -> None:
    """A lost GPU does not tell which it is. The driver's list does, in NVML's order, if they agree on the others."""
    try:
        names = [path.name for path in Path(settings.driver_gpus).iterdir()]
    except OSError:
        return
    addresses = sorted(pci_address(name) for name in names)
    known = {one.index: one.identity["pci"] for one in readings if one.identity}
    if any(index is None or addresses[index : index + 1] != [pci] for index, pci in known.items()):
        return
    for one in readings:
        if not one.identity and one.index is not None and one.index < len(addresses):
            one.identity = {"pci": addresses[one.index]}


def _driver(nvml: reading.Nvml) -> dict[str, object]:
    calls = {
        "version": nvml.nvmlSystemGetDriverVersion,
        "nvml_version": nvml.nvmlSystemGetNVMLVersion,
        "cuda_version": nvml.nvmlSystemGetCudaDriverVersion,
    }
    told: dict[str, object] = {}
    for name, call in calls.items():
        try:
            told[name] = call()
        except nvml.NVMLError as error:
            if error.value in reading.GONE:
                raise
            told[name] = None
    return told


def _expected(settings: Settings) -> dict[str, int | None]:
    """How many GPUs there should be: by their device files, and by Slurm's configuration of the node.

    Within a job there are device files of GPUs that NVML must not tell it (cgroup.conf, ConstrainDevices).
    """
    if "SLURM_JOB_ID" in os.environ:
        return {"devices": None, "gres": None}
    devices: int | None
    try:
        devices = sum(1 for path in Path(settings.dev).iterdir() if _NVIDIA_DEVICE.fullmatch(path.name))
    except OSError:
        devices = 0
    return {"devices": devices, "gres": settings.gpus_expected}


def _most(expected: dict[str, int | None]) -> int:
    return max(count or 0 for count in expected.values())


def _count(count: int, expected: dict[str, int | None]) -> list[Finding]:
    wanted = ", ".join(
        f"{words} {expected[name]}"
        for name, words in (("gres", "Slurm has"), ("devices", "device files:"))
        if expected[name] is not None
    )
    if count < _most(expected):
        return [Finding(Status.FAIL, "", "gpu-count", Action.REBOOT, f"NVML finds {count}; {wanted}")]
    if expected["gres"] is not None and count > expected["gres"]:
        return [Finding(Status.WARN, "", "gpu-count", Action.CHECK, f"NVML finds {count}; {wanted}")]
    return []


def _no_nvml(error: Any, expected: dict[str, int | None]) -> Report:
    values: dict[str, object] = {"expected": expected}
    why = _NOT_HERE.get(error.value)
    if why and not _most(expected):
        return Report(NAME, Status.OK, f"no NVIDIA GPU here: {why}", values=values)
    if why:
        evidence = f"{why}; {_most(expected)} GPUs are expected"
        finding = Finding(Status.FAIL, "", "driver", Action.CHECK, evidence)
    elif error.value == _VERSION_MISMATCH:
        evidence = f"{error}: the driver was updated under the loaded one, reload it or reboot"
        finding = Finding(Status.FAIL, "", "driver-mismatch", Action.REBOOT, evidence)
    else:
        finding = Finding(Status.UNKNOWN, "", "driver", Action.CHECK, f"NVML does not start: {error}")
    return Report(NAME, finding.status, finding.evidence, [finding], values)


def _values(
    driver: dict[str, object], count: int, expected: dict[str, int | None], readings: list[_Reading]
) -> dict[str, object]:
    """`gpus` by UUID; `unread`: those that did not answer, with what is known of them."""
    return {
        "driver": driver,
        "count": count,
        "expected": expected,
        "gpus": {one.device: {**one.identity, **one.values} for one in readings if one.values is not None},
        "unread": [
            {
                "device": one.device,
                **one.identity,
                "index": one.index,
                "status": finding.status,
                "why": finding.evidence,
            }
            for one in readings
            if one.values is None
            for finding in one.findings()
        ],
    }
