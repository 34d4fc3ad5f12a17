# SPDX-License-Identifier: Apache-2.0
"""Takes snapshots of a node's GPUs, as its agent does. Usage: snapshots.py ROUNDS.

Prints, as JSON, the milliseconds of the first, for which the forkserver is started, those of the others, and the
processor time of all processes for one of all.
"""

from __future__ import annotations

import json
import resource
import select
import sys
import time

from stepguard.health import snapshot
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import Probes, Running


def take(probes: Probes) -> float:
    """How long one took, in ms."""
    began_s = time.monotonic()
    started = probes.start(snapshot.GPU_PROBE, Settings())
    if not isinstance(started, Running):
        sys.exit(started.reason)
    with started as running:
        while (report := running.take()) is None:
            select.select([running], [], [], 1.0)
    taken = snapshot.take([report])
    if len(taken["gpus"] or ()) != 8:
        sys.exit(report.reason)
    return 1e3 * (time.monotonic() - began_s)


def cpu_ms() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return 1e3 * sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    rounds = int(sys.argv[1])
    before_ms = cpu_ms()
    probes = Probes()
    first, *others = [take(probes) for _ in range(rounds + 1)]
    probes.close()
    print(json.dumps({"first": first, "others": others, "cpu": (cpu_ms() - before_ms) / (rounds + 1)}))


main()
