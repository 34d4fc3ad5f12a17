# SPDX-License-Identifier: Apache-2.0
"""Recovery at default settings: three nodes of four train, the third breaks, the fourth takes its place."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable

from bench.budgets import AFTER_DETECTION_S, GPU_RECOVERY_S, RECOVERY_S
from bench.journals import by_attempt
from bench.phases import Phases, phases, rows
from bench.site import Site
from bench.table import Row
from guarded import new_job
from lab import Cluster

_BROKEN = "n3"
_HEARTBEAT_S = 1.0  # the default of [resume] heartbeat_s
_WARM_STEPS = 40
_STEPS = 100_000


def measure(site: Site) -> Iterable[Row]:
    """The rows of this part."""
    rounds = site.rounds(5, 1)
    for part, break_node, whole, after in (
        ("node powered off", Cluster.power_off, RECOVERY_S, AFTER_DETECTION_S),
        ("GPU fault, program hangs", fail_gpu, GPU_RECOVERY_S, None),
    ):
        # In each round another moment between two heartbeats.
        taken = [recover(site, break_node, _HEARTBEAT_S * number / rounds) for number in range(rounds)]
        yield from rows(part, taken, whole, after)


def recover(site: Site, break_node: Callable[[Cluster, str], None], pause_s: float) -> Phases:
    """One recovery in a lab of its own, its node broken `pause_s` after the step has run for a while."""
    with site.lab(6, gpus_per_node=2) as lab:
        job = new_job(lab)
        step = f"srun --auto-resume=1 -N3 -n3 --gres=gpu:2 {job.ring(_STEPS)}"
        job.submit(step, "-N4", "--exclusive", "--gres=gpu:2")
        job.await_steps(_WARM_STEPS)
        time.sleep(pause_s)
        fault_at = time.time()
        break_node(lab, _BROKEN)
        job.await_steps(1, attempt=1)
        return phases(by_attempt(job.journal()), fault_at, job.ranks(1))


def fail_gpu(lab: Cluster, node: str) -> None:
    """The program hangs on the node, as under a GPU that is gone, and somebody on the node tells of the fault."""
    for pid, command in lab.processes(node).items():
        if "ring.py" in command and "python3" in command:
            os.kill(pid, signal.SIGSTOP)
    fault_file = lab.root(node) / "run/stepguard/fault"
    fault_file.parent.mkdir(exist_ok=True)
    fault_file.write_text("replace: XID 79, GPU has fallen off the bus\n")
