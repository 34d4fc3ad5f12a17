# SPDX-License-Identifier: Apache-2.0
"""A node's agent: how many jobs it records, and what large output costs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.figures import figure
from bench.scale import Usage, usage
from bench.site import PYTHON, Site
from bench.table import Row
from lab import Cluster, wait_until

_PART = "agent"
_NODE = "n1"
_PROGRAMS = Path(__file__).with_name("programs")
# By the words of their command lines.
_PROCESSES = {
    "agent": "stepguard agent",
    "archiver": "stepguard archiver",
    "forkserver": "stepguard.health.forkserver",
    "GPU events": "stepguard.health.gpu_events_child",
}
_AT_ONCE = (1, 10, 100)
_JOBS, _QUICK_JOBS = 300, 60
_ARCHIVED_S = 300.0
_SIZES_BYTES = {"1 MiB": 1 << 20, "1 GiB": 1 << 30}
_REDACTED_BYTES = 1 << 20


@dataclass(frozen=True)
class Played:
    """What `jobs` jobs took to be acknowledged, and to be in the archive, both from their first message."""

    jobs: int
    taken_s: float
    archived_s: float
    longest_s: float


class Bench:
    """A lab of one node and the jobs played to its agent, numbered on."""

    def __init__(self, lab: Cluster) -> None:
        self.lab = lab
        self._next = 1_000_000
        self._program = self.program("record_jobs.py")

    def program(self, name: str) -> Path:
        """One of programs/, where hosts of the lab find it."""
        return self.lab.write(self.lab.shared / name, (_PROGRAMS / name).read_text(), user="root")

    def output(self, name: str, size_bytes: int) -> Path:
        """A file of alice's, every block of it written."""
        path = self.lab.home() / name
        self.lab.run(["sh", "-c", f"yes 'epoch 12 loss 0.123456789' | head -c {size_bytes} > {path}"], timeout_s=120)
        return path

    def play(self, jobs: int, at_once: int, output: Path) -> Played:
        """Plays so many jobs, and waits until the spool is empty."""
        status = self.lab.home().stat()
        words = [self._next, jobs, at_once, status.st_uid, status.st_gid, output]
        self._next += jobs
        argv = [PYTHON, "-I", str(self._program), *map(str, words)]
        said = json.loads(self.lab.run(argv, host=_NODE, user="root", timeout_s=300).stdout)
        began = said["end"] - said["taken_s"]
        spooled = self.lab.agents.spool(_NODE) / "jobs"
        wait_until(lambda: not any(spooled.iterdir()), "all is in the archive", _ARCHIVED_S, 0.01)
        return Played(jobs, said["taken_s"], time.time() - began, said["longest_s"])


def processes(lab: Cluster) -> dict[str, int]:
    """The agent of the lab's node and what it has started, by name."""
    return {
        name: pid
        for pid, command in lab.processes(_NODE).items()
        for name, words in _PROCESSES.items()
        if words in command and "python" in command.partition(" ")[0]
    }


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part."""
    with site.lab_with_agents(1) as lab:
        bench = Bench(lab)
        small = bench.output("small", 1000)
        bench.play(10, 1, small)
        jobs = _QUICK_JOBS if site.quick else _JOBS
        for at_once in _AT_ONCE:
            played = [bench.play(jobs, at_once, small) for _ in range(site.rounds(3, 1))]
            yield from _rates(at_once, played)
        yield from _large(bench, site.rounds(5, 1))
        yield from _redaction(bench, site.rounds(20, 3))
        for name, pid in processes(lab).items():
            yield Row(_PART, f"{name}: memory at most, after all that", "MiB", figure([usage(pid).peak_mib]))


def _rates(at_once: int, played: list[Played]) -> Iterable[Row]:
    what = f"{at_once} jobs at once"
    yield Row(_PART, f"{what}: acknowledged", "/s", figure([one.jobs / one.taken_s for one in played]))
    yield Row(_PART, f"{what}: in the archive", "/s", figure([one.jobs / one.archived_s for one in played]))
    yield Row(_PART, f"{what}: longest wait for an answer", "ms", figure([1e3 * one.longest_s for one in played]))


def _large(bench: Bench, rounds: int) -> Iterable[Row]:
    """A job whose output is far larger than what is kept of it (64 KiB and 1 MiB) beside one that is kept whole."""
    paths = {name: bench.output(name.replace(" ", "-"), size) for name, size in _SIZES_BYTES.items()}
    walls: dict[str, list[float]] = {name: [] for name in paths}
    cpus: dict[str, list[float]] = {name: [] for name in paths}
    for _ in range(rounds):
        for name, path in paths.items():
            before = _all_cpu_s(bench)
            walls[name].append(1e3 * bench.play(1, 1, path).archived_s)
            cpus[name].append(1e3 * (_all_cpu_s(bench) - before))
    for what, samples in (("until it is in the archive", walls), ("CPU of agent and archiver", cpus)):
        base = None
        for name in paths:
            value = figure(samples[name])
            yield Row(_PART, f"{name} of output, {what}", "ms", value, base)
            base = base or value


def _redaction(bench: Bench, rounds: int) -> Iterable[Row]:
    argv = [PYTHON, "-I", str(bench.program("redact.py")), str(_REDACTED_BYTES), str(rounds)]
    taken_ms = json.loads(bench.lab.run(argv, host=_NODE, user="root", timeout_s=300).stdout)
    yield Row(_PART, "1 MiB of plain output: CPU of redaction", "ms", figure(taken_ms))


def _all_cpu_s(bench: Bench) -> float:
    pids = processes(bench.lab)
    used = [usage(pids[name]) for name in ("agent", "archiver")]
    return sum(one.cpu_s + one.children_cpu_s for one in used)


def cpu_s(before: Usage, after: Usage) -> float:
    """What a process and its children that have ended took in between."""
    return after.cpu_s + after.children_cpu_s - before.cpu_s - before.children_cpu_s


def resident_mib(pid: int) -> float:
    """What a process has in memory alone or shares: its proportional set size (proc(5), smaps_rollup)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024
