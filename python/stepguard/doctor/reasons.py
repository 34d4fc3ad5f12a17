# SPDX-License-Identifier: Apache-2.0
"""Is there a node whose reason seems to ask for an action, and does not?"""

from __future__ import annotations

from collections.abc import Sequence

from stepguard.doctor.result import Result, ok, warn
from stepguard.slurm.hostlist import fold
from stepguard.slurm.reasons import REBOOT, REPLACE, near_miss, without_slurms_words
from stepguard.slurm.records import Node

CHECK = "node reasons"
_SHOWN = 5


def check_reasons(nodes: Sequence[Node]) -> Result:
    """The reasons of all nodes."""
    found: dict[tuple[str, str], list[str]] = {}
    for node in nodes:
        # Slurm's own addition to a true action is nobody's mistake.
        if without_slurms_words(node.reason) not in (REPLACE, REBOOT) and (miss := near_miss(node.reason)):
            found.setdefault((node.reason, miss), []).append(node.name)
    if not found:
        return ok(CHECK, f"none is almost {REPLACE} or {REBOOT}")
    shown = [f"{fold(names)}: {reason[:80]!r} is {miss}" for (reason, miss), names in list(found.items())[:_SHOWN]]
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return warn(
        CHECK,
        "; ".join(shown) + more + ". Whoever acts on the exact words does nothing",
        "if the action is meant: `stepguard node replace NODE --force`, or `node reboot`",
    )
