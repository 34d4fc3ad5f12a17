# SPDX-License-Identifier: Apache-2.0
"""Snapshots of a node, from what the NVML probe reads on the lab's GPUs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from lab.gpus import DRIVER_NOT_LOADED, Gpus, uuid
from stepguard.health.model import Report, Status
from stepguard.health.probes.settings import Settings
from stepguard.health.probing import probe
from stepguard.health.snapshot import build, job_gpus, same_gpus, take


def _look(gpus: tuple[str, ...] | None = None) -> Report:
    return probe("nvml", Settings(dev="/nonexistent", gpus=gpus))


def test_the_whole_node(gpus: Gpus) -> None:
    gpus["gpu5.rows.failure"] = 1
    snapshot = take([_look(), Report("host", Status.WARN, "little memory", values={"memory": {"free_mib": 3}})])
    assert json.loads(json.dumps(snapshot)) == snapshot
    assert snapshot["schema"] == 1
    assert abs(snapshot["at_s"] - time.time()) < 3600
    assert snapshot["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert list(snapshot["gpus"]) == [uuid(number) for number in range(8)]
    assert snapshot["shared"]["host"] == {"memory": {"free_mib": 3}}
    assert snapshot["shared"]["nvml"]["driver"]["version"] == "580.95.05"
    assert set(snapshot["shared"]["nvml"]) == {"driver", "count", "expected"}
    assert snapshot["probes"]["host"] == {"status": "warn", "reason": "little memory"}
    assert [(one["device"], one["what"], one["action"]) for one in snapshot["findings"]] == [
        (uuid(5), "row-remap-failure", "replace")
    ]


def test_the_gpus_of_a_job(gpus: Gpus) -> None:
    gpus.update({"gpu1.rows.pending": 1, "gpu5.rows.failure": 1})
    gpus.lose(6)
    snapshot = take([_look()], ("1", "2"))
    assert list(snapshot["gpus"]) == [uuid(1), uuid(2)]
    assert [one["device"] for one in snapshot["findings"]] == [uuid(1)]
    assert snapshot["unread"] == []
    assert same_gpus(snapshot) == (uuid(1), uuid(2), "0000:1f:00", "0000:2f:00", "GPU 1", "GPU 2")
    assert list(take([_look()], (uuid(7),))["gpus"]) == [uuid(7)]


def test_a_lost_gpu_of_a_job(gpus: Gpus) -> None:
    gpus.lose(6)
    snapshot = take([_look()], ("6", "7"))
    assert list(snapshot["gpus"]) == [uuid(7)]
    assert [one["device"] for one in snapshot["unread"]] == ["GPU 6"]
    assert [one["what"] for one in snapshot["findings"]] == ["gpu-lost"]


def test_with_mig_indices_tell_nothing(gpus: Gpus) -> None:
    gpus.make_mig(0, 2)
    assert len(take([_look()], ("9",))["gpus"]) == 8
    assert list(take([_look()], (uuid(0),))["gpus"]) == [uuid(0)], "by its name it can be told from the others"


def test_gpus_that_are_not_known(gpus: Gpus) -> None:
    gpus["driver.fails"] = DRIVER_NOT_LOADED
    failed = take([probe("nvml", Settings(dev="/nonexistent", gpus_expected=8))])
    assert failed["gpus"] is None and same_gpus(failed) is None
    assert take([Report("nvml", Status.UNKNOWN, "no answer within 1 s")])["gpus"] is None
    assert take([])["gpus"] is None


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ("0", ("0",)),
        ("0,1,3", ("0", "1", "3")),
        ("0-2,7", ("0", "1", "2", "7")),
        ("", ()),
        ("3-1", ()),
        ("gpu:0", None),
        ("0,,1", None),
        ("0-9999", None),
        ("-1", None),
        ("1\n", None),
    ],
)
def test_slurm_job_gpus(indices: str, expected: tuple[str, ...] | None) -> None:
    assert job_gpus(indices) == expected


def test_a_snapshot_of_another_time() -> None:
    snapshot = build([], None, 5.0, 7.0, "boot")
    assert (snapshot["at_s"], snapshot["uptime_s"], snapshot["boot_id"]) == (5.0, 7.0, "boot")
