# SPDX-License-Identifier: Apache-2.0
"""A node's health: snapshots of eight GPUs, what the agent takes to watch them, and many lines of a kernel's log."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from bench.agent import cpu_s, processes, resident_mib
from bench.budgets import AGENT_IDLE_PERCENT, AGENT_MIB, LINES_LOST, SNAPSHOT_MS
from bench.figures import figure
from bench.scale import usage
from bench.site import COMMAND, PYTHON, Site
from bench.table import Row
from lab import Cluster, wait_until
from lab.gpus import Gpus

_PART = "health"
_NODE = "n1"
_GPUS = 8
_PROGRAM = Path(__file__).with_name("programs") / "snapshots.py"
# A FIFO: as with the true one, whoever waits for it is woken. A regular file would be looked at five times a second.
_KERNEL_LOG = "/dev/kernel"
# Two cycles of probes, by the default of [health] cycle_s.
_IDLE_S, _QUICK_IDLE_S = 120.0, 5.0
_SETTLE_S = 5.0
_READY_S = 60.0
_FLOOD_S, _QUICK_FLOOD_S = 10.0, 2.0
_BATCHES_PER_S, _LINES_A_BATCH = 20, 50
_EXPLAINED_LINES, _QUICK_EXPLAINED_LINES = 1_000_000, 50_000
# What a kernel says most of the time, and in fifty lines two XIDs: one again and again, one with another pid each time.
_NOISE = (
    'audit: type=1400 audit(1780304321.123:{0}): apparmor="ALLOWED" operation="open" profile="/usr/sbin/sssd"',
    "mlx5_core 0000:a1:00.0 ens1f0np0: port module event: module {0}, Cable plugged",
    "usb 2-1: USB disconnect, device number {0}",
    "veth{0}: entered promiscuous mode",
    "cgroup: fork rejected by pids controller in /system.slice/slurmstepd.scope/job_{0}",
    "perf: interrupt took too long ({0} > 2500), lowering kernel.perf_event_max_sample_rate to 79000",
)
LINES_A_XID = 25


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part."""
    with site.lab_with_agents(1, gpus_per_node=_GPUS) as lab:
        gpus = Gpus(lab.shared / "gpus", _GPUS)
        yield from _snapshots(lab, gpus, site.rounds(100, 5))
        _watch(lab, gpus)
        yield from _idle(lab, _QUICK_IDLE_S if site.quick else _IDLE_S)
        yield from _flood(lab, _QUICK_FLOOD_S if site.quick else _FLOOD_S)
        yield from _explained(lab, _QUICK_EXPLAINED_LINES if site.quick else _EXPLAINED_LINES, site.rounds(1, 1))


def _snapshots(lab: Cluster, gpus: Gpus, rounds: int) -> Iterable[Row]:
    program = lab.write(lab.shared / "snapshots.py", _PROGRAM.read_text(), user="root")
    argv = [PYTHON, "-I", str(program), str(rounds)]
    said = json.loads(lab.run(argv, host=_NODE, user="root", env=gpus.environment, timeout_s=300).stdout)
    yield Row(_PART, "snapshot of 8 GPUs", "ms", figure(said["others"]), None, SNAPSHOT_MS)
    yield Row(_PART, "the first, with the start of the forkserver", "ms", figure([said["first"]]))
    yield Row(_PART, "CPU of one", "ms", figure([said["cpu"]]))


def _watch(lab: Cluster, gpus: Gpus) -> None:
    """Starts the node's agent anew, with GPUs and a kernel, and waits until all that it has runs."""
    lab.agents.stop(_NODE)
    os.mkfifo(_on_node(lab, _KERNEL_LOG))
    with _on_node(lab, "/etc/stepguard/stepguard.toml").open("a") as file:
        file.write(f'[health]\nkernel_log = "{_KERNEL_LOG}"\n')
    lab.set_daemon_environment(_NODE, gpus.environment)
    lab.agents.start(_NODE)

    def is_ready() -> bool:
        told = _status(lab)
        has_looked = all(probe["age_s"] is not None for probe in told["probes"].values())
        return has_looked and (told["gpu_events"] or {}).get("watching") == _GPUS and len(processes(lab)) == 4

    wait_until(is_ready, "the agent watches its GPUs", _READY_S, 0.5)


def _on_node(lab: Cluster, path: str) -> Path:
    return lab.root(_NODE) / path.lstrip("/")


