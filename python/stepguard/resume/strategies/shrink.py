# SPDX-License-Identifier: Apache-2.0
"""shrink: srun was given a range of nodes (-N min-max) that the survivors still satisfy."""

from __future__ import annotations

from stepguard.resume.situation import Situation
from stepguard.resume.strategies.outcome import Outcome, Placement


class Shrink:
    """Runs on fewer nodes, where the user said that this is right."""

    def probe(self, situation: Situation) -> str:
        """Needs a range, and survivors enough for its lower end."""
        if situation.batch_host_lost:
            return "the batch host is lost"
        wanted = situation.command.nodes
        if wanted is None or wanted[0] == wanted[1]:
            return "srun was given no range of nodes (-N min-max)"
        if len(situation.usable) < wanted[0]:
            return f"{len(situation.usable)} healthy nodes are left, -N asks for at least {wanted[0]}"
        return ""

    def carry_out(self, situation: Situation) -> Outcome:
        """All usable nodes, up to as many as the step had."""
        nodes = situation.usable[: len(situation.step_nodes)]
        situation.drop_bad_nodes()
        return Placement(situation.in_order(nodes))
