# SPDX-License-Identifier: Apache-2.0
"""Random inputs for all that reads what others wrote: `PYTHONPATH=tests:python python -m shim.fuzz [ROUNDS] [SEED]`.

The tests do the same with few rounds.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from shim.compiling import WIRE, compiled
from stepguard.records import wire

PROGRAMS = {
    "fuzz_places": ("places",),
    "fuzz_agent_settings": WIRE,
    "fuzz_wire": WIRE,
}
"""C programs that take SEED and ROUNDS, each with the parts of spank/ that it tries."""

_PIECES = [b"SGR1", b"\x04kind", b"\xff" * 4, b"\0" * 4, b"\x01\0\0\0", b"\x20", b"\0"]


def run(program: Path, seed: int, rounds: int) -> str:
    """Runs one of the programs; what it says of itself. Fails when anything was wrong."""
    done = subprocess.run([program, str(seed), str(rounds)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), (program.name, done.stderr)
    return done.stdout.rstrip()


def mutated(seed: int, rounds: int) -> Iterator[bytes]:
    """Messages, changed at random."""
    choose = random.Random(seed)
    good = [
        wire.encode({"kind": b"status"}),
        wire.encode({"kind": b"prolog", "job_id": b"12", "environment": b"A=1\0B=\0"}),
        wire.encode({"kind": b"batch", **{f"f{i}": b"x" * i for i in range(62)}}),
    ]
    for _ in range(rounds):
        message = bytearray(choose.choice(good))
        for _ in range(choose.randrange(4)):
            at = choose.randrange(len(message) + 1)
            end = at + choose.randrange(6)
            message[at:end] = choose.choice([b"", choose.choice(_PIECES), choose.randbytes(2), bytes(message[at:])])
        if choose.randrange(2):  # else hardly one gets past the header
            message[4:8] = max(0, len(message) - 8).to_bytes(4, "little")
        yield bytes(message)


def decode(seed: int, rounds: int) -> int:
    """Decodes such messages: it says no, or reads what, written again, is the same. Returns how many were good."""
    good = 0
    for message in mutated(seed, rounds):
        try:
            fields = wire.decode(message)
        except wire.MalformedMessage:
            continue
        assert wire.encode(fields) == message
        good += 1
    return good


def main(rounds: int = 1_000_000, seed: int = 1) -> None:
    """Runs all of them."""
    with tempfile.TemporaryDirectory() as directory:
        for name, parts in PROGRAMS.items():
            print(f"{name}: {run(compiled(Path(directory), name, parts), seed, rounds)}", flush=True)
    print(f"wire.decode: {decode(seed, rounds)} of {rounds} good")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:3]))
