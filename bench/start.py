# SPDX-License-Identifier: Apache-2.0
"""The start of a guarded step, and where its milliseconds go.

Each stage is the difference between two real runs of the product, of which one goes a stage further.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from bench.budgets import GUARDED_START_MS
from bench.figures import Figure, figure
from bench.journals import read
from bench.paired import Taken, Variant, run_rounds
from bench.site import COMMAND, PYTHON, Site
from bench.table import Row
from lab import Cluster

_PART = "guarded start"
_PLAIN = ["srun", "-N1", "true"]
_GUARDED = ["srun", "--auto-resume=1", "-N1", "true"]
_SUPERVISE = [PYTHON, "-IS", COMMAND, "supervise", "--command-at", "2", "--", *_PLAIN]
# The bridge takes this for a supervisor's own attempt: it is asked, and the plain srun follows.
_ASKED_ONLY = 'STEPGUARD_SUPERVISED="$SLURM_JOB_ID.${SLURM_STEP_ID:--}" exec srun --auto-resume=1 -N1 true'
_SHOWN_MODULES = 6


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part."""
    with site.lab(2) as lab:
        state = f"{lab.shared}/state"  # a journal of its own for each run: only a first attempt is measured
        variants = [
            Variant("plain", _PLAIN),
            Variant("plain again", _PLAIN),
            Variant("shell", ["sh", "-c", "exec srun -N1 true"]),
            Variant("bridge asked", ["sh", "-c", _ASKED_ONLY]),
            # Its configuration cannot be read: it imports what it needs until it asks Slurm, reads srun's words, and
            # becomes the plain srun.
            Variant("until asked", _SUPERVISE, {"STEPGUARD_CONFIG": "/nonexistent"}),
            Variant("supervised", _SUPERVISE, {"XDG_STATE_HOME": state + "-supervised-{round}"}),
            Variant("guarded", _GUARDED, {"XDG_STATE_HOME": state + "-guarded-{round}"}),
            Variant("python", [PYTHON, "-IS", "-c", "pass"]),
            Variant("scontrol", ["sh", "-c", "exec scontrol --details show job $SLURM_JOB_ID"]),
        ]
        taken = run_rounds(lab, variants, site.rounds(40, 4), user="alice", job=["-N1", "--exclusive"])
        yield from _stages(lab, taken)
        yield from _imports(lab, site.rounds(9, 2))


def _stages(lab: Cluster, taken: Taken) -> Iterable[Row]:
    ms, cpu = taken.wall_ms, taken.cpu_ms
    plain = ms("plain")
    yield Row(_PART, "plain srun", "ms", plain)
    yield Row(_PART, "plain srun again", "ms", ms("plain again"), plain)
    yield Row(_PART, "guarded srun", "ms", ms("guarded"), plain, GUARDED_START_MS)
    yield Row(_PART, "  its CPU time", "ms", cpu("guarded"), cpu("plain"))
    yield Row(_PART, "  with the bridge only", "ms", ms("bridge asked"), ms("shell"))
    yield Row(_PART, "  exec and imports until Slurm is asked", "ms", ms("until asked"), plain)
    yield Row(_PART, "  all but the bridge", "ms", ms("supervised"), plain)
    yield Row(_PART, "  until srun is started", "ms", _until_srun(lab, taken))
    yield Row(_PART, "  alone: python -IS -c pass", "ms", ms("python"))
    yield Row(_PART, "  alone: scontrol show job", "ms", ms("scontrol"))


def _until_srun(lab: Cluster, taken: Taken) -> Figure:
    """From the start of the guarded srun to the journal's "start", which is written right before the real srun."""
    starts = []
    for number, began in enumerate(taken.began("guarded")):
        journal = read(lab.shared / f"state-guarded-{number}")
        starts.append(journal["start", 0]["time"] - began)
    return figure(starts, 1e3)


def _imports(lab: Cluster, rounds: int) -> Iterable[Row]:
    """What the supervisor imports, by Python's own account (-X importtime, which slows imports down)."""
    argv = ["salloc", "-Q", "-N1", "--exclusive", *_SUPERVISE[:2], "-X", "importtime", *_SUPERVISE[2:]]
    reports = [import_ms(lab.run(argv, env={"XDG_STATE_HOME": f"{lab.shared}/n"}).stderr) for _ in range(rounds)]
    figures = {
        name: figure([report[name] for report in reports])
        for name in set.intersection(*(set(report) for report in reports))
    }
    for ours, title in ((True, "  imports of stepguard's own modules"), (False, "  imports of other modules")):
        yield Row(_PART, title, "ms", figure([sum(ms for n, ms in r.items() if _is_ours(n) is ours) for r in reports]))
        names = [name for name in figures if _is_ours(name) is ours]
        for name in sorted(names, key=lambda name: -figures[name].median)[:_SHOWN_MODULES]:
            yield Row(_PART, f"    {name}", "ms", figures[name])


_IMPORTED = re.compile(r"^import time:\s*(\d+) \|\s*(\d+) \|( +)(\S+)$", re.MULTILINE)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "stepguard"


def import_ms(report: str) -> Mapping[str, float]:
    """What each module of stepguard's takes alone, and each other one that Python or stepguard imports, with all that
    it imports in turn; by `python -X importtime` (3.11 to 3.13). The sum is the whole."""
    times: dict[str, float] = {}
    others: list[int] = []  # the depths of the other modules whose import is not over yet
    for alone_us, all_us, indent, name in reversed(_IMPORTED.findall(report)):  # a module comes after what it imports
        while others and others[-1] >= len(indent):
            others.pop()
        if others:
            continue
        if not _is_ours(name):
            others.append(len(indent))
        times[name] = times.get(name, 0.0) + int(alone_us if _is_ours(name) else all_us) / 1e3
    return times
