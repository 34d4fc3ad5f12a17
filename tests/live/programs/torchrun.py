#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for PyTorch's torchrun: its command line, its static rendezvous over TCP, its environment for the training.

As in torch/distributed/run.py (2.x): options with dashes or underscores; node 0 listens on --master-port of
--master-addr; a training starts when --nnodes nodes have come, once for each of --nproc-per-node, with RANK by
--node-rank; the port goes on to serve the training, as torch's TCPStore does. Only what takes part in a real run: a
node that does not have --master-addr cannot listen there, and another one finds nobody.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict

MEET_S = 60.0


class Store:
    """Whoever posts under a key is answered when so many have: by what all of them posted, in the order of ranks."""

    def __init__(self, address: str, port: int) -> None:
        self._server = socket.create_server((address, port))
        self._posted: dict[str, dict[int, str]] = defaultdict(dict)
        self._changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._server.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rw") as lines:
            for line in lines:
                key, rank, count, value = json.loads(line)
                with self._changed:
                    here = self._posted[key]
                    if rank in here:
                        sys.exit(f"torchrun: two of rank {rank} at {key}")
                    here[rank] = value
                    self._changed.notify_all()
                    while len(here) < count:
                        self._changed.wait()
                lines.write(json.dumps([here[rank] for rank in sorted(here)]) + "\n")
                lines.flush()


def parse() -> argparse.Namespace:
    """Reads the command line as torchrun does."""
    parser = argparse.ArgumentParser(prog="torchrun")
    for name, default in {
        "nnodes": "1", "nproc-per-node": "1", "node-rank": "0", "rdzv-backend": "static", "rdzv-endpoint": "",
        "rdzv-id": "none", "master-addr": "127.0.0.1", "master-port": "29500",
    }.items():  # fmt: skip
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", default=default)
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.rdzv_backend != "static":
        parser.error("this stand-in knows the static rendezvous alone")
    return options


def meet(address: str, port: int, rank: int, count: int) -> None:
    """Waits until all nodes are there."""
    end_s = time.monotonic() + MEET_S
    while True:
        try:
            connection = socket.create_connection((address, port), 5)
            break
        except OSError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.05)
    connection.settimeout(MEET_S)
    with connection, connection.makefile("rw") as lines:
        lines.write(json.dumps(["nodes", rank, count, os.uname().nodename]) + "\n")
        lines.flush()
        if not lines.readline():
            sys.exit("torchrun: the rendezvous has ended")


def main() -> int:
    """Starts the training on this node; 1 when a rank of it fails."""
    options = parse()
    nodes, rank, workers = int(options.nnodes), int(options.node_rank), int(options.nproc_per_node)
    endpoint = options.rdzv_endpoint or f"{options.master_addr}:{options.master_port}"
    address, _, port = endpoint.rpartition(":")
    if rank == 0:
        Store(address, int(port))
    meet(address, int(port), rank, nodes)
    started = [
        subprocess.Popen(
            [sys.executable, options.script, *options.arguments],
            env={
                **os.environ,
                "RANK": str(rank * workers + local),
                "LOCAL_RANK": str(local),
                "WORLD_SIZE": str(nodes * workers),
                "MASTER_ADDR": address,
                "MASTER_PORT": port,
            },
        )
        for local in range(workers)
    ]
    statuses = [process.wait() for process in started]
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
