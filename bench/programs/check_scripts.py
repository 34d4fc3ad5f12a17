# SPDX-License-Identifier: Apache-2.0
"""Checks job scripts in one process, one after another, round after round. Usage: check_scripts.py DIRECTORY ROUNDS.

Prints the median milliseconds of each script, as JSON; the first round does not count.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from stepguard.scripts.check import check


def main() -> None:
    rounds = int(sys.argv[2])
    scripts = {path.name: path.read_bytes() for path in sorted(Path(sys.argv[1]).iterdir())}
    taken_ms: dict[str, list[float]] = {name: [] for name in scripts}
    for number in range(rounds + 1):
        for name, data in scripts.items():
            began_s = time.perf_counter()
            check(name, data)
            if number:
                taken_ms[name].append(1e3 * (time.perf_counter() - began_s))
    print(json.dumps([statistics.median(samples) for samples in taken_ms.values()]))


main()
