# SPDX-License-Identifier: Apache-2.0
"""How many GPUs a node has by its GRES."""

from __future__ import annotations

import pytest

from stepguard.slurm.gres import gpus


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("gpu:2", 2),
        ("gpu:h100:8(S:0-1)", 8),
        ("gpu:h100:4(S:0,2),gpu:a100:2(S:1)", 6),
        ("gpu:4,mps:400,shard:64,bandwidth:lustre:no_consume:4G", 4),
        ("lustre:1,gpu:8", 8),
        ("gpumem:100,gpu:1", 1),
        ("gpu:0", None),
        ("", None),
        ("mps:400", None),
        # Devices of MIG are no GPUs, and how many share one is not told.
        ("gpu:a100:4(S:0),gpu:a100_1g.5gb:7(S:0)", None),
        ("gpu:1g.10gb+me:7", None),
        ("gpu:nvidia_h100_80gb_hbm3_3g.40gb:2", None),
        # A GPU of this name has no MIG devices.
        ("gpu:nvidia_h100_80gb_hbm3:8", 8),
        ("gpu:h100:many", None),
        ("gpu", None),
        ("gpu:1K", None),
    ],
)
def test_gpus(gres: str, count: int | None) -> None:
    assert gpus(gres) == count
