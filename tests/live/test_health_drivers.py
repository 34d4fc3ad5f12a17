# SPDX-License-Identifier: Apache-2.0
"""Drivers and GPUs that do not answer as they should, where agents may take nodes out of service: no hook waits for
them, no job and no node suffers for what cannot be told, and Slurm drains no node for a hook."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from guarded import await_task, until
from lab.cluster import Cluster
from lab.gpus import DRIVER_NOT_LOADED, VERSION_MISMATCH, Gpus
from recorded import await_state, record_of, submit
from sick import await_first_look, health, sick_lab, slurms_word, well_node

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

# The hooks' own deadline is half a second; a look at a driver that hangs is given up after ten.
HOOK_S = 5.0
# How long a node is watched that nothing is to be done to: longer than a mark takes.
QUIET_S = 8.0
TIMED = """#!/bin/bash
began=$EPOCHREALTIME
/opt/stepguard/libexec/stepguard/{name}
status=$?
echo "$SLURM_JOB_ID {name} $status $began $EPOCHREALTIME" >>{file}
exit $status
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    """Its probes look at nothing between a job's two looks; it says how long hooks take."""
    with sick_lab(1, reaction="fail", more="max_fraction = 1.0\nmax_nodes = 9\ncycle_s = 86400") as made:
        for name in ("prolog", "epilog"):
            path = made.shared / name
            made.write(path, TIMED.format(name=name, file=made.shared / "hooks"), user="root", mode=0o755)
        made.reconfigure({"Prolog": str(made.shared / "prolog"), "Epilog": str(made.shared / "epilog")})
        made.wait_idle()
        yield made


@pytest.fixture
def gpus(lab: Cluster) -> Iterator[Gpus]:
    with well_node(lab, "n1") as made:
        yield made


def hooks_took(lab: Cluster, job_id: str) -> dict[str, float]:
    """For how long the hooks of a job ran, in seconds. They have not failed."""
    lines = [line.split() for line in (lab.shared / "hooks").read_text().splitlines()]
    mine = [line for line in lines if line[0] == job_id]
    assert [line[2] for line in mine] == ["0"] * len(mine), lines
    return {name: float(ended) - float(began) for _, name, _, began, ended in mine}


def all_vanish(gpus: Gpus) -> None:
    for number in range(2):
        gpus.vanish(number)


def both_in_mig_mode(gpus: Gpus) -> None:
    for number in range(2):
        gpus.make_mig(number, 3)


def broken(key: str, value: object) -> Callable[[Gpus], None]:
    return lambda gpus: gpus.update({key: value})


@pytest.mark.parametrize("under_the_job", [False, True])
@pytest.mark.parametrize(
    ("breaks", "status", "code", "reason"),
    [
        (broken("driver.hangs", "*"), "unknown", "no-answer", ""),
        (broken("gpu0.hangs", "*"), "unknown", "no-answer", ""),
        (broken("driver.fails", DRIVER_NOT_LOADED), "fail", "driver", ""),
        (broken("driver.fails", VERSION_MISMATCH), "fail", "driver-mismatch", "Action:Reboot"),
        (all_vanish, "fail", "gpu-count", "Action:Reboot"),
        (both_in_mig_mode, "ok", "", ""),
        (lambda gpus: gpus.lose(1), "fail", "gpu-lost", "Action:Reboot"),
    ],
    ids=["nvml-hangs", "a-gpu-hangs", "no-driver", "mismatch", "no-gpu", "mig", "gpu-lost"],
)
def test_it_holds_no_hook_up_and_fails_no_job(
    lab: Cluster,
    gpus: Gpus,
    breaks: Callable[[Gpus], None],
    status: str,
    code: str,
    reason: str,
    under_the_job: bool,
) -> None:
    """Broken before the prolog, or between prolog and epilog. A verdict that is sure, and asks for something, is marked
    exactly; whatever runs goes on to its end."""
    if not under_the_job:
        breaks(gpus)
    may_end = lab.shared / f"end-{time.monotonic_ns()}"
    job_id = submit(lab, f"until [ -e {may_end} ]; do sleep 0.2; done", "--gres=gpu:2")
    await_state(lab, job_id, "RUNNING")
    if under_the_job:
        await_first_look(lab, "n1")
        breaks(gpus)
    may_end.touch()
    await_state(lab, job_id, "COMPLETED", within_s=60)
    until("its epilog has run", lambda: "epilog" in hooks_took(lab, job_id), 30, 0.2)
    took_s = hooks_took(lab, job_id)
    assert sorted(took_s) == ["epilog", "prolog"]
    assert max(took_s.values()) < HOOK_S, took_s

    record = record_of(lab, job_id, within_s=60)
    found = record.nodes["n1"].health
    assert found is not None
    assert (record.manifest.outcome, found.status) == ("completed", status)
    # A probe has longer than a look, before it is known to hang.
    until(f"the verdict is {status}", lambda: health(lab, "n1")["status"] == status, 60, 0.3)
    assert code in {"", *(item["code"] for item in health(lab, "n1")["items"])}
    if reason:
        until("it is marked", lambda: slurms_word(lab, "n1") == ({"IDLE", "FAIL"}, reason), 60, 0.3)
        return
    end_s = time.monotonic() + QUIET_S
    while time.monotonic() < end_s:
        assert slurms_word(lab, "n1") == ({"IDLE"}, "")
        time.sleep(0.5)


def test_a_row_remap_that_only_the_look_at_the_end_has_found_marks_the_node(lab: Cluster, gpus: Gpus) -> None:
    job_id = submit(lab, "srun sleep 300", "--gres=gpu:2")
    await_task(lab, "n1", "sleep 300")
    await_first_look(lab, "n1")
    gpus["gpu1.rows.failure"] = 1
    assert health(lab, "n1")["status"] == "ok"
    lab.run(["scancel", job_id])
    found = record_of(lab, job_id, within_s=60).nodes["n1"].health
    assert found is not None
    assert (found.status, found.action) == ("fail", "replace")
    until("it is marked", lambda: slurms_word(lab, "n1") == ({"IDLE", "FAIL"}, "Action:Replace"), 60, 0.3)
