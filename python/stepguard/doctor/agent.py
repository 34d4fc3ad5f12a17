# SPDX-License-Identifier: Apache-2.0
"""The agent of this node: does it answer, is it this release, and does what it takes in reach the archive?

A user hears its release only; what it says of spool and archiver is for root.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stepguard import __version__
from stepguard.doctor.result import Result, ok, warn
from stepguard.records import asking

CHECK = "agent"
# From here on the spool takes no more output of jobs ([agent] spool_max_mib in the configuration).
_FULL_SHARE = 0.8
_NAMED = 8
# One record takes the archiver less than a second.
_HUNG_S = 60.0
_START = "systemctl enable --now stepguard-agent"
_LOG = "see `journalctl -u stepguard-agent`"
_RESTART = "systemctl restart stepguard-agent: nothing is lost by that"


def ask(path: Path) -> dict[str, Any] | str:
    """What the agent at this socket says of itself, or why there is no answer."""
    return asking.ask(path, "status")


def check_agent(
    answer: dict[str, Any] | str, path: Path, problems: Sequence[str], has_hooks: bool, pid: int | None = None
) -> list[Result]:
    """The agent of this host, which is a node. `problems` are what `stepguard agent --check` finds, `has_hooks`:
    slurm.conf has hooks that speak to it; `pid`: who holds the spool, where somebody does."""
    results = [warn(CHECK, problem, "see `stepguard agent --check`") for problem in problems]
    if isinstance(answer, str):
        if pid is not None:
            found = f"one runs, pid {pid}, and does not answer at {path} ({answer}): jobs' messages wait as notes"
            return [*results, warn(CHECK, found, f"{_LOG}, which says why; {_RESTART}")]
        found = f"none answers at {path} ({answer}): "
        if not has_hooks:
            return [*results, ok(CHECK, found + "nothing of jobs is recorded here", f"to have it: {_START}")]
        lost = "hooks and slurmstepd leave notes for it in the spool, up to 10000"
        return [*results, warn(CHECK, found + lost, _START)]
    if answer.get("version") != __version__:
        found = f"the agent that runs is stepguard {answer.get('version')}, and {__version__} is installed"
        results.append(warn(CHECK, found, _RESTART))
    results += _spool(answer) + _archiver(answer) + _kernel_log(answer)
    return results or [ok(CHECK, f"stepguard {__version__} answers at {path}{_counted(answer)}")]


def _counted(answer: Mapping[str, Any]) -> str:
    """For root: what it holds."""
    if "spool" not in answer:
        return ""
    log = answer.get("kernel_log", {}).get("path")
    read = f", the kernel's log is read from {log}" if log else ""
    return f"; {len(answer['attempts'])} jobs are open, the spool holds {answer['spool']['used_bytes'] >> 20} MiB{read}"


def _kernel_log(answer: Mapping[str, Any]) -> list[Result]:
    if not (why := answer.get("kernel_log", {}).get("why")):
        return []
    found = f"it cannot read the kernel's log, so nobody knows whether this node is well: {why}"
    return [warn(CHECK, found, 'see [health] kernel_log: name another source, or ""')]


def _spool(answer: Mapping[str, Any]) -> list[Result]:
    spool = answer.get("spool", {"used_bytes": 0, "bound_bytes": 1})
    share = spool["used_bytes"] / spool["bound_bytes"]
    if trouble := spool.get("trouble"):
        return [warn(CHECK, f"what was removed under it cannot be made anew: {trouble}", _LOG)]
    lost = spool.get("not_kept", "")
    if not lost and share < _FULL_SHARE:
        return []
    now = f"no {lost} can be kept now" if lost else "output of jobs, then scripts and environments are no longer kept"
    why = "does the archive take records? see archive; or raise [agent] spool_max_mib"
    return [warn(CHECK, f"the spool is {share:.0%} full of {spool['bound_bytes'] >> 20} MiB: {now}", why)]


def _archiver(answer: Mapping[str, Any]) -> list[Result]:
    if "archiver" not in answer:
        return []
    word = answer["archiver"].get("word")
    error = word.get("last_error") if isinstance(word, dict) else None
    if not isinstance(word, dict) or answer["archiver"].get("pid") is None or word.get("state") == "stopped":
        why = f": {error['what']}" if error else ""
        return [warn(CHECK, f"its archiver does not run, so records stay in the spool{why}", _LOG)]
    results = []
    if error:
        since, what = _ago(error["since_s"]), error["what"]
        found = f"the archive takes nothing since {since}: {what}; {word['backlog']} records wait"
        results.append(warn(CHECK, found, "see archive; nothing is lost until the spool is full"))
    elif word.get("state") == "busy" and time.time() - word["since_s"] > _HUNG_S:
        found = f"the archive does not answer since {_ago(word['since_s'])}; {word['backlog']} records wait"
        results.append(warn(CHECK, found, "is its file server there? nothing is lost until the spool is full"))
    if aside := word.get("set_aside"):
        named = ", ".join(aside[:_NAMED]) + (f" and {len(aside) - _NAMED} more" if len(aside) > _NAMED else "")
        found = f"{len(aside)} records cannot be archived, while others can, and stay in the spool: jobs {named}"
        results.append(warn(CHECK, found, f"{_LOG}, which says why of each"))
    return results


def _ago(time_s: float) -> str:
    return f"{max(time.time() - time_s, 0) // 60:.0f} min"