def _status(lab: Cluster) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(
        lab.run([COMMAND, "health", "status", "--json"], host=_NODE, user="root", check=False).stdout
    )
    return told


def _idle(lab: Cluster, idle_s: float) -> Iterable[Row]:
    time.sleep(_SETTLE_S)
    pids = processes(lab)
    before = {name: usage(pid) for name, pid in pids.items()}
    time.sleep(idle_s)
    shares = {name: 100 * cpu_s(before[name], usage(pid)) / idle_s for name, pid in pids.items()}
    sizes = {name: resident_mib(pid) for name, pid in pids.items()}
    for name in pids:
        yield Row(_PART, f"{name}: idle, of a core", "%", figure([shares[name]]))
        yield Row(_PART, f"{name}: memory", "MiB", figure([sizes[name]]))
    what = f"all, with log, events and 60 s cycle: idle for {idle_s:g} s, of a core"
    yield Row(_PART, what, "%", figure([sum(shares.values())]), None, AGENT_IDLE_PERCENT)
    yield Row(_PART, "all: memory", "MiB", figure([sum(sizes.values())]), None, AGENT_MIB)


def _flood(lab: Cluster, flood_s: float) -> Iterable[Row]:
    """So many lines a second. What is not read, and an XID that is not counted, is lost."""
    before, agent = _status(lab), processes(lab)["agent"]
    used = usage(agent)
    began_s = time.monotonic()
    count = _say(lab, flood_s)
    took_s = time.monotonic() - began_s
    wait_until(lambda: _status(lab)["kernel_log"]["sequence"] == count - 1, "the last line is read", 30, 0.2)
    after = _status(lab)
    counted = after["counters"]["kernel_events"] - before["counters"]["kernel_events"]
    what = f"{count / took_s:,.0f} lines of the kernel's a second"
    for lost, which in ((after["kernel_log"]["lost"], "lost"), (count // LINES_A_XID - counted, "XIDs not counted")):
        yield Row(_PART, f"{what}: {which}", "lines", figure([lost]), None, LINES_LOST)
    yield Row(_PART, f"{what}: agent, of a core", "%", figure([100 * cpu_s(used, usage(agent)) / took_s]))


def _say(lab: Cluster, flood_s: float) -> int:
    """Has the kernel say lines for so long, the first with the number 0; how many."""
    lines = enumerate(kernel_lines())
    began_s = time.monotonic()
    batches = int(flood_s * _BATCHES_PER_S)
    with _on_node(lab, _KERNEL_LOG).open("w") as file:
        for batch in range(1, batches + 1):
            for number, text in itertools.islice(lines, _LINES_A_BATCH):
                file.write(f"4,{number},{time.monotonic_ns() // 1000},-;{text}\n")
            file.flush()
            time.sleep(max(0.0, began_s + batch / _BATCHES_PER_S - time.monotonic()))
    return batches * _LINES_A_BATCH


def kernel_lines() -> Iterator[str]:
    """Lines of a kernel without end, every 25th an XID."""
    for number in itertools.count():
        if number % LINES_A_XID:
            yield _NOISE[number % len(_NOISE)].format(number)
        else:
            pid = number if number % (2 * LINES_A_XID) else 77
            yield f"NVRM: Xid (PCI:0000:0f:00): 31, pid={pid}, name=python, Ch 00000008, MMU Fault: ENGINE GRAPHICS"


def _explained(lab: Cluster, count: int, rounds: int) -> Iterable[Row]:
    lines = (
        f"[{1 + number / 1000:12.6f}] {text}\n" for number, text in enumerate(itertools.islice(kernel_lines(), count))
    )
    path = lab.write(lab.shared / "dmesg", "".join(lines), user="root")
    taken_s = []
    for _ in range(rounds):
        began_s = time.monotonic()
        done = lab.run([COMMAND, "health", "explain", str(path)], host=_NODE, user="root", check=False, timeout_s=300)
        taken_s.append(time.monotonic() - began_s)
        if "31" not in done.stdout:
            raise AssertionError(f"the XIDs are not explained: {done.stdout[:500]}{done.stderr[:500]}")
    what = f"explain {count:,} lines of a kernel's log"
    yield Row(_PART, what, "s", figure(taken_s))
    yield Row(_PART, f"{what}: lines", "/s", figure([count / one for one in taken_s]))
