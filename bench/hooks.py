# SPDX-License-Identifier: Apache-2.0
"""Prolog and epilog: what a whole job takes by the daemons' logs, and what is asked of slurmctld.

`sbatch --wait` looks in steps of seconds, so the times are those of the logs, in ms. The hooks of a round run one after
another on the same node; the floor of each is slurmd's: it ends a hook's process group with a pause of 10 ms.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.budgets import HOOKS_RATIO, HOOKS_RPCS
from bench.figures import figure
from bench.site import PLUGSTACK, Site
from bench.table import Row
from lab import Cluster, wait_until
from lab.roots import PREFIX

_TIMES, _RPCS = "prolog and epilog", "RPCs of hooks to slurmctld, a job"
_ASKING = Path(__file__).with_name("programs") / "asking_hook.sh"
# slurmd reads this path anew for each job; what it is a link to changes without a word to any daemon.
_LINKS = {"Prolog": "/etc/slurm/prolog", "Epilog": "/etc/slurm/epilog"}
_LIBEXEC = f"{PREFIX}/libexec/stepguard"
_OURS = "stepguard's hooks"


class _Hooks(NamedTuple):
    """What is run as prolog and as epilog, beside which plugstack.conf."""

    prolog: str
    epilog: str
    plugstack: str = ""


_OWN = _Hooks(f"{_LIBEXEC}/prolog", f"{_LIBEXEC}/epilog")
_HOOKS = {
    "/bin/true": _Hooks("/bin/true", "/bin/true"),
    "/bin/true again": _Hooks("/bin/true", "/bin/true"),
    _OURS: _OWN,
    "stepguard's hooks and plugin": _OWN._replace(plugstack=PLUGSTACK),
    "bash with scontrol": _Hooks("/etc/slurm/asking_hook", "/etc/slurm/asking_hook"),
}
_WARM_UP = 2
_JOB_S = 30.0
_LARGE, _QUICK_LARGE = 100, 8
# What the daemons and the bench say anyhow; of many nodes at once some say it twice. All else was asked by hooks.
_NOT_OF_HOOKS = {
    "REQUEST_SUBMIT_BATCH_JOB",
    "REQUEST_COMPLETE_PROLOG",
    "REQUEST_COMPLETE_BATCH_SCRIPT",
    "REQUEST_STEP_COMPLETE",
    "MESSAGE_EPILOG_COMPLETE",
    "MESSAGE_NODE_REGISTRATION_STATUS",
    "REQUEST_STATS_INFO",
    "REQUEST_PING",
    "REQUEST_CONTROL_STATUS",
}


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part."""
    with _lab(site, 1) as lab:
        rounds = run_rounds(lab, site.rounds(60, 4), 1)
        log = (lab.controller_log(), lab.node_log("n1"))
    for what in ("whole job", "until its script is started", "epilog"):
        base = None
        for name, jobs in rounds.items():
            value = figure([times(*log, job_id)[what] for job_id in jobs], 1e3)
            budget = HOOKS_RATIO if (what, name) == ("whole job", _OURS) else None
            yield Row(_TIMES, f"{what}: {name}", "ms", value, base, budget)
            base = base or value
    for nodes, flags in ((1, None), (4, "Alloc"), (_QUICK_LARGE if site.quick else _LARGE, "Alloc")):
        yield from _rpcs(site, nodes, flags)


def _rpcs(site: Site, nodes: int, flags: str | None) -> Iterable[Row]:
    where = f"{nodes} nodes, PrologFlags={flags}" if flags else f"{nodes} node"
    with _lab(site, nodes, {"PrologFlags": flags}) as lab:
        counts: dict[str, list[float]] = {name: [] for name in _HOOKS}
        for _ in range(min(3, site.rounds(3, 1))):  # a count: the same every time
            for name in _HOOKS:
                counts[name].append(_asked(lab, name, nodes))
    for name, samples in counts.items():
        yield Row(_RPCS, f"{where}: {name}", "RPCs", figure(samples), None, HOOKS_RPCS if name == _OURS else None)


