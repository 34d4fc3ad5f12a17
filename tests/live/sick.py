# SPDX-License-Identifier: Apache-2.0
"""A cluster whose GPUs can fall ill, by NVML's stand-in and the kernel's log, with agents that notice."""

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
from lab.kernel import Kernel
from recorded import recording_lab

STEPGUARD = "/opt/stepguard/bin/stepguard"
GPUS_PER_NODE = 2


@contextmanager
def sick_lab(nodes: int, reaction: str = "none", agent: str = "", more: str = "") -> Iterator[Cluster]:
    """Its agents have looked at all GPUs. `agent` are lines of [agent], `more` further ones of [health]."""
    settings = f'[agent]\n{agent}\n[health]\nprobes = ["nvml"]\nreaction = "{reaction}"\n{more}'
    with recording_lab(nodes, settings, gpus=GPUS_PER_NODE) as lab:
        for node in lab.nodes:
            lab.set_daemon_environment(node, gpus_of(lab, node).environment)
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


def slurms_word(lab: Cluster, node: str) -> tuple[set[str], str]:
    """A node's states and its reason, as Slurm has them."""
    shown = lab.run(["scontrol", "-o", "show", "node", node], user="root").stdout
    state = next(word.partition("=")[2] for word in shown.split() if word.startswith("State="))
    reason = shown.partition(" Reason=")[2].partition(" [")[0].strip()
    return set(state.split("+")), reason


def is_probed(lab: Cluster, node: str) -> bool:
    """Whether the first look at the GPUs is done."""
    return health(lab, node).get("probes", {}).get("nvml", {}).get("age_s") is not None


def gpus_of(lab: Cluster, node: str) -> Gpus:
    """A node's GPUs, all well from now on."""
    return Gpus(lab.shared / f"gpus-{node}", GPUS_PER_NODE, build(lab.shared))


def kernel(lab: Cluster, node: str) -> Kernel:
    """What a node's kernel says."""
    return Kernel(lab.root(node) / "dev/kmsg")


def begin_anew(lab: Cluster, node: str) -> None:
    """Its agent starts with nothing known, and has looked at its GPUs; the kernel has said nothing."""
    lab.agents.stop(node)
    (lab.agents.spool(node) / "health.json").unlink(missing_ok=True)
    (lab.root(node) / "dev/kmsg").write_text("")
    lab.agents.start(node)
    until(f"the agent of {node} knows its GPUs", lambda: is_probed(lab, node), 60, 0.2)


@contextmanager
def well_node(lab: Cluster, node: str) -> Iterator[Gpus]:
    """Its GPUs, well, with an agent that knows nothing else; afterwards it is in service again, and idle."""
    made = gpus_of(lab, node)
    begin_anew(lab, node)
    yield made
    lab.run(["scontrol", "update", f"nodename={node}", "state=resume"], user="root", check=False)
    lab.wait_idle()


def hang(lab: Cluster, node: str) -> None:
    """The ring's rank on a node does nothing any more, as under a GPU that is gone."""
    for pid, command in lab.processes(node).items():
        if command.startswith("/usr/bin/python3 ") and "/ring.py " in command:  # and not who guards it
            os.kill(pid, signal.SIGSTOP)


def await_first_look(lab: Cluster, node: str) -> None:
    """Waits until the agent has looked at the GPUs of a job that has begun there, which does not wait for it."""
    time.sleep(1.0)
    until("it has looked", lambda: health(lab, node)["probes"]["nvml"]["running_s"] is None, 60, 0.2)
