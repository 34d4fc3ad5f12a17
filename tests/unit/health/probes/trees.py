# SPDX-License-Identifier: Apache-2.0
"""Trees of files as sysfs and procfs have them, and tools that say what a test wants."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from stepguard.health.model import Action, Report, Status

Told = list[tuple[str, str, Status, Action]]


def told(report: Report) -> Told:
    """Its findings, without evidence."""
    return [(one.device, one.what, one.status, one.action) for one in report.findings]


class Tree:
    """A root under which files are put by their path."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(exist_ok=True)

    def __str__(self) -> str:
        return str(self.root)

    def path(self, path: str) -> Path:
        return self.root / path.lstrip("/")

    def put(self, files: Mapping[str, object], under: str = "") -> None:
        for name, value in files.items():
            place = self.path(f"{under}/{name}")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{value}\n")

    def put_fifo(self, path: str) -> None:
        """A pipe in place of a file: whoever opens it as files are opened waits for ever."""
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        os.mkfifo(place)

    def put_pci(self, address: str, vendor: str, device: str, kind: str = "0x030200") -> None:
        self.put({"vendor": vendor, "device": device, "class": kind}, f"/sys/bus/pci/devices/{address}")

    def put_port(self, name: str, **values: object) -> None:
        """An InfiniBand port that is well, mlx5_0/1, but for these; `link_downed` and the like are counters."""
        device, port = name.split("/")
        here = f"/sys/class/infiniband/{device}"
        self.put({"fw_ver": "28.39.1002", "hca_type": "MT4129", "board_id": "MT_0000000838"}, here)
        self.put({"device/vendor": values.pop("vendor", "0x15b3")}, here)
        shown = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}
        shown["link_layer"] = "InfiniBand"
        attributes = {key: values.pop(key, value) for key, value in shown.items()}
        self.put(attributes, f"{here}/ports/{port}")
        hardware = {key: values.pop(key) for key in list(values) if key.startswith(("retrans", "rdma", "out_of"))}
        counters = {"link_downed": 0, "symbol_error": 0, "port_rcv_data": 0, **values}
        self.put(counters, f"{here}/ports/{port}/counters")
        self.put({"lifespan": 12, "packet_seq_err": 0, **hardware}, f"{here}/ports/{port}/hw_counters")

    def put_neuron(self, number: int, cores: int = 2, **counters: int) -> None:
        """A Neuron device that is well, but for these; one of a core is hw_error_1."""
        here = f"/sys/devices/virtual/neuron_device/neuron{number}"
        info = {"serial_number": f"{number:016x}", "architecture/arch_type": "v2", "architecture/device_name": "Trn1"}
        self.put({"core_count": cores, "reset": "", "connected_devices": "1, 2", "power/control": "auto"}, here)
        self.put(info, f"{here}/info")
        for name in ("mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected", "sram_ecc_uncorrected"):
            self._put_counter(f"{here}/stats/hardware/{name}", counters.get(name, 0))
        self._put_counter(f"{here}/stats/memory_usage/host_mem/tensors", 1 << 20)
        for core in range(cores):
            stats = f"{here}/neuron_core{core}/stats"
            for name in ("success", "failure", "timeout", "hw_error", "generic_error"):
                self._put_counter(f"{stats}/status/{name}", counters.get(f"{name}_{core}", 0))
            for name in ("reset_req_count", "reset_fail_count", "flop_count"):
                self._put_counter(f"{stats}/other_info/{name}", counters.get(f"{name}_{core}", 0))

    def _put_counter(self, place: str, count: int) -> None:
        self.put({"total": count, "present": count}, place)


def put_tool(directory: Path, name: str, script: str) -> None:
    """A program of that name, which is this script."""
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
