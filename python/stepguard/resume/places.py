# SPDX-License-Identifier: Apache-2.0
"""The entry that gives each task of a step its place in the whole, read in slurmstepd by spank/places.c.

    1;NAME=VALUE;…;@NODE=NODEID:RANKS;…

The NAME=VALUE fields are set for every task. A row stands for a node: its number in the whole, and the whole's ranks
of its tasks in the order of their local ids, "0-3,8". Without rows only the constants are set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepguard.resume.layout import Layout, Slot  # half of what starting a watch would import

# The name begins so because srun hands SLURM_* on whatever --export says (22.05 to 26.05).
VARIABLE = "SLURM_STEPGUARD_PLACES"
# The plugin on a node shows by this that it is there to read an entry.
SIGN_OF_LIFE_NAME = "STEPGUARD_PLUGIN"
SIGN_OF_LIFE = f"1;{SIGN_OF_LIFE_NAME}=1"
# One string of the environment or of the arguments may be 128 KiB long (MAX_ARG_STRLEN, execve(2)).
_MAX_SIZE_BYTES = 128 << 10
_CONSTANTS_SIZE_BYTES = 32 << 10


def entry(constants: Mapping[str, str], rows: Iterable[tuple[int, Slot]]) -> str:
    """The entry of one part: `rows` are its nodes, each with its number in the whole.

    Constants that the entry cannot hold (a value with ";" or one that is not printable ASCII) are left out.
    """
    held = {n: value for n, value in constants.items() if value.isascii() and value.isprintable() and ";" not in value}
    fields = [f"{name}={value}" for name, value in held.items()]
    table = [f"@{slot.node}={number}:{ranks_text(slot.ranks)}" for number, slot in rows]
    return ";".join(["1", *fields, *table])


def fits(layout: Layout) -> bool:
    """Whether a step of this size can be told its places: by an entry, and by srun's list of a host for each task."""
    rows = len(entry({}, enumerate(layout.slots)))
    hosts = len(",".join(layout.by_rank(layout.nodes)))
    return max(rows, hosts) + _CONSTANTS_SIZE_BYTES < _MAX_SIZE_BYTES


def ranks_text(ranks: Sequence[int]) -> str:
    """ "0-3,8" for (0, 1, 2, 3, 8); the order is kept."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
