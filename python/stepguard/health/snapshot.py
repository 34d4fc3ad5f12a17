# SPDX-License-Identifier: Apache-2.0
"""How a node was at one moment: what probes read, in the shape that is kept in a job's record.

{"schema": 1, "at_s": seconds since 1970, "boot_id": …, "uptime_s": CLOCK_BOOTTIME,
 "gpus": {UUID: values of probes.nvml_reading} or null where they are not known,
 "unread": [GPUs that did not answer: {"device", "index", "status", "why", …}],
 "shared": {probe: what it read of the node as a whole},
 "probes": {probe: {"status", "reason"}},
 "findings": [{"status", "device", "what", "action", "evidence"}]}
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stepguard.health.model import Report

SCHEMA = 1

Snapshot = dict[str, Any]

GPU_PROBE = "nvml"
_OF_GPUS = frozenset({"gpus", "unread"})
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_INDICES = re.compile(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*")
_MAX_GPUS = 1024


def take(reports: Iterable[Report], gpus: Iterable[str] | None = None) -> Snapshot:
    """The snapshot of now, from reports that have just come. `gpus`: of these alone, by UUID, PCI address or index."""
    boot_id = _BOOT_ID.read_text().strip()
    return build(reports, gpus, time.time(), time.clock_gettime(time.CLOCK_BOOTTIME), boot_id)


def build(
    reports: Iterable[Report], gpus: Iterable[str] | None, at_s: float, uptime_s: float, boot_id: str
) -> Snapshot:
    """The same of any time."""
    reports = list(reports)
    of_gpus: Mapping[str, Any] = next((report.values for report in reports if report.probe == GPU_PROBE), {})
    known = of_gpus.get("gpus")
    wanted = None if gpus is None else set(gpus)
    if wanted and _has_mig(known) and any(one.isdecimal() for one in wanted):
        wanted = None
    unread = [one for one in of_gpus.get("unread", ()) if _is_wanted(one["device"], one, wanted)]
    kept = {uuid: one for uuid, one in (known or {}).items() if _is_wanted(uuid, one, wanted)}
    left_out = {*(known or {}), *(one["device"] for one in of_gpus.get("unread", ()))} - {
        *kept,
        *(one["device"] for one in unread),
    }
    return {
        "schema": SCHEMA,
        "at_s": at_s,
        "boot_id": boot_id,
        "uptime_s": uptime_s,
        "gpus": None if known is None else kept,
        "unread": unread,
        "shared": {
            report.probe: {name: value for name, value in report.values.items() if name not in _OF_GPUS}
            for report in reports
        },
        "probes": {report.probe: {"status": report.status, "reason": report.reason} for report in reports},
        "findings": [
            dataclasses.asdict(finding)
            for report in reports
            for finding in report.findings
            if finding.device not in left_out
        ],
    }


def job_gpus(indices: str) -> tuple[str, ...] | None:
    """The host indices in a SLURM_JOB_GPUS, which is "0,1" or "0-3"; None, all GPUs, where it is anything else."""
    if not indices:
        return ()
    if not _INDICES.fullmatch(indices):
        return None
    ranges = [(int(first), int(last or first)) for first, _, last in (one.partition("-") for one in indices.split(","))]
    if any(last - first >= _MAX_GPUS for first, last in ranges):
        return None
    return tuple(str(index) for first, last in ranges for index in range(first, last + 1))


def same_gpus(snapshot: Snapshot) -> tuple[str, ...] | None:
    """The GPUs of a snapshot, to take a later one of the same; None: all. By UUID, for a GPU that leaves moves the
    indices of the others; by PCI address, where another may be then; by the name of one that is lost and tells no more
    than its place, which it keeps."""
    if snapshot["gpus"] is None:
        return None
    known = [*snapshot["gpus"].values(), *snapshot["unread"]]
    places = [one["pci"] for one in known if one.get("pci")]
    return (*snapshot["gpus"], *(one["device"] for one in snapshot["unread"]), *places, *map(_nameless, known))


def _nameless(gpu: Mapping[str, Any]) -> str:
    """As the probe names it (probes.nvml)."""
    return f"GPU {gpu['index']}"


def _has_mig(gpus: Mapping[str, Any] | None) -> bool:
    # Slurm counts MIG devices then, and its indices are not those of GPUs.
    return any(gpu["mig"]["mode"] for gpu in (gpus or {}).values())


def _is_wanted(device: str, gpu: Mapping[str, Any], wanted: set[str] | None) -> bool:
    return wanted is None or bool(wanted & {device, gpu.get("pci"), str(gpu["index"])})
