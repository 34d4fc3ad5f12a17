#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs commands in turn, round after round, and writes down how long each took. Runs on a host of the lab.

    rounds.py ORDER RESULT

ORDER is a JSON file: `rounds`, `warm_up` (rounds that do not count), `pause_s` before each run, and `variants`, each
with `name`, `argv`, `env` (added to ours; {round} in a value stands for the round's number) and `plugstack` (the text
to put into /etc/slurm/plugstack.conf before the run, or null). Each round starts one variant later than the one before,
so that none always follows the same other. RESULT gets for each name a list of [Unix time of the start, seconds, CPU
seconds with all children].
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

PLUGSTACK = Path("/etc/slurm/plugstack.conf")


def run(variant: dict[str, Any], number: int, error_path: str) -> list[float]:
    """Runs one variant once; [Unix time of the start, seconds, CPU seconds]. Ends everything when it fails."""
    if variant["plugstack"] is not None:
        PLUGSTACK.write_text(variant["plugstack"])
    env = {**os.environ, **{name: text.replace("{round}", str(number)) for name, text in variant["env"].items()}}
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, error_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644),
    ]
    began = time.time()
    began_s = time.monotonic()
    pid = os.posix_spawnp(variant["argv"][0], variant["argv"], env, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    took_s = time.monotonic() - began_s
    if status != 0:
        sys.exit(f"{variant['name']}: wait status {status}: {Path(error_path).read_text(errors='replace')}")
    return [began, took_s, usage.ru_utime + usage.ru_stime]


def main(order_path: str, result_path: str) -> None:
    """Reads the order, runs it and writes the result."""
    order = json.loads(Path(order_path).read_text())
    variants = order["variants"]
    taken: dict[str, list[list[float]]] = {variant["name"]: [] for variant in variants}
    for number in range(-order["warm_up"], order["rounds"]):
        turn = number % len(variants)
        for variant in variants[turn:] + variants[:turn]:
            time.sleep(order["pause_s"])
            sample = run(variant, number, result_path + ".err")
            if number >= 0:
                taken[variant["name"]].append(sample)
    temporary = Path(result_path + ".tmp")
    temporary.write_text(json.dumps(taken))
    temporary.rename(result_path)


if __name__ == "__main__":
    main(*sys.argv[1:])
