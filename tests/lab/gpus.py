# SPDX-License-Identifier: Apache-2.0
"""GPUs for tests: a library (nvml/) that answers as libnvidia-ml.so.1 does, and the file that says what it answers.

    gpus = Gpus(directory, 8)                  eight GPUs as of an H200 node, all well
    gpus["gpu3.ecc.volatile.uncorrected"] = 2  any value, while a program has the library loaded
    gpus.environment                           for the program: it finds the library under NVML's name
    lab.set_daemon_environment("n1", gpus.environment)

Keys are those of the C files; one that is deleted is a value that the GPU does not support. How a call ends:

    gpu3.fails = 15            all calls about GPU 3 give this error (GPU_IS_LOST)
    gpu3.fails.nvmlDeviceGetX  one call; gpu3.field_fails.230: one field
    gpu3.hangs = nvmlDeviceGetX  it never returns; `*` is every call
    gpu3.crashes = …           it ends the program with SIGSEGV
    driver.fails, driver.hangs, driver.crashes   the same for calls about no device, nvmlInitWithFlags before all
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from lab.errors import LabError

_SOURCES = Path(__file__).with_name("nvml")
_LIBRARY = "libnvidia-ml.so.1"
_WARNINGS = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror")

# nvml.h, nvmlReturn_t
NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, GPU_IS_LOST, VERSION_MISMATCH, UNKNOWN_ERROR = 3, 4, 9, 15, 18, 999
XID = 8  # nvmlEventTypeXidCriticalError

_LINKS = 18
_DRIVER = {"driver.version": "580.95.05", "driver.nvml_version": "13.580.95.05", "driver.cuda_version": 13000}
# As an H200 of a driver 580 answers. Retired pages and the old temperature thresholds are not there on Hopper.
_H200: dict[str, object] = {
    "name": "NVIDIA H200",
    "vbios": "96.00.BC.00.02",
    "persistence": 1,
    "ecc.mode": 1,
    "ecc.pending": 1,
    **{f"ecc.{counter}.{kind}": 0 for counter in ("volatile", "aggregate") for kind in ("corrected", "uncorrected")},
    **{
        f"ecc.{counter}.{kind}.{location}": 0
        for counter, kind, location in itertools.product(
            ("volatile", "aggregate"), ("corrected", "uncorrected"), ("dram", "sram")
        )
    },
    **{f"sram.{age}.{kind}": 0 for age in ("volatile", "aggregate") for kind in ("parity", "secded", "corrected")},
    **{f"sram.buckets.{part}": 0 for part in ("l2", "sm", "pcie", "mcu", "other")},
    "sram.threshold_exceeded": 0,
    **{f"rows.{what}": 0 for what in ("corrected", "uncorrected", "pending", "failure")},
    "rows.histogram": "6144 0 0 0 0",
    "repair.channel_pending": 0,
    "repair.tpc_pending": 0,
    "repair.unrepairable_memory": 0,
    "clocks.reasons": 0x1,
    "temperature.gpu": 33,
    "temperature.margin": 52,
    "power.usage_mw": 76_000,
    "power.limit_mw": 700_000,
    "power.energy_mj": 4_000_000_000,
    "pcie.replays": 0,
    "pcie.width": 16,
    "pcie.width_max": 16,
    "pcie.generation": 5,
    "pcie.generation_max": 5,
    "mig.mode": 0,
    "mig.pending": 0,
    "mig.devices_max": 7,
    "fabric.state": 3,
    "fabric.status": 0,
    "fabric.clique": 0,
    "fabric.health_mask": 0x1AA,
    "fabric.summary": 1,
    "event_types": 0xFF8F,
    # Fields (NVML_FI_DEV_…) by number: throttling in ns, memory's temperature, links, PCIe, what to do with the GPU.
    **{f"field.{number}": 0 for number in (74, 76, 269, 270, 271)},
    "field.82": "44 u",
    "field.91": f"{_LINKS} u",
    **{f"field.{number}": "0 u" for number in (*range(173, 184), 230)},
    "field.193": "-8 i",
    "field.194": "-2 i",
    "field.195": "0 i",
    "field.196": "0 i",
    # Of each link: data link replay, recovery and CRC errors, and whether it is up.
    **{f"field.{number}.{link}": 0 for number in (161, 162, 163) for link in range(_LINKS)},
    **{f"link.{link}": 1 for link in range(_LINKS)},
}
# What replaces the counters of links on Blackwell (NVLink 5): errors of packets, discards, recoveries, FEC and symbols.
_BLACKWELL_LINK_FIELDS = (*range(206, 216), 219, 221)


def h200(number: int) -> dict[str, object]:
    """The values of one well GPU, under the keys of its number."""
    own = {
        "uuid": uuid(number),
        "serial": f"16542230{number:05}",
        "minor": number,
        "pci": f"00000000:{0x0F + 0x10 * number:02X}:00.0",
    }
    return {f"gpu{number}.{key}": value for key, value in {**own, **_H200}.items()}


def uuid(number: int) -> str:
    return f"GPU-{number:08x}-5a17-4c0e-9d3b-0b7f6a1e2c{number:02x}"


def build(directory: Path) -> Path:
    """Compiles the library into a directory, once. Raises LabError with what cc said."""
    library = directory / _LIBRARY
    if not library.exists():
        new = directory / f".{_LIBRARY}.{os.getpid()}"
        argv = ["cc", *_WARNINGS, "-shared", "-fPIC", "-O2", "-pthread", "-o"]
        argv += map(str, (new, *sorted(_SOURCES.glob("*.c"))))
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode != 0:
            raise LabError(f"cc ended with status {done.returncode}: {done.stderr}")
        new.rename(library)
    return library


class Gpus:
    """The GPUs of one host. Every change is seen by the next call of whoever has the library loaded."""

    def __init__(self, directory: Path, count: int = 8, library: Path | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._library = library or build(directory)
        self.file = directory / "nvml"
        self._numbers = list(range(count))
        self._values: dict[str, object] = dict(_DRIVER)
        self._events = 0
        for number in self._numbers:
            self._values.update(h200(number))
        self._write()

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self._library.parent), "LAB_NVML": str(self.file)}

    def __setitem__(self, key: str, value: object) -> None:
        self.update({key: value})

    def __getitem__(self, key: str) -> object:
        return self._values[key]

    def __delitem__(self, key: str) -> None:
        """From now on not supported: the key, and all that begin with it and a dot."""
        self._values = {name: value for name, value in self._values.items() if not f"{name}.".startswith(f"{key}.")}
        self._write()

    def update(self, values: Mapping[str, object]) -> None:
        """Several values at once."""
        self._values.update(values)
        self._write()

    def add(self, number: int) -> None:
        """One more GPU, well, at the end of the enumeration."""
        self._numbers.append(number)
        self.update(h200(number))

    def vanish(self, number: int) -> None:
        """It is enumerated no longer; whoever has its handle is told that it is lost."""
        self._numbers.remove(number)
        self._write()

    def lose(self, number: int) -> None:
        """It has fallen off the bus: it is enumerated, and every call about it fails."""
        self[f"gpu{number}.fails"] = GPU_IS_LOST

    def make_mig(self, number: int, devices: int) -> None:
        """MIG mode with so many devices; NVML then knows of no remapped rows (nvmlDeviceGetRemappedRows)."""
        del self[f"gpu{number}.rows"]
        mig = {
            f"gpu{number}.mig{device}.{key}": value
            for device in range(devices)
            for key, value in {
                "uuid": f"MIG-{number:08x}-{device:04x}-5b1d-8c5e-6f0a1d2e3c4b",
                "gpu_instance": device + 7,
                "compute_instance": 0,
            }.items()
        }
        self.update({f"gpu{number}.mig.mode": 1, f"gpu{number}.mig.pending": 1, **mig})

    def make_blackwell(self, number: int) -> None:
        """A B200: other counters of links, one that the driver has no name for included."""
        for field in (161, 162, 163):
            del self[f"gpu{number}.field.{field}"]
        links = {f"gpu{number}.field.{field}.{link}": 0 for field in _BLACKWELL_LINK_FIELDS for link in range(_LINKS)}
        self.update({f"gpu{number}.name": "NVIDIA B200", f"gpu{number}.pcie.generation_max": 6, **links})

    def happens(self, number: int, kind: int = XID, data: int = 79) -> None:
        """An event, for all event sets that there are: XID 79 on that GPU."""
        self[f"event{self._events}"] = f"{number} {kind} {data}"
        self._events += 1

    def _write(self) -> None:
        lines = [
            f"gpus = {' '.join(map(str, self._numbers))}",
            *(f"{key} = {self._values[key]}" for key in self._values),
        ]
        new = self.file.with_name(".nvml.new")
        new.write_text("\n".join(lines) + "\n")
        new.rename(self.file)
