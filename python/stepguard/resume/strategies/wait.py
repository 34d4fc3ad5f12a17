# SPDX-License-Identifier: Apache-2.0
"""wait: a lost node comes back under its own name (a cable plugged in again, a quick reboot) while Slurm still counts
it as the job's."""

from __future__ import annotations

import time

from stepguard.resume.reach import answering
from stepguard.resume.situation import Situation
from stepguard.resume.strategies.outcome import Failed, Outcome, Placement

_POLL_S = 1.0
_GONE = frozenset({"DOWN", "FAIL", "ERROR", "NOT_RESPONDING", "DRAIN"})
# The job must decide otherwise before slurmctld gives the node up and, without --no-kill, the job with it.
_SHARE_OF_SLURMD_TIMEOUT = 0.8


class Wait:
    """Waits for the lost nodes, within a bound and the job's time limit."""

    def probe(self, situation: Situation) -> str:
        """Needs nodes that are only out of reach, and that the job still holds."""
        if situation.batch_host_lost:
            return "the batch host is lost"
        if situation.config.wait_s <= 0:
            return "switched off ([resume] wait_s = 0)"
        faulty = [name for name in situation.bad if name not in situation.lost]
        if faulty:
            return f"{','.join(faulty)} is in reach and faulty, waiting does not mend it"
        gone = [name for name in situation.bad if name not in situation.job.nodes]
        if gone:
            return f"{','.join(gone)} is no longer in the job"
        down = [node.name for node in situation.slurm.nodes(situation.bad) if "DOWN" in node.states]
        if down:
            return f"{','.join(down)} is DOWN"
        return ""

    def carry_out(self, situation: Situation) -> Outcome:
        """Polls Slurm once a second; tells the user what is waited for."""
        bound_s = situation.config.wait_s
        if situation.cluster.slurmd_timeout_s:  # 0: Slurm never gives a silent node up
            tried_s = time.monotonic() - situation.began_s
            bound_s = min(bound_s, max(0, situation.cluster.slurmd_timeout_s * _SHARE_OF_SLURMD_TIMEOUT - tried_s))
        if situation.deadline_s is not None:
            bound_s = min(bound_s, situation.deadline_s)
        names = ",".join(situation.bad)
        situation.messages.info(f"waiting up to {bound_s:.0f} s for {names} to come back")
        end_s = time.monotonic() + bound_s
        while time.monotonic() < end_s:
            if not situation.pause(_POLL_S):
                return Failed("interrupted")
            situation.refresh()
            if situation.job.state != "RUNNING" or not set(situation.bad) <= set(situation.job.nodes):
                return Failed(f"Slurm took {names} out of the job")
            nodes = situation.slurm.nodes(situation.bad)
            # Slurm's own word comes late, in both directions; the node's kernel is asked too.
            back = answering({node.name: (node.address, node.port) for node in nodes}, situation.config.probe_s)
            if len(back) == len(nodes) and not any(node.states & _GONE for node in nodes):
                return Placement(situation.in_order(situation.step_nodes))
        return Failed(f"{names} did not come back within {bound_s:.0f} s")
