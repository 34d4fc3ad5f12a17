# SPDX-License-Identifier: Apache-2.0
"""What the agent has done to its node in Slurm, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepguard.config import Health
from stepguard.errors import StepguardError
from stepguard.health.breaker import Bounds
from stepguard.health.marking import Leave, carry_out, decide
from stepguard.health.verdict import NodeVerdict
from stepguard.slurm.protocol import SlurmClient


def react(asked: Mapping[str, Any], config: Health, client: SlurmClient) -> dict[str, Any]:
    """Does what the verdict asks for. `asked`: `verdict`, the `node`'s name in Slurm, the `reaction`, the `memory` of
    what it was marked for. Returns what was `done` (an Outcome's, or "failed"), a `text`, and whether it `is_marked`.

    Raises KeyError, TypeError or ValueError for a question that is none.
    """
    verdict, name = NodeVerdict.from_record(asked["verdict"]), str(asked["node"])
    bounds = Bounds(config.max_nodes, config.max_fraction, config.window_s)
    try:
        node = client.nodes([name])[0]
        decision = decide(verdict, node, asked["reaction"], asked["memory"])
        outcome = carry_out(decision, name, client, bounds)
    except StepguardError as error:
        return {"done": "failed", "text": str(error), "is_marked": False}
    was_marked = isinstance(decision, Leave) and decision.is_marked
    return {"done": outcome.done, "text": outcome.text, "is_marked": was_marked or outcome.done == "marked"}
