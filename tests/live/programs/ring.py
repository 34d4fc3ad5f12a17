# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a training step: ranks that sum over TCP every step, hang when a peer dies, and keep a checkpoint.

    ring.py DIRECTORY STEPS [--pause SECONDS] [--fail-at STEP STATUS]

DIRECTORY is shared by all hosts. In it: `step`, the checkpoint; `progress`, a JSON line for each step that all ranks
have done; `rank-ATTEMPT-RANK`, what each rank saw of its environment, and when.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from pathlib import Path

RANK, SIZE = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
ATTEMPT = os.environ.get("STEPGUARD_ATTEMPT", "-")
HOST = os.uname().nodename


def join(directory: Path) -> list[socket.socket]:
    """Rank 0 listens and says where; the others come. Connections to the peers, in any order."""
    meeting = directory / f"meeting-{os.environ['SLURM_JOB_ID']}-{os.environ['SLURM_STEP_ID']}-{ATTEMPT}"
    if RANK == 0:
        with socket.create_server(("", 0)) as server:
            temporary = meeting.with_suffix(".tmp")
            temporary.write_text(f"{HOST} {server.getsockname()[1]}")
            temporary.rename(meeting)
            return [server.accept()[0] for _ in range(SIZE - 1)]
    while not meeting.exists():
        time.sleep(0.02)
    host, port = meeting.read_text().split()
    return [socket.create_connection((host, int(port)))]


def exchange(peers: list[socket.socket], host: str) -> list[str]:
    """Every rank's host, at every rank; blocks for ever when a peer is dead."""
    if RANK == 0:
        hosts = [host, *(peer.recv(64).decode().strip() for peer in peers)]
        if "" in hosts:
            sys.exit("a peer has closed the connection")
        for peer in peers:
            peer.sendall(json.dumps(hosts).encode())
        return hosts
    peers[0].sendall(host.encode())
    return list(json.loads(peers[0].recv(1 << 16) or "[]"))


def main() -> int:
    """Runs from the checkpoint to the last step."""
    began = time.time()
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("steps", type=int)
    parser.add_argument("--pause", type=float, default=0.05)
    parser.add_argument("--fail-at", type=int, nargs=2, default=(0, 0))
    options = parser.parse_args()
    seen = {name: value for name, value in os.environ.items() if name.startswith(("SLURM", "STEPGUARD"))}
    saw = json.dumps({"host": HOST, "pid": os.getpid(), "time": began, "env": seen})
    (options.directory / f"rank-{ATTEMPT}-{RANK}").write_text(saw)
    checkpoint = options.directory / "step"
    step = int(checkpoint.read_text()) if checkpoint.exists() else 0
    peers = join(options.directory)
    while step < options.steps:
        hosts = exchange(peers, HOST)
        step += 1
        if RANK == 0:
            with (options.directory / "progress").open("a") as file:
                record = {"attempt": ATTEMPT, "step": step, "hosts": hosts, "time": time.time()}
                file.write(json.dumps(record) + "\n")
            temporary = checkpoint.with_suffix(".tmp")
            temporary.write_text(str(step))
            temporary.rename(checkpoint)
        if step == options.fail_at[0]:
            return int(options.fail_at[1])
        time.sleep(options.pause)
    return 0


if __name__ == "__main__":
    sys.exit(main())
