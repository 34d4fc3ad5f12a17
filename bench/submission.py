# SPDX-License-Identifier: Apache-2.0
"""What sbatch's look at a job script takes: the largest that slurmctld takes, from the page cache."""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.budgets import LOOK_MS
from bench.figures import figure
from bench.site import REPOSITORY, Site
from bench.table import Row
from lab.processes import run_here

_PART = "a job script of 4 MiB at submission"
_SIZE_BYTES = 4 << 20
_SOURCE = Path(__file__).parent / "programs" / "mentions.c"
_NOTHING, _NODES, _BOTH = 0, 2, 3  # spank/mentions.h


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part: the same object as in the plugin, in a program that does nothing else."""
    with tempfile.TemporaryDirectory() as directory:
        program = _compile(Path(directory))
        for what, script, mentioned in _scripts():
            path = Path(directory) / "job.sh"
            path.write_bytes(script)
            found, *times_ms = run_here([program, str(path), str(site.rounds(200, 20))]).stdout.split()
            assert int(found) == mentioned, what
            yield Row(_PART, what, "ms", figure([float(time) for time in times_ms]), None, LOOK_MS)


def _compile(directory: Path) -> str:
    spank = REPOSITORY / "spank"
    run_here(
        ["make", "-s", "-C", str(spank), f"OUT={directory}", "SLURM_INCLUDE=/usr/include", f"{directory}/mentions.o"]
    )
    program = f"{directory}/mentions"
    run_here(["gcc", "-O2", "-D_GNU_SOURCE", f"-I{spank}", "-o", program, str(_SOURCE), f"{directory}/mentions.o"])
    return program


def _usual() -> bytes:
    script = (REPOSITORY / "tests/data/scripts/long-clean-production.sbatch").read_bytes()
    without = re.sub(rb"auto-r\w*|NODELIST|SLURM_NNODES|JOB_NUM_NODES|show hostn\w*", b"true", script)
    return without * (_SIZE_BYTES // len(without) + 1)


def _scripts() -> Iterable[tuple[str, bytes, int]]:
    """(What is in it, the script, what it mentions)."""
    letters = random.Random(1).choices(
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/\n", k=_SIZE_BYTES
    )
    last = b"\necho $SLURM_JOB_NODELIST; srun --auto-resume=1 ./train\n"
    commands = b"".join(
        b"srun --exact -n1 --output=auto_%d.log ./train --host-file hosts.txt --nodes 4 --case %d &\n"
        % (number, number)
        for number in range(60_000)
    )
    yield "base64, both in the last line", bytes(letters)[: -len(last)] + last, _BOTH
    yield "commands, both in the last line", commands[: _SIZE_BYTES - len(last)] + last, _BOTH
    yield "a usual script many times, both in the last line", _usual()[: _SIZE_BYTES - len(last)] + last, _BOTH
    yield "a node list in each line", (b"export A_NODE=$SLURM_JOB_NODELIST\n" * 130_000)[:_SIZE_BYTES], _NODES
    yield "zeros", bytes(_SIZE_BYTES), _NOTHING
