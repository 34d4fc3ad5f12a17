# SPDX-License-Identifier: Apache-2.0
"""Processes that the kernel killed for memory: of their own cgroup, or of the node.

    oom-kill:constraint=CONSTRAINT_MEMCG,…,task_memcg=/slurm/uid_1000/job_71/step_0/task_0,task=python,pid=1234,uid=1000
    Memory cgroup out of memory: Killed process 1234 (python) total-vm:…        the same kill, told again
    Out of memory: Killed process 1234 (python) total-vm:…
    Task in /slurm/uid_1000/job_71/step_0 killed as a result of limit of /slurm/uid_1000/job_71         before 4.20

Kernels from 4.20 on tell of one kill by the first two; it counts once.
"""

from __future__ import annotations

import re

from stepguard.health.catalogue import Catalogue
from stepguard.health.kernel.sighting import Sighting, by_catalogue

_KILL = re.compile(r"oom-kill:constraint=CONSTRAINT_(?P<constraint>[A-Z_]{1,24}),")
_TASK_CGROUP = re.compile(r",task_memcg=(?P<cgroup>[^,]{1,512}),task=.{0,16},pid=(?P<pid>\d{1,10}),", re.DOTALL)
# A user names the cgroups below their own session's, "x,task_memcg=" and "slurm/uid_0/job_71" among it.
_OF_A_SESSION = "/user.slice/"
_KILLED = re.compile(
    r"(?P<cgroup>Memory cgroup o|O)ut of memory(?: \([^)]{0,64}\))?: Kill(?:ed)? process (?P<pid>\d{1,10}) \("
)
_OLD_CGROUP = re.compile(r"Task in (?P<cgroup>/\S{0,512}) killed as a result of limit of /")
# What slurmd makes: with cgroup v1 CgroupPrepend, "/slurm" or "/slurm_%n" (cgroup.conf(5)), and the user; with v2 the
# scope of slurmstepd, behind the node's name where several slurmds run. Before it may stand a container's.
_JOB = re.compile(
    r"/(?:slurm(?:_[^/]{1,255})?/uid_\d{1,10}|(?:[^/]{1,255}_)?slurmstepd\.scope)"
    r"/job_(?P<job>\d{1,10})(?:/step_(?P<step>\w{1,16}))?(?:/|$)"
)


def kills(text: str, catalogue: Catalogue) -> list[Sighting]:
    """The kill of a line; its device is the cgroup of the process, where the line names it."""
    if found := _KILL.match(text):
        task = _TASK_CGROUP.search(text) if text.count(",task_memcg=") == 1 else None
        code = "cgroup" if found["constraint"] == "MEMCG" else "global"
        return [_sighting(catalogue, code, task["cgroup"] if task else "", task["pid"] if task else "")]
    if found := _KILLED.match(text):
        return [_sighting(catalogue, "cgroup" if found["cgroup"] != "O" else "global", "", found["pid"])]
    if found := _OLD_CGROUP.match(text):
        return [_sighting(catalogue, "cgroup", found["cgroup"], "")]
    return []


def job_of(cgroup: str) -> tuple[int, str] | None:
    """Job id and step ("0", "batch", "") of a cgroup that Slurm made, by cgroup v1 or v2; None for another."""
    found = _JOB.search(cgroup)
    if found and _OF_A_SESSION in cgroup[: found.start() + 1]:
        return None
    return (int(found["job"]), found["step"] or "") if found else None


def _sighting(catalogue: Catalogue, code: str, cgroup: str, pid: str) -> Sighting:
    return by_catalogue(catalogue, "oom", code, cgroup)._replace(pid=pid)
