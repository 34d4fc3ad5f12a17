# SPDX-License-Identifier: Apache-2.0
"""A cluster whose nodes have GPUs that can fall ill: NVML's stand-in, and a log of the kernel that a test writes."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from guarded import until
from lab.cluster import Cluster
from lab.gpus import Gpus, build
from recorded import recording_lab

KERNEL_LOG = "/run/kmsg"
STEPGUARD = "/opt/stepguard/bin/stepguard"
GPUS_PER_NODE = 2
LINES = {
    13: "13, pid=77, name=python, Graphics SM Warp Exception on (GPC 0, TPC 1)",
    43: "43, pid=77, name=python, Ch 00000008",
    48: "48, pid=77, name=python, DBE (double bit error) on GPU",
    79: "79, pid=77, name=python, GPU has fallen off the bus.",
}


def pci(gpu: int) -> str:
    """The address of a GPU, as lab.gpus has it."""
    return f"0000:{0x0F + 0x10 * gpu:02x}:00"


def line(xid: int, gpu: int = 0) -> str:
    """What /dev/kmsg gives for an XID now."""
    sequence = time.monotonic_ns()  # any that grows
    return f"3,{sequence},{sequence // 1000},-;NVRM: Xid (PCI:{pci(gpu)}): {LINES[xid]}\n"


@contextmanager
def sick_lab(nodes: int, reaction: str = "none") -> Iterator[Cluster]:
    """Its agents have looked at all GPUs."""
    settings = f'[health]\nprobes = ["nvml"]\nkernel_log = "{KERNEL_LOG}"\nreaction = "{reaction}"'
    with recording_lab(nodes, settings, gpus=GPUS_PER_NODE) as lab:
        library = build(lab.shared)
        for node in lab.nodes:
            gpus = Gpus(lab.shared / f"gpus-{node}", GPUS_PER_NODE, library)
            lab.set_daemon_environment(node, gpus.environment)
            log = lab.root(node) / KERNEL_LOG[1:]
            log.touch()
            log.chmod(0o666)  # a program of a test may say what the kernel says when it dies
            lab.agents.stop(node)
            (lab.agents.spool(node) / "health.json").unlink(missing_ok=True)  # of the time without a driver
        lab.agents.start_all(lab.nodes)
        until("the agents know their GPUs", lambda: all(is_probed(lab, node) for node in lab.nodes), 60, 0.5)
        yield lab


def health(lab: Cluster, node: str) -> dict[str, Any]:
    """What the agent of a node says of its health."""
    done = lab.run([STEPGUARD, "health", "status", "--json"], node, "root", check=False)
    document: dict[str, Any] = json.loads(done.stdout or "{}")
    return document


def is_probed(lab: Cluster, node: str) -> bool:
    """Whether the first look at the GPUs is done."""
    return health(lab, node).get("probes", {}).get("nvml", {}).get("age_s") is not None


def kernel_says(lab: Cluster, node: str, xid: int, gpu: int = 0) -> None:
    """The kernel of a node tells of an XID."""
    with (lab.root(node) / KERNEL_LOG[1:]).open("a") as file:
        file.write(line(xid, gpu))


def hang(lab: Cluster, node: str) -> None:
    """The ring's rank on a node does nothing any more, as under a GPU that is gone."""
    for pid, command in lab.processes(node).items():
        if command.startswith("/usr/bin/python3 ") and "/ring.py " in command:  # and not who guards it
            os.kill(pid, signal.SIGSTOP)
