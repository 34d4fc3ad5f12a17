# SPDX-License-Identifier: Apache-2.0
"""`stepguard nodes`: the true nodes, for scripts; SLURM_JOB_NODELIST lies once a job was resized."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from stepguard import config
from stepguard.errors import StepguardError, UsageError
from stepguard.slurm import connect
from stepguard.slurm.hostlist import expand, fold
from stepguard.slurm.protocol import SlurmClient

# What slurmstepd calls itself (22.05 to 26.05): "slurmstepd: [71.0]", "slurmstepd: [71.batch]".
_STEP_DAEMON = re.compile(rb"slurmstepd: \[(\d+)\.(\w+)")


@click.command(short_help="The job's real nodes now.")
@click.option("--first", "form", flag_value="first", help="Only the first node.")
@click.option("--count", "form", flag_value="count", help="How many there are.")
@click.option("--list", "form", flag_value="list", help="One host list, n[1-3,7], in place of one node a line.")
@click.option("--addr", is_flag=True, help="Addresses (NodeAddr) in place of names; also with --first.")
@click.option("--job", "job_id", metavar="ID", help="Of this job, in place of the one around the command.")
@click.option("--job-nodes", is_flag=True, help="Within a step too, the nodes of its whole job.")
@click.option("--expand", "expression", metavar="LIST", help="Only print the names that a host list stands for.")
@click.option("--fold", "folding", is_flag=True, help="Only print NAMES as one host list.")
@click.argument("names", nargs=-1)
def command(
    form: str | None,
    addr: bool,
    job_id: str | None,
    job_nodes: bool,
    expression: str | None,
    folding: bool,
    names: tuple[str, ...],
) -> None:
    """Print the nodes that the job holds now, one a line, in Slurm's order.

    In a batch script or an salloc shell they are asked of Slurm, and so are true after a node was lost or replaced,
    when SLURM_JOB_NODELIST no longer is. Within a step (in the tasks of srun) they are the step's own nodes, from
    SLURM_STEP_NODELIST, and Slurm is not asked: every task may do this at once.

    \b
        MASTER_ADDR=$(stepguard nodes --first --addr)
        srun -N "$(stepguard nodes --count)" ...
    """
    if names and not folding:
        raise UsageError("unexpected argument", names[0], "names are taken by --fold only")
    if folding:
        _print(names, "list")
        return
    if expression is not None:
        _print(expand(expression), form)
        return
    client = connect(config.load().slurm)
    found = _nodes(client, os.environ, job_id, job_nodes)
    if form == "first":
        found = found[:1]
    if addr and form != "count":
        found = [node.address for node in client.nodes(found)]
    _print(found, form)


def _nodes(client: SlurmClient, environment: Mapping[str, str], job_id: str | None, job_nodes: bool) -> list[str]:
    own_job_id = environment.get("SLURM_JOB_ID", "")
    # A part of a spliced step runs in a helper job.
    around = environment.get("STEPGUARD_HELPER_JOB_ID") or own_job_id
    if job_id is None and not job_nodes and environment.get("SLURM_STEP_NODELIST") and _in_step_of(around):
        return expand(environment["SLURM_STEP_NODELIST"])
    job_id = job_id or own_job_id
    if not job_id:
        raise UsageError("not in a job", "SLURM_JOB_ID is not set", "name one with --job")
    job = client.job(job_id)
    if not job.nodes or job.state == "PENDING":
        advice = "ask again when it runs" if job.state == "PENDING" else "name one that runs: squeue --me"
        raise StepguardError("holds no nodes", f"job {job_id}, which is {job.state}", advice)
    return list(job.nodes)


def _in_step_of(job_id: str) -> bool:
    """Whether this is a task of one of the job's steps.

    The variables alone do not tell: sbatch and salloc hand those of a step around them down to the new job (22.05 to
    26.05). So the nearest slurmstepd above this process says it, where one is in sight: a container may hide it.
    """
    pid = os.getpid()
    try:
        while pid > 1:
            daemon = _STEP_DAEMON.match(Path(f"/proc/{pid}/cmdline").read_bytes())
            if daemon is not None:
                return daemon[1].decode() == job_id and daemon[2].isdigit()
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return True
    return True


def _print(found: Sequence[str], form: str | None) -> None:
    from stepguard.report.screen import stdout_screen, write_lines

    if form == "count":
        found = [str(len(found))]
    elif form == "list":
        found = [fold(found)]
    elif form == "first":
        found = found[:1]
    write_lines(found, stdout_screen())
