# SPDX-License-Identifier: Apache-2.0
"""Damaged job scripts, many: `PYTHONPATH=tests:python python -m unit.scripts.fuzz [ROUNDS] [SEED]`.

Each gets an answer, within the processor time that is promised. test_mutations.py does the same with few.
"""

from __future__ import annotations

import random
import statistics
import sys
import time

from stepguard.scripts.check import check
from unit.scripts.test_mutations import FRAGMENTS, SCRIPTS, mutated

_LIMIT_S = 0.05
_MAX_CHANGES, _MAX_CUT_BYTES = 6, 40
# A collection of garbage, or another process on the same core, may fall into one run.
_TRIES = 3


def damaged(seed: int) -> tuple[str, bytes]:
    """One of the corpus, changed at random."""
    choose = random.Random(seed)
    name, data = choose.choice(SCRIPTS)
    changes = [
        (choose.random(), choose.randrange(_MAX_CUT_BYTES), choose.choice(FRAGMENTS), choose.random() < 0.5)
        for _ in range(choose.randint(1, _MAX_CHANGES))
    ]
    return name, mutated(data, changes)


def taken_s(name: str, data: bytes) -> float:
    """What a check takes of a processor. Fails where the answer is none."""
    began_s = time.process_time()
    report = check(name, data)
    ended_s = time.process_time()
    lines = data.count(b"\n") + 1
    assert report.parse in ("ok", "partial", "not-a-script"), (name, report.parse)
    assert all(1 <= finding.line <= lines and finding.column >= 1 for finding in report.findings), (name, report)
    return ended_s - began_s


def main(rounds: int = 100_000, seed: int = 1) -> None:
    """Checks so many, and names the slowest. Fails at the first that crashes or takes too long."""
    times_s = []
    slowest = (0.0, 0)
    for number in range(seed, seed + rounds):
        script = damaged(number)
        took_s = taken_s(*script)
        if took_s > _LIMIT_S:
            took_s = min(taken_s(*script) for _ in range(_TRIES))
            assert took_s <= _LIMIT_S, f"seed {number}, {script[0]}: {took_s * 1e3:.0f} ms"
        times_s.append(took_s)
        slowest = max(slowest, (took_s, number))
    print(
        f"check-script: {rounds} damaged scripts answered, median {statistics.median(times_s) * 1e3:.2f} ms, "
        f"slowest {slowest[0] * 1e3:.1f} ms (seed {slowest[1]})"
    )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:3]))
