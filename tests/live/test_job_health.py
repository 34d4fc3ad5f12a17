# SPDX-License-Identifier: Apache-2.0
"""What a job's record shows of its GPUs: agents that look at them when the job begins and when it ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from guarded import await_task, until
from lab.cluster import Cluster
from lab.gpus import DRIVER_NOT_LOADED, VERSION_MISMATCH, Gpus, build, uuid
from recorded import await_state, record_of, submit
from sick import GPUS_PER_NODE, STEPGUARD, health, kernel, sick_lab
from stepguard.records.health import HealthRecord
from stepguard.records.manifest import FindingRecord

# The prolog's deadline is half a second; Slurm itself needs as long for a job.
_JOB_S = 20.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    with sick_lab(2) as cluster:
        yield cluster


@pytest.fixture
def gpus(lab: Cluster) -> Gpus:
    """Those of n1, well again."""
    made = Gpus(lab.shared / "gpus-n1", GPUS_PER_NODE, build(lab.shared))
    (lab.root("n1") / "dev/kmsg").write_text("")
    lab.wait_idle()
    # One that hangs since the test before keeps the next from being started.
    until("no probe hangs", lambda: health(lab, "n1")["probes"]["nvml"]["running_s"] is None, 60, 0.2)
    return made


def looked(lab: Cluster, change: Callable[[], object], *options: str) -> tuple[str, HealthRecord, list[FindingRecord]]:
    """Runs a job on n1 under which something happens; what its record says of the devices of n1."""
    job_id = submit(lab, "srun sleep 300", "--nodelist=n1", *(options or ("--gres=gpu:2",)))
    await_task(lab, "n1", "sleep 300")
    time.sleep(1.0)  # the first look is not waited for by the job
    until("it has looked", lambda: health(lab, "n1")["probes"]["nvml"]["running_s"] is None, 60, 0.2)
    change()
    lab.run(["scancel", job_id])
    record = record_of(lab, job_id, within_s=60)
    found = record.nodes["n1"].health
    assert found is not None
    return job_id, found, record.nodes["n1"].findings


def page(lab: Cluster, job_id: str) -> str:
    return lab.run([STEPGUARD, "job", job_id, "health"]).stdout


def test_nothing_happens(lab: Cluster, gpus: Gpus) -> None:
    job_id, found, findings = looked(lab, lambda: gpus.update({"gpu0.power.energy_mj": 4_000_500_000}))
    assert (found.status, found.gpus, found.energy_j, findings) == ("ok", [uuid(0), uuid(1)], 500.0, [])
    assert page(lab, job_id) == "1 node, 2 GPUs: nothing found, nothing moved, 500 J used\n"
    document = json.loads(lab.run([STEPGUARD, "job", job_id, "health", "--json"]).stdout)
    assert document["health"]["n1"]["gpus"] == [uuid(0), uuid(1)]
    assert f"devices     ok: stepguard job {job_id} health" in lab.run([STEPGUARD, "job", job_id]).stdout


def test_a_row_remap_that_fails_is_found_by_the_second_look_alone(lab: Cluster, gpus: Gpus) -> None:
    job_id, found, findings = looked(lab, lambda: gpus.update({"gpu1.rows.failure": 1}))
    assert (found.status, found.action) == ("fail", "replace")
    assert [(one.what, one.device, one.is_new) for one in found.findings] == [("row-remap-failure", uuid(1), True)]
    assert [one.code for one in findings] == ["device-finding"]
    assert page(lab, job_id).startswith(f"Findings\n  n1: fail {uuid(1)}: row-remap-failure")
    said = next(one for one in health(lab, "n1")["items"] if one["code"] == "row-remap-failure")
    assert (said["action"], said["gpu"]) == ("replace", "0000:1f:00"), "the node's verdict has it"


def test_ecc_counters_that_moved_on_the_jobs_gpu_and_not_on_the_other(lab: Cluster, gpus: Gpus) -> None:
    moved = {f"gpu{number}.ecc.volatile.corrected": 12 for number in (0, 1)}
    _, found, _ = looked(lab, lambda: gpus.update(moved), "--gres=gpu:1")
    [change] = found.changes
    assert (change.kind, change.what, change.by, change.device) == ("moved", "ecc.volatile_corrected", 12, uuid(0))


def test_an_xid_and_a_gpu_that_is_lost(lab: Cluster, gpus: Gpus) -> None:
    def fall() -> None:
        kernel(lab, "n1").xid(79, gpu=1)
        gpus.lose(1)
        until("the agent knows", lambda: health(lab, "n1")["counters"]["kernel_events"], 15, 0.1)

    job_id, found, findings = looked(lab, fall)
    assert (found.status, found.action) == ("fail", "replace")
    [event] = found.events
    assert (event.source, event.code, event.device, event.action) == ("xid", "79", "0000:1f:00", "replace")
    assert ("unread", uuid(1)) in [(one.kind, one.device) for one in found.changes]
    assert "gpu-event" in [one.code for one in findings]
    shown = lab.run([STEPGUARD, "job", job_id]).stdout
    assert "gpu-event: fail xid 79 on 0000:1f:00 (hardware-replace, replace)" in " ".join(shown.split())


def test_mig_a_swapped_gpu_and_a_reset(lab: Cluster, gpus: Gpus) -> None:
    gpus.make_mig(0, 2)

    def change() -> None:
        gpus.make_mig(0, 3)
        gpus.update({"gpu1.uuid": "GPU-another", "gpu1.serial": "2"})

    _, found, _ = looked(lab, change)
    assert sorted((one.kind, one.status) for one in found.changes) == [("mig-new", "ok"), ("swapped", "warn")]

    gpus["gpu0.pcie.replays"] = 7
    _, found, _ = looked(lab, lambda: gpus.update({"gpu0.pcie.replays": 2}))
    replays = [(one.kind, one.before, one.after, one.by) for one in found.changes if one.what == "pcie.replays"]
    assert sorted(replays) == [("moved", "7", "2", 2), ("reset", "7", "2", None)], "since the reset, by two at least"


@pytest.mark.parametrize(
    ("broken", "status", "why"),
    [
        ({"driver.hangs": "*"}, "unknown", "nvml: no answer within 10 s"),
        ({"gpu0.hangs": "*"}, "unknown", ""),
        ({"driver.fails": DRIVER_NOT_LOADED}, "fail", ""),  # there are device files of two GPUs
        ({"driver.fails": VERSION_MISMATCH}, "fail", ""),
        ({"gpu0.crashes": "nvmlDeviceGetUUID"}, "unknown", "nvml: "),
    ],
)
def test_what_cannot_be_told_holds_no_job_up(
    lab: Cluster, gpus: Gpus, broken: dict[str, object], status: str, why: str
) -> None:
    gpus.update(broken)
    began_s = time.monotonic()
    job_id = submit(lab, "true", "--gres=gpu:2", "--nodelist=n1")
    await_state(lab, job_id, "COMPLETED", within_s=_JOB_S)
    assert time.monotonic() - began_s < _JOB_S
    until("n1 is free", lambda: "IDLE" in lab.run(["scontrol", "-o", "show", "node", "n1"]).stdout, 20)
    record = record_of(lab, job_id, within_s=60)
    found = record.nodes["n1"].health
    assert found is not None
    assert (record.manifest.outcome, found.status) == ("completed", status)
    assert why in found.why
    assert " Reason=" not in lab.run(["scontrol", "-o", "show", "node", "n1"]).stdout


def test_a_job_without_gpus(lab: Cluster, gpus: Gpus) -> None:
    gpus["gpu0.rows.failure"] = 1
    job_id = submit(lab, "true", "--nodelist=n1")
    found = record_of(lab, job_id).nodes["n1"].health
    assert found is not None
    assert (found.status, found.gpus) == ("ok", [])
