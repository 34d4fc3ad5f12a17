# SPDX-License-Identifier: Apache-2.0
"""Which XID under a guarded step is the program's own, and which the hardware's: by the catalogue, by repetition, and
by what the driver itself says is to be done (XID 154)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from guarded import Job, hosts_of, new_job, until
from lab.cluster import Cluster
from lab.kernel import Kernel
from sick import health, kernel, sick_lab

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

PCI = ("0000:0f:00", "0000:1f:00")
STEP = "srun --auto-resume=1 -N2 -n2 --gres=gpu:2"
WORDS = "pid=77, name=python, Ch 00000008"
# One crash prints its lines within two seconds.
APART_S = 2.2


@pytest.fixture
def lab() -> Iterator[Cluster]:
    """One each: with an Epilog, Slurm (22.05 to 26.05) has one more job on a node that a running job has given up, and
    then none until its slurmd is restarted or slurmctld reconfigured."""
    with sick_lab(3) as made:
        yield made


@pytest.fixture
def job(lab: Cluster) -> Job:
    """On n1 and n2, and n3 is its spare."""
    return new_job(lab)


def start(job: Job, *ring: str, steps: int = 400) -> None:
    job.submit(f"{STEP} {job.ring(steps, *ring)}", "-N3", "--exclusive", "--gres=gpu:2")
    assert hosts_of(job.await_steps(10)) == {"n1", "n2"}


def events(job: Job, event: str) -> list[dict[str, Any]]:
    return [record for record in job.journal() if record["event"] == event]


@pytest.mark.parametrize("xid", [13, 31, 43, 94])
def test_a_fault_of_the_programs_own_is_named_and_not_resumed(lab: Cluster, job: Job, xid: int) -> None:
    start(job, "--fail-at", "60", "6")
    kernel(lab, "n2").xid(xid, text=WORDS)
    assert job.await_end() == "FAILED"
    why = f"application: XID {xid} on GPU {PCI[0]} of n2: the program's own fault; the program ended with status 6"
    assert f"Not resumed: {why}\n" in job.out()
    assert f"n2: xid {xid} on {PCI[0]}: NVRM: Xid (PCI:{PCI[0]}): {xid}, {WORDS}" in job.out()
    assert [record["event"] for record in job.journal()] == ["start", "health", "end"]
    end = job.journal()[-1]
    assert (end["cause"], end["nodes"], end["action"]) == ("application", [], "restart-application")
    assert [(one["node"], one["code"]) for one in end["evidence"]] == [("n2", str(xid))]


@pytest.mark.parametrize("xid", [13, 31])
def test_what_comes_for_the_fifth_time_on_one_gpu_is_the_hardwares(lab: Cluster, job: Job, xid: int) -> None:
    """The four before it were under programs that have ended."""
    for pid in range(70, 74):
        kernel(lab, "n2").xid(xid, gpu=1, text=WORDS.replace("77", str(pid)))
        time.sleep(APART_S)

    def item() -> dict[str, Any]:
        items = health(lab, "n2")["items"]
        return next((one for one in items if (one["code"], one["gpu"]) == (xid, PCI[1])), {"count": 0})

    until("all four are known", lambda: item()["count"] == 4, 20, 0.2)
    assert (item()["class"], item()["status"]) == ("application", "warn")
    start(job, steps=200)
    kernel(lab, "n2").xid(xid, gpu=1, text=WORDS)
    resumed_elsewhere(job, "reset-gpu")
    assert f"Verdict: hardware: n2: xid {xid} on {PCI[1]}: " in job.out()
    assert (item()["class"], item()["status"], item()["count"]) == ("hardware-reset", "fail", 5)


def recovery(lab: Cluster, words: str, xid: int | None = None, gpu: int = 0) -> None:
    """The kernel of n2 says what is to be done to a GPU, and before that what for."""
    text = f"GPU recovery action changed from 0x5 (Recover IMEX Domain) to {words}"
    fault = [Kernel.xid_text(xid, gpu)] if xid else []
    kernel(lab, "n2").says(*fault, Kernel.xid_text(154, gpu, text))


@pytest.mark.parametrize(
    ("words", "action", "xid"),
    [
        *(
            (words, action, xid)
            for words, action in (
                ("0x1 (GPU Reset Required)", "reset-gpu"),
                ("0x2 (Node Reboot Required)", "reboot"),
                ("0x4 (Drain and Reset)", "reset-gpu"),
            )
            for xid in (48, None)
        ),
        ("0x2 (Node Reboot Required)", "reboot", 79),
    ],
)
def test_what_the_driver_asks_for_decides(lab: Cluster, job: Job, words: str, action: str, xid: int | None) -> None:
    """With the fault that it is about, and alone."""
    start(job, steps=200)
    recovery(lab, words, xid)
    resumed_elsewhere(job, action)


def test_drain_p2p_leaves_a_fault_what_it_is(lab: Cluster, job: Job) -> None:
    """Others must let go of the GPU first; of what mends it, this says nothing."""
    start(job, steps=200)
    recovery(lab, "0x3 (Drain P2P)", 48)
    resumed_elsewhere(job, "reset-gpu")


def test_a_gpu_that_needs_nothing_and_one_that_is_to_be_drained_end_no_step(lab: Cluster, job: Job) -> None:
    start(job, steps=200)
    recovery(lab, "0x0 (None)", 48)
    recovery(lab, "0x3 (Drain P2P)", gpu=1)
    until("the agent knows", lambda: health(lab, "n2")["counters"]["kernel_events"] == 3, 20, 0.2)
    assert job.await_end(120) == "COMPLETED"
    assert hosts_of(job.progress()) == {"n1", "n2"}
    assert [end["status"] for end in events(job, "end")] == [0]
    items = {(one["code"], one["gpu"]): (one["action"], one["status"]) for one in health(lab, "n2")["items"]}
    assert items == {(48, PCI[0]): ("none", "warn"), (154, PCI[1]): ("check", "warn")}


def resumed_elsewhere(job: Job, action: str) -> None:
    assert hosts_of(job.await_steps(5, attempt=1)) == {"n1", "n3"}
    end = events(job, "end")[0]
    assert (end["cause"], end["nodes"], end["action"]) == ("hardware", ["n2"], action)
    assert f" (agent: {action})\n" in job.out()
    assert job.await_end(120) == "COMPLETED"
