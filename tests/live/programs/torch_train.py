# SPDX-License-Identifier: Apache-2.0
"""Stands for a training under torchrun: ranks that meet at MASTER_ADDR every step, and a checkpoint.

    torch_train.py DIRECTORY STEPS

In DIRECTORY, shared by all hosts: `step`, the checkpoint; `progress`, a JSON line for each step that all ranks did.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

RANK, SIZE, LOCAL_RANK = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
MASTER = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
ATTEMPT = os.environ["STEPGUARD_ATTEMPT"]


def main() -> int:
    """Trains from the checkpoint to the last step; waits for ever when a peer is dead."""
    directory, steps = Path(sys.argv[1]), int(sys.argv[2])
    checkpoint, progress = directory / "step", directory / "progress"
    step = int(checkpoint.read_text()) if checkpoint.exists() else 0
    place = f"{os.uname().nodename} {LOCAL_RANK}"
    with socket.create_connection(MASTER) as connection, connection.makefile("rw") as lines:
        while step < steps:
            step += 1
            lines.write(json.dumps([f"step {step}", RANK, SIZE, place]) + "\n")
            lines.flush()
            places = json.loads(lines.readline())
            if RANK == 0:
                with progress.open("a") as file:
                    file.write(json.dumps({"attempt": ATTEMPT, "step": step, "hosts": places, "master": MASTER}) + "\n")
                temporary = checkpoint.with_suffix(".tmp")
                temporary.write_text(str(step))
                temporary.rename(checkpoint)
            time.sleep(0.05)
    return 0


if __name__ == "__main__":
    sys.exit(main())
