# SPDX-License-Identifier: Apache-2.0
"""A hundred nodes: recovery, and what supervisor and watches take while all is well and to recover."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.budgets import HUNDRED_NODES_S
from bench.figures import figure
from bench.journals import by_attempt
from bench.phases import Bounds, Phases, launch_s, phases, rows
from bench.site import Site
from bench.table import Row
from guarded import Job, new_job
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


@dataclass(frozen=True)
class Recovery:
    """One recovery, and what was taken for `calm_s` before it, at its start and at its end; by the supervisor and by
    the watches of some nodes."""

    phases: Phases
    launch_s: float
    calm_s: float
    before: Usage
    calm: Usage
    after: Usage
    watches_before: list[Usage]
    watches_calm: list[Usage]

    @property
    def watch_cpu_s(self) -> float:
        """What a node's watch took while all was well."""
        pairs = zip(self.watches_before, self.watches_calm, strict=True)
        return statistics.mean(calm.cpu_s - before.cpu_s for before, calm in pairs)


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part. With the spares in the job a spare takes the lost node's place, with them outside one of
    them does by splice; one recovery of each in a round, for a lab of this size needs a minute."""
    nodes = _QUICK_NODES if site.quick else _NODES
    tasks = nodes - _SPARES
    taken: dict[str, list[Recovery]] = {"spare": [], "splice": []}
    for _ in range(site.rounds(1, 1)):
        for strategy, recoveries in taken.items():
            recoveries.append(recover(site, strategy, nodes, tasks))
    for strategy, recoveries in taken.items():
        where = "in the job" if strategy == "spare" else "outside"
        yield from _rows(f"{strategy}: {tasks} nodes, {_SPARES} more {where}", recoveries)


def recover(site: Site, strategy: str, nodes: int, tasks: int) -> Recovery:
    """One recovery in a lab of its own."""
    calm_s = _QUICK_CALM_S if site.quick else _CALM_S
    with site.lab(nodes, gpus_per_node=2) as lab:
        job = new_job(lab)
        step = f"srun --auto-resume=1 -N{tasks} -n{tasks} --gres=gpu:2 {job.ring(_STEPS, '--pause', '0.5')}"
        job.submit(step, f"-N{nodes if strategy == 'spare' else tasks}", "--exclusive", "--gres=gpu:2")
        job.await_steps(4, within_s=_START_S)
        supervisor = _only(lab, lab.nodes[0], _SUPERVISOR)
        watches = [_only(lab, node, _WATCH) for node in lab.nodes[1:tasks:8]]
        before, watches_before = usage(supervisor), [usage(pid) for pid in watches]
        time.sleep(calm_s)
        calm, watches_calm = usage(supervisor), [usage(pid) for pid in watches]
        fault_at = time.time()
        lab.power_off(lab.nodes[tasks // 2])
        try:
            job.await_steps(1, attempt=1, within_s=_START_S)
        except AssertionError as error:
            raise LabError(f"not recovered: {error}\n{job.journal()}") from None
        after = usage(supervisor)
        found, first_s = _timed(job, strategy, fault_at)
    return Recovery(found, first_s, calm_s, before, calm, after, watches_before, watches_calm)


def _timed(job: Job, strategy: str, fault_at: float) -> tuple[Phases, float]:
    """The phases, and what the first launch took. Raises LabError when another strategy was taken."""
    journal = by_attempt(job.journal())
    if (taken := journal["choice", 0]["strategy"]) != strategy:
        raise LabError(f"recovered by {taken or 'nothing'}, not by {strategy}: {journal['choice', 0]}")
    return phases(journal, fault_at, job.ranks(1)), launch_s(journal, 0, job.ranks(0))


def _rows(part: str, taken: list[Recovery]) -> Iterable[Row]:
    yield from rows(part, [one.phases for one in taken], Bounds(HUNDRED_NODES_S))
    for what, unit, samples in (
        ("launch of the first attempt", "s", [one.launch_s for one in taken]),
        ("supervisor, all well: of a core", "%", [_percent(one.calm.cpu_s - one.before.cpu_s, one) for one in taken]),
        ("supervisor, the recovery: CPU", "s", [one.after.cpu_s - one.calm.cpu_s for one in taken]),
        (
            "Slurm's commands, the recovery: CPU",
            "s",
            [one.after.children_cpu_s - one.calm.children_cpu_s for one in taken],
        ),
        ("supervisor: memory at most", "MiB", [one.after.peak_mib for one in taken]),
        ("a node's watch, all well: of a core", "%", [_percent(one.watch_cpu_s, one) for one in taken]),
        ("a node's watch: memory at most", "MiB", [use.peak_mib for one in taken for use in one.watches_calm]),
    ):
        yield Row(part, what, unit, figure(samples))


def _percent(cpu_s: float, taken: Recovery) -> float:
    """Of a core, while all was well."""
    return 100 * cpu_s / taken.calm_s


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
