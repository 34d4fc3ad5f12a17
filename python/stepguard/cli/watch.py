# SPDX-License-Identifier: Apache-2.0
"""`stepguard watch ORDERS`: one node's part of the watch step; the supervisor starts it, no person does."""

from __future__ import annotations

import os
from collections.abc import Sequence

from stepguard.cli.output import tell
from stepguard.resume.orders import Orders
from stepguard.resume.watch import Watch


def main(argv: Sequence[str]) -> int:
    """Runs the watch until its input ends. Exit status 2 when the orders cannot be read."""
    try:
        (text,) = argv
        orders = Orders.from_text(text)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        tell(f"bad orders: watch: {error}: the supervisor starts this, not a person")
        return 2
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    rank = os.environ.get("SLURM_PROCID", "0")
    return Watch(orders, node, int(rank) if rank.isdigit() else 0).run()
