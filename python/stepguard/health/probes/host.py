# SPDX-License-Identifier: Apache-2.0
"""The node itself: memory, file systems, clock, processes that do not end, services, mounts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from stepguard.errors import ProcessError
from stepguard.health.model import Action, Finding, Report, Status
from stepguard.health.probes import host_processes, program
from stepguard.health.probes.file_systems import Usage, usage
from stepguard.health.probes.files import Tree
from stepguard.health.probes.report import conclude, unreadable
from stepguard.health.probes.settings import Settings
from stepguard.health.tools.conclusion import printable

NAME = "host"

_PROC_BYTES = 1 << 20
# Clocks that take a microsecond or more to read. The kernel falls back to them when it gives up the TSC
# (kernel-parameters, "tsc="; Documentation/timers).
_SLOW_CLOCKS = frozenset({"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit"})
_CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
_EDAC = "/sys/devices/system/edac/mc"
_SYSTEMD = "/run/systemd/system"
_SYSTEMCTL_S = 5.0


def run(settings: Settings) -> Report:
    """Judges the node. `values`: `memory`, `file_systems`, `clocksource`, `edac` by memory controller, and the rest."""
    tree = Tree(settings.root)
    memory = _memory(tree)
    used = {path: usage(tree.root + path) for path in settings.filesystems}
    file_systems = {path: one for path, one in used.items() if not one.is_missing}
    clock = tree.text(_CLOCK)
    edac = _edac(tree)
    processes, of_processes = host_processes.look(tree, settings)
    services, of_services = _services(tree, settings.services)
    findings = [
        *_judge_memory(memory, settings.memory_free_percent),
        *(finding for path, one in file_systems.items() for finding in _judge_file_system(path, one, settings)),
        *_judge_clock(clock),
        *_judge_edac(edac),
        *of_processes,
        *of_services,
        *_mounts(tree, settings.mounts),
        *unreadable(tree),
    ]
    values: dict[str, object] = {
        "memory": memory,
        "file_systems": {path: one._asdict() for path, one in file_systems.items()},
        "clocksource": clock,
        "edac": edac,
        "processes": processes,
        "services": services,
    }
    return conclude(NAME, findings, "no finding", values)


def _memory(tree: Tree) -> dict[str, int]:
    """In KiB."""
    told = {}
    for line in (tree.text("/proc/meminfo", _PROC_BYTES) or "").splitlines():
        name, _, value = line.partition(":")
        number = value.strip().partition(" ")[0]
        if name in ("MemTotal", "MemAvailable", "Shmem", "HardwareCorrupted") and number.isdecimal():
            told[name] = int(number)
    return told


def _judge_memory(memory: dict[str, int], free_percent: float) -> Iterator[Finding]:
    total, available = memory.get("MemTotal"), memory.get("MemAvailable")
    if not total or available is None:
        yield Finding(Status.UNKNOWN, "", "memory", Action.CHECK, "/proc/meminfo does not tell how much is free")
    elif available < total * free_percent / 100:
        evidence = f"{available >> 10} of {total >> 10} MiB free, {memory.get('Shmem', 0) >> 10} MiB in shared memory"
        yield Finding(Status.WARN, "", "memory", Action.CHECK, evidence)


def _judge_file_system(path: str, used: Usage, settings: Settings) -> Iterator[Finding]:
    if used.error:
        status = Status.UNKNOWN if used.hangs else Status.WARN
        yield Finding(status, path, "file-system", Action.CHECK, used.error)
    if _is_short(used.bytes_free, used.bytes, settings.space_free_percent):
        evidence = f"{_mib(used.bytes_free)} of {_mib(used.bytes)} MiB free"
        yield Finding(Status.WARN, path, "space", Action.CHECK, evidence)
    # Some have no fixed number of them, and tell 0.
    if _is_short(used.inodes_free, used.inodes, settings.inodes_free_percent):
        evidence = f"{used.inodes_free} of {used.inodes} inodes free"
        yield Finding(Status.WARN, path, "inodes", Action.CHECK, evidence)


def _is_short(free: int | None, all_of_it: int | None, free_percent: float) -> bool:
    return bool(all_of_it) and free is not None and free < (all_of_it or 0) * free_percent / 100


def _mib(size_bytes: int | None) -> int:
    return (size_bytes or 0) >> 20


def _judge_clock(clock: str | None) -> Iterator[Finding]:
    if clock in _SLOW_CLOCKS:
        evidence = f"the kernel reads the time from {clock}, which is slow: see its log for why it gave up another"
        yield Finding(Status.WARN, "", "clocksource", Action.CHECK, evidence)


# -- memory errors ----------------------------------------------------------------------------------------------------


def _edac(tree: Tree) -> dict[str, dict[str, Any]]:
    """Errors since the boot by memory controller, and by DIMM where it tells (kernel documentation, "EDAC")."""
    controllers: dict[str, dict[str, Any]] = {}
    for name in tree.names(_EDAC):
        place = f"{_EDAC}/{name}"
        if not name.removeprefix("mc").isdecimal():
            continue
        dimms = {
            dimm: {
                "label": tree.text(f"{place}/{dimm}/dimm_label"),
                "corrected": tree.number(f"{place}/{dimm}/dimm_ce_count"),
                "uncorrected": tree.number(f"{place}/{dimm}/dimm_ue_count"),
            }
            for dimm in tree.names(place)
            if dimm.startswith(("dimm", "rank"))
        }
        controllers[name] = {
            "corrected": tree.number(f"{place}/ce_count"),
            "uncorrected": tree.number(f"{place}/ue_count"),
            "dimms": dimms,
        }
    return controllers


def _judge_edac(edac: dict[str, dict[str, Any]]) -> Iterator[Finding]:
    # As the catalogue has it of what the kernel says of such an error (mce, uncorrected).
    for name, counts in edac.items():
        if counts["uncorrected"]:
            where = [dimm["label"] or name for name, dimm in counts["dimms"].items() if dimm["uncorrected"]]
            of = f" of {', '.join(printable(label, 40) for label in where[:4])}" if where else ""
            evidence = f"{counts['uncorrected']} uncorrected errors{of} since the boot"
            yield Finding(Status.FAIL, name, "memory-errors", Action.REPLACE, evidence)


# -- services and mounts ----------------------------------------------------------------------------------------------


def _services(tree: Tree, wanted: tuple[str, ...]) -> tuple[dict[str, str], list[Finding]]:
    """What systemd says of them (systemctl(1), is-active); nothing is asked where none is wanted."""
    if not wanted:
        return {}, []
    tool = program.find("systemctl")
    if tool is None or not tree.is_there(_SYSTEMD):
        return {}, [Finding(Status.UNKNOWN, "", "service", Action.CHECK, "no systemd here that could be asked")]
    try:
        output = program.run([tool, "is-active", "--", *wanted], _SYSTEMCTL_S)
    except ProcessError as error:
        return {}, [Finding(Status.UNKNOWN, "", "service", Action.CHECK, str(error))]
    said = output.stdout.split()
    if output.status is None or len(said) != len(wanted):
        why = f"no answer within {_SYSTEMCTL_S:g} s" if output.status is None else printable(output.text.strip(), 200)
        return {}, [Finding(Status.UNKNOWN, "", "service", Action.CHECK, f"systemctl: {why}")]
    states = {name: printable(state, 40) for name, state in zip(wanted, said, strict=True)}
    return states, [
        Finding(
            Status.WARN if state in ("activating", "reloading") else Status.FAIL, name, "service", Action.CHECK, state
        )
        for name, state in states.items()
        if state != "active"
    ]


def _mounts(tree: Tree, wanted: tuple[str, ...]) -> Iterator[Finding]:
    if not wanted:
        return
    table = tree.text("/proc/self/mountinfo", _PROC_BYTES)
    if table is None:
        yield Finding(Status.UNKNOWN, "", "mount", Action.CHECK, "/proc/self/mountinfo does not tell what is mounted")
        return
    # Its fifth word is the place (proc(5)).
    mounted = {_unescape(words[4]) for line in table.splitlines() if len(words := line.split(" ")) > 4}
    for path in wanted:
        if os.path.normpath(path) not in mounted:
            yield Finding(Status.FAIL, path, "mount", Action.CHECK, "not mounted")
            continue
        used = usage(tree.root + path)
        if used.error:
            yield Finding(Status.UNKNOWN if used.hangs else Status.FAIL, path, "mount", Action.CHECK, used.error)


def _unescape(place: str) -> str:
    for escape, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        place = place.replace(escape, char)
    return place
