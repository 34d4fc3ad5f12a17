# SPDX-License-Identifier: Apache-2.0
"""Plays slurmd and slurmstepd to a node's agent: the messages of many jobs, some at the same time. Run as root there.

Usage: record_jobs.py FIRST_JOB_ID JOBS AT_ONCE UID GID OUTPUT. Prints, as JSON, the seconds until all was acknowledged,
the longest wait for an answer, and the Unix time of the end.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

from stepguard.records import wire

_SOCKET = "/run/stepguard/agent.sock"
_SCRIPT = b"#!/bin/bash\n" + b"# a line of a job's script, as long as such lines are\n" * 40 + b"srun train\n"
_ENVIRONMENT = b"".join(b"VARIABLE_%d=%s\0" % (number, b"value " * 10) for number in range(60))


class Player:
    """Sends the messages of jobs; several threads may do so at once."""

    def __init__(self, uid: int, gid: int, output: Path) -> None:
        self.longest_s = 0.0
        self.failed: list[str] = []
        status = output.stat()
        self._output = {
            "stdin": b"/dev/null",
            "stdout": bytes(output),
            "stderr": bytes(output),
            "work_dir": bytes(output.parent),
            **dict.fromkeys(("stdout_id", "stderr_id"), b"%d:%d:reg" % (status.st_dev, status.st_ino)),
        }
        self._owner = {"uid": b"%d" % uid, "gid": b"%d" % gid}
        self._node = {
            "node": os.uname().nodename.encode(),
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_bytes().strip(),
        }

    def job(self, job_id: int) -> None:
        """All messages of a batch job of one node, in their order."""
        node = self._node["node"]
        slurm = {
            "SLURM_CLUSTER_NAME": b"lab",
            "SLURM_JOB_ID": b"%d" % job_id,
            "SLURM_JOB_NODELIST": node,
            "SLURM_JOB_UID": self._owner["uid"],
            "SLURM_JOB_GID": self._owner["gid"],
            "SLURM_JOB_USER": b"alice",
            "SLURM_JOB_NAME": b"bench",
            "SLURMD_NODENAME": node,
        }
        environment = b"".join(name.encode() + b"=" + value + b"\0" for name, value in slurm.items())
        job = {"job_id": b"%d" % job_id, **self._owner}
        batch = {**job, "step_id": b"batch"}
        hook = {**job, "environment": environment, "environment_size": b"%d" % len(environment)}
        own = environment + _ENVIRONMENT
        script = {"script": _SCRIPT, "script_size": b"%d" % len(_SCRIPT)}
        self._send("prolog", hook)
        self._send("batch", {**batch, **script, "environment": own, "environment_size": b"%d" % len(own)})
        self._send("output", {**batch, **self._output})
        self._send("step_end", {**batch, "exits": b"0 0 %d\0" % time.time_ns(), "exits_count": b"1"})
        self._send("epilog", hook)

    def _send(self, kind: str, fields: dict[str, bytes]) -> None:
        times = {"time_ns": b"%d" % time.time_ns(), "boottime_ns": b"%d" % time.clock_gettime_ns(time.CLOCK_BOOTTIME)}
        message = wire.encode({"kind": kind.encode(), **self._node, **times, **fields})
        began_s = time.monotonic()
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(_SOCKET)
            channel.sendall(message)
            answer = channel.recv(wire.REPLY_MAX_BYTES)
        self.longest_s = max(self.longest_s, time.monotonic() - began_s)
        if answer != b"ok\n":
            self.failed.append(f"{kind}: {answer!r}")


def main() -> None:
    first, jobs, at_once, uid, gid = map(int, sys.argv[1:6])
    player = Player(uid, gid, Path(sys.argv[6]))
    numbers = iter(range(first, first + jobs))

    def work() -> None:
        for number in numbers:  # of one iterator: each job is played once
            player.job(number)

    threads = [threading.Thread(target=work) for _ in range(at_once)]
    began_s = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken_s = time.monotonic() - began_s
    if player.failed:
        sys.exit(f"{len(player.failed)} messages were not taken, the first: {player.failed[0]}")
    print(json.dumps({"taken_s": taken_s, "longest_s": player.longest_s, "end": time.time()}))


main()
