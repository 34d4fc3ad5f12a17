# SPDX-License-Identifier: Apache-2.0
"""A hundred nodes: recovery, and what supervisor and watches take while all is well and to recover."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.figures import figure
from bench.journals import by_attempt
from bench.phases import launch_s, phases, rows
from bench.site import Site
from bench.table import Row
from guarded import new_job
from lab import Cluster, LabError

_NODES, _QUICK_NODES, _SPARES = 100, 20, 2
_CALM_S, _QUICK_CALM_S = 20.0, 4.0
_STEPS = 100_000
_START_S = 120.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_SUPERVISOR, _WATCH = "stepguard supervise", "stepguard watch"


@dataclass(frozen=True)
class Usage:
    """What a process has taken so far."""

    cpu_s: float
    children_cpu_s: float
    """Of children that have ended: Slurm's commands."""
    peak_mib: float


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part: one recovery, for a lab of this size needs half a minute."""
    nodes = _QUICK_NODES if site.quick else _NODES
    calm_s = _QUICK_CALM_S if site.quick else _CALM_S
    tasks = nodes - _SPARES
    part = f"{tasks}+{_SPARES} nodes"
    with site.lab(nodes) as lab:
        job = new_job(lab)
        step = f"srun --auto-resume=1 -N{tasks} -n{tasks} {job.ring(_STEPS, '--pause', '0.5')}"
        job.submit(step, f"-N{nodes}", "--exclusive")
        job.await_steps(4, within_s=_START_S)
        supervisor = _only(lab, lab.nodes[0], _SUPERVISOR)
        watches = [_only(lab, node, _WATCH) for node in lab.nodes[1:tasks:8]]
        before, watches_before = usage(supervisor), [usage(pid) for pid in watches]
        time.sleep(calm_s)
        calm, watches_calm = usage(supervisor), [usage(pid) for pid in watches]
        fault_at = time.time()
        lab.power_off(lab.nodes[tasks // 2])
        job.await_steps(1, attempt=1, within_s=_START_S)
        after = usage(supervisor)
        journal = by_attempt(job.journal())
        first_s = launch_s(journal, 0, job.ranks(0))
        taken = phases(journal, fault_at, job.ranks(1))
    yield from rows(part, [taken], None, None)
    yield Row(part, "launch of the first attempt", "s", figure([first_s]))
    watch_s = statistics.mean(b.cpu_s - a.cpu_s for a, b in zip(watches_before, watches_calm, strict=True))
    yield Row(part, "supervisor, all well: of a core", "%", figure([(calm.cpu_s - before.cpu_s) / calm_s], 100))
    yield Row(part, "supervisor, the recovery: CPU", "s", figure([after.cpu_s - calm.cpu_s]))
    commands_s = after.children_cpu_s - calm.children_cpu_s
    yield Row(part, "Slurm's commands, the recovery: CPU", "s", figure([commands_s]))
    yield Row(part, "supervisor: memory at most", "MiB", figure([after.peak_mib]))
    yield Row(part, "a node's watch, all well: of a core", "%", figure([watch_s / calm_s], 100))
    yield Row(part, "a node's watch: memory at most", "MiB", figure([use.peak_mib for use in watches_calm]))


def usage(pid: int) -> Usage:
    """What a process has taken, by /proc (proc(5)). Raises LabError when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        raise LabError(f"process {pid} has ended") from None
    user, system, children_user, children_system = (int(text) / _TICKS_PER_S for text in fields[11:15])
    peak_kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
    return Usage(user + system, children_user + children_system, peak_kib / 1024)


def _only(lab: Cluster, node: str, words: str) -> int:
    """The one Python on a node whose command line has these words."""
    found = [
        pid
        for pid, command in lab.processes(node).items()
        if words in command and "python" in command.partition(" ")[0]
    ]
    if len(found) != 1:
        raise LabError(f"{len(found)} processes of `{words}` on {node}, one is expected")
    return found[0]
