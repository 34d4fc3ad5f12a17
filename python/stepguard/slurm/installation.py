# SPDX-License-Identifier: Apache-2.0
"""What only `stepguard doctor` asks of Slurm: its programs on this host, and how srun meets our option.

Nothing here changes anything. Each function raises SlurmUnreachable when the program cannot be started or gives no
answer, with the program's own words.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from stepguard.errors import ProcessError, SlurmUnreachable
from stepguard.process import Completed, run
from stepguard.slurm.commands import command_environment
from stepguard.slurm.text import parse_release

_TIMEOUT_S = 20.0
# srun without a cluster (slurm_errno.c and read_config.c, 22.05 to 26.05).
_NO_CLUSTER = re.compile(r"could not establish a configuration source|unable to process configuration", re.IGNORECASE)


def client_release() -> tuple[int, ...]:
    """The release of srun on this host, (22, 5, 8). srun answers only where it finds a slurm.conf."""
    done = _run("srun", "--version")
    release = parse_release(done.stdout)
    if done.status != 0 or not release:
        raise SlurmUnreachable(_words(done) or f"status {done.status}", "srun --version")
    return release


def names_no_cluster(said: str) -> bool:
    """Whether this is what a program of Slurm's says on a host that belongs to no cluster."""
    return bool(_NO_CLUSTER.search(said)) or "cannot start" in said


def shown_config() -> dict[str, str]:
    """All of `scontrol show config`, "(null)" as an empty text."""
    done = _run("scontrol", "show", "config")
    if done.status != 0:
        raise SlurmUnreachable(_words(done), "scontrol show config")
    pairs = re.findall(r"^([\w\[\]]+)\s*= (.*)$", done.stdout, re.MULTILINE)
    return {name: "" if value == "(null)" else value.strip() for name, value in reversed(pairs)}


def responding_nodes() -> list[str]:
    """Names of the nodes that answer slurmctld now, each once."""
    done = _run("sinfo", "--noheader", "--Node", "--responding", "--format=%N")
    if done.status != 0:
        raise SlurmUnreachable(_words(done), "sinfo")
    return list(dict.fromkeys(done.stdout.split()))


def try_option() -> Completed:
    """`srun --auto-resume=1` outside of any job, which stepguard refuses with status 2.

    Where it is not refused, --test-only keeps srun from submitting anything.
    """
    return _run("srun", "--test-only", "--auto-resume=1", "true")


def _run(*argv: str) -> Completed:
    try:
        return run(argv, timeout_s=_TIMEOUT_S, env=command_environment(os.environ), cwd=Path("/"))
    except ProcessError as error:
        raise SlurmUnreachable(error.what, argv[0], error.advice) from error


def _words(done: Completed) -> str:
    """The last line that a failed program said: the first ones are the reasons of the reasons."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1].removeprefix(f"{done.argv[0]}: ") if lines else ""
