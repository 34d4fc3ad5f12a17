# SPDX-License-Identifier: Apache-2.0
"""How soon a dead node is noticed, and by whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from stepguard.config import Resume
from stepguard.doctor.result import Result, ok, unknown, warn
from stepguard.slurm.records import ClusterConfig, Node

# Enough to tell a firewall from a node that is switched off.
MAX_NODES = 16
_SHOWN = 4

Answering = Callable[[Mapping[str, tuple[str, int]], float], set[str]]
"""Those of the named places (address, port) that answer a TCP connection within so many seconds."""


def check_timing(cluster: ClusterConfig, resume: Resume) -> Result:
    """stepguard's silence against SlurmdTimeout, after which Slurm itself acts, and takes the job along."""
    check, timeout_s = "silence", cluster.slurmd_timeout_s
    ours = f"a silent node is lost after {resume.silence_s:g} s"
    if timeout_s == 0:
        return ok(check, f"{ours}; Slurm alone never gives one up (SlurmdTimeout=0)")
    # The time in which the job must have left the node behind: with what a person would call a margin.
    if timeout_s < 3 * (resume.silence_s + resume.probe_s):
        found = f"{ours}, and Slurm may end the job before that is acted upon (SlurmdTimeout={timeout_s})"
        return warn(check, found, "raise SlurmdTimeout (300 is its default), or lower [resume] silence_s")
    return ok(check, f"{ours}; Slurm alone needs more than {timeout_s} s (SlurmdTimeout)")


def check_accounting(cluster: ClusterConfig) -> Result:
    """Only accounting knows whether a step was cancelled by a person."""
    check, kind = "accounting", cluster.accounting_storage_type
    if kind in ("", "none", "accounting_storage/none"):
        found = "there is none: a step that a person cancels on a faulty node is resumed"
        return warn(check, found, "AccountingStorageType=accounting_storage/slurmdbd")
    return ok(check, f"{kind} tells cancelled steps from failed ones")


def check_ports(nodes: Iterable[Node], within_s: float, answering: Answering, user: str) -> Result:
    """Whether this host reaches the slurmd of nodes that Slurm itself reaches; `user` is who asks."""
    check = "node ports"
    places = {node.name: (node.address or node.name, node.port) for node in list(nodes)[:MAX_NODES]}
    if not places:
        return unknown(check, "Slurm reaches no node", "see `sinfo`")
    silent = sorted(places.keys() - answering(places, within_s))
    if not silent:
        return ok(check, f"{user} reaches slurmd on all of {len(places)} nodes asked from this host")
    shown = ", ".join(silent[:_SHOWN]) + (", …" if len(silent) > _SHOWN else "")
    found = (
        f"{len(silent)} of {len(places)} nodes that Slurm counts as up do not answer {user} on slurmd's port within "
        f"{within_s:g} s ({shown}): a busy node whose watch is silent is then taken for dead"
    )
    port = places[silent[0]][1]
    return warn(check, found, f"unless they are dead: let this host reach their TCP port {port} (SlurmdPort)")