def _lab(site: Site, nodes: int, more: Mapping[str, str | None] | None = None) -> Cluster:
    """A cluster with agents whose prolog and epilog are links, to /bin/true at first."""
    # A batch job that finds its node still in its epilog is looked at again at once, and not after 3 s.
    own = {"SchedulerParameters": "batch_sched_delay=0", "SlurmdDebug": "debug", "Prolog": None, "Epilog": None}
    return site.lab_with_agents(nodes, {**own, **(more or {})})


def run_rounds(lab: Cluster, rounds: int, nodes: int) -> dict[str, list[str]]:
    """Runs a job with each of the hooks in each round, in an order that rotates; the jobs of each, by round."""
    names = list(_HOOKS)
    jobs: dict[str, list[str]] = {name: [] for name in names}
    for number in range(-_WARM_UP, rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            job_id = run_job(lab, name, nodes)
            if number >= 0:
                jobs[name].append(job_id)
    return jobs


def run_job(lab: Cluster, name: str, nodes: int) -> str:
    """Runs a job with these hooks to the end of its last epilog."""
    _link(lab, name)
    argv = ["sbatch", "--parsable", f"-N{nodes}", "--exclusive", "--output=/dev/null", "--wrap", "true"]
    job_id = lab.run(argv).stdout.strip()
    words = f"completed epilog for jobid {job_id}\n"

    def over() -> bool:
        return all(words in lab.node_log(node) for node in lab.nodes[:nodes])

    wait_until(over, f"the last epilog of job {job_id}", _JOB_S, 0.05)
    return job_id


def _link(lab: Cluster, name: str) -> None:
    """Makes these the hooks and plugins of all nodes; the first time, tells the daemons that there are any."""
    directory = lab.root("ctl") / "etc/slurm"
    first = not (directory / "prolog").is_symlink()
    if first:
        (directory / "asking_hook").write_bytes(_ASKING.read_bytes())
        (directory / "asking_hook").chmod(0o755)
    hooks = _HOOKS[name]
    new = directory / "new"
    for link, target in (("prolog", hooks.prolog), ("epilog", hooks.epilog)):
        new.symlink_to(target)
        new.rename(directory / link)
    new.write_text(hooks.plugstack)  # slurmstepd reads it anew for each step
    new.rename(directory / "plugstack.conf")
    if first:
        lab.reconfigure(_LINKS)


def times(controller_log: str, node_log: str, job_id: str) -> dict[str, float]:
    """What a job of one node took, in seconds, by the logs of slurmctld and of its node's slurmd."""
    allocated = _time_of(controller_log, rf"(?:Allocate|Started) JobId={job_id} ")
    launched = _time_of(node_log, rf"Launching batch job {job_id} for UID ")
    epilog = _time_of(node_log, rf"Finished wait for job {job_id}'s prolog to complete")
    over = _time_of(node_log, rf"completed epilog for jobid {job_id}$")
    return {"whole job": over - allocated, "until its script is started": launched - allocated, "epilog": over - epilog}


def _time_of(log: str, pattern: str) -> float:
    """Of the last line that has this. Under PrologFlags=Alloc slurmd waits for the prolog more than once."""
    found = re.findall(rf"^\[([^]]+)\] .*{pattern}", log, re.MULTILINE)
    if not found:
        raise AssertionError(f"not in the log: {pattern}")
    return datetime.datetime.fromisoformat(found[-1]).timestamp()


def _asked(lab: Cluster, name: str, nodes: int) -> int:
    """How many RPCs of hooks slurmctld served from the submission of a job to the end of its last epilog."""
    run_job(lab, name, nodes)
    lab.run(["sdiag", "--reset"], user="root")
    run_job(lab, name, nodes)
    time.sleep(1)  # slurmd's word to slurmctld comes after the line in its log
    said = lab.run(["sdiag"], user="root").stdout
    by_type = said.partition("by message type")[2].partition("\n\n")[0]
    counts = re.findall(r"^\t(\w+) +\( *\d+\) count:(\d+)", by_type, re.MULTILINE)
    return sum(int(count) for kind, count in counts if kind not in _NOT_OF_HOOKS)
