# SPDX-License-Identifier: Apache-2.0
"""A GPU that was reset without a reboot, told from one that its driver has only started anew."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepguard.health.resets import Resets

ENERGY = 4_000_000_000


def gpu(energy_mj: int | None = ENERGY, **more: Any) -> dict[str, Any]:
    """What NVML tells of an idle GPU in persistence mode; `more`: other values, ecc and pcie by their names."""
    return {
        "persistence": more.get("persistence", 1),
        "processes": more.get("processes", {}),
        "power": {"energy_mj": energy_mj},
        "ecc": {"volatile_corrected": more.get("corrected", 0), "volatile_uncorrected": more.get("uncorrected", 0)},
        "pcie": {"replays": more.get("replays", 0)},
        "rows": {"pending": more.get("pending", 0)},
    }


def looked(*gpus: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """GPU-0, GPU-1, …; an empty one does not answer."""
    return {f"GPU-{number}": values for number, values in enumerate(gpus) if values}


def resets(*looks: dict[str, dict[str, Any]]) -> list[tuple[str, float]]:
    """What the last of these looks, each 60 s after the one before, finds reset, and since when."""
    known = Resets({}, "boot")
    found = []
    for number, gpus in enumerate(looks):
        found = known.look(gpus, number * 60.0)
    return [(one.gpu, one.after_s) for one in found]


def test_nothing_is_known_of_the_first_look() -> None:
    assert resets(looked(gpu(5), gpu())) == []


def test_counters_that_go_on() -> None:
    assert resets(looked(gpu(), gpu()), looked(gpu(ENERGY + 70_000, replays=2), gpu(ENERGY + 1))) == []


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (gpu(), gpu(1000), f"power.energy_mj was {ENERGY}, is 1000"),
        (gpu(None, uncorrected=3), gpu(None), "ecc.volatile_uncorrected was 3, is 0"),
        (gpu(None, corrected=1), gpu(None), "ecc.volatile_corrected was 1, is 0"),
        (gpu(None, replays=9), gpu(None, replays=1), "pcie.replays was 9, is 1"),
        (gpu(pending=1), gpu(ENERGY + 1), "rows that waited for a reset are remapped"),
    ],
)
def test_one_that_was_reset(before: dict[str, Any], after: dict[str, Any], why: str) -> None:
    known = Resets({}, "boot")
    known.look(looked(before, gpu()), 10.0)
    assert known.look(looked(after, gpu(ENERGY + 1)), 70.0) == [("GPU-0", 10.0, why)]
    assert known.look(looked(after, gpu(ENERGY + 1)), 130.0) == []


def test_several_at_once_where_another_one_goes_on() -> None:
    assert resets(looked(gpu(), gpu(), gpu()), looked(gpu(1), gpu(2), gpu())) == [("GPU-0", 0.0), ("GPU-1", 0.0)]


def test_rows_that_were_remapped_need_no_second_gpu_and_no_persistence_mode() -> None:
    assert resets(looked(gpu(pending=1, persistence=0)), looked(gpu(1, persistence=0))) == [("GPU-0", 0.0)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # The driver starts the GPU for whoever comes first.
        (looked(gpu(persistence=0), gpu()), looked(gpu(1, persistence=0), gpu())),
        # Somebody has switched the mode off in between, or on.
        (looked(gpu(), gpu()), looked(gpu(1, persistence=0), gpu())),
        (looked(gpu(persistence=0), gpu()), looked(gpu(1), gpu())),
        (looked(gpu(persistence=None), gpu()), looked(gpu(1, persistence=None), gpu())),
        # The driver, or its daemon, may have been started anew.
        (looked(gpu()), looked(gpu(1))),
        (looked(gpu(), gpu()), looked(gpu(1), gpu(2))),
        # So may it where others went on because they were in use, or may have been (MIG tells no processes).
        (looked(gpu(), gpu(processes={"7": 1})), looked(gpu(1), gpu(processes={"7": 1}))),
        (looked(gpu(), gpu(processes={"7": 1})), looked(gpu(1), gpu())),
        (looked(gpu(), gpu(processes=None)), looked(gpu(1), gpu(processes=None))),
        (looked(gpu(), gpu(persistence=0)), looked(gpu(1), gpu(persistence=0))),
        # Or where it is not known whether they went on.
        (looked(gpu(), gpu(None, corrected=None, uncorrected=None, replays=None)), looked(gpu(1), gpu())),
        # MIG mode: no remapped rows are told.
        (looked(gpu(pending=1), gpu()), looked(gpu(pending=None), gpu())),
    ],
)
def test_what_may_be_none(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert resets(before, after) == []


def test_one_that_did_not_answer_was_reset_after_it_had_not() -> None:
    silent = looked({}, gpu())
    assert resets(looked(gpu(), gpu()), silent, silent, looked(gpu(1), gpu())) == [("GPU-0", 120.0)]


def test_nothing_is_known_of_one_that_did_not_answer_while_others_began_anew() -> None:
    assert resets(looked(gpu(), gpu()), looked({}, gpu(1)), looked(gpu(1), gpu(2))) == []


def test_what_is_known_outlives_a_restart_and_no_boot() -> None:
    known = Resets({}, "boot")
    known.look(looked(gpu(), gpu()), 10.0)
    kept = json.loads(json.dumps(known.state()))
    after = looked(gpu(1), gpu())
    assert [one.gpu for one in Resets(kept, "boot").look(after, 500.0)] == ["GPU-0"]
    assert Resets(kept, "later boot").look(after, 500.0) == []
