# SPDX-License-Identifier: Apache-2.0
"""Redacts output of a job, as the archiver does. Usage: redact.py BYTES ROUNDS.

Prints the milliseconds of processor time of each round, as JSON.
"""

from __future__ import annotations

import json
import sys
import time

from stepguard.archive.redaction import Redactor, load_rules

_LINE = (
    b"[rank3] epoch 12 step %d: loss 0.123456789, lr 3.0e-4, 1234 tokens/s, written to /home/alice/checkpoint_%d.pt\n"
)


def main() -> None:
    size_bytes, rounds = map(int, sys.argv[1:])
    lines = b"".join(_LINE % (number, number) for number in range(size_bytes // len(_LINE)))[:size_bytes]
    redactor = Redactor(b"k" * 32, load_rules(None, ()))
    taken_ms = []
    for _ in range(rounds):
        began_s = time.process_time()
        _, found = redactor.text(lines)
        taken_ms.append(1e3 * (time.process_time() - began_s))
        if found:
            sys.exit(f"{found} secrets were found where there are none")
    print(json.dumps(taken_ms))


main()
