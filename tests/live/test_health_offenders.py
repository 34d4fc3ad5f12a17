# SPDX-License-Identifier: Apache-2.0
"""A node whose GPU has failed jobs is repaired, and remembered: it is the last of the spares, and it is listed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guarded import hosts_of, new_job, until
from lab.cluster import Cluster
from recorded import await_scripts, submit
from sick import STEPGUARD, await_first_look, gpus_of, health, kernel, sick_lab

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

GPU_0, GPU_1 = "0000:0f:00", "0000:1f:00"


def listed(lab: Cluster, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """What `stepguard health nodes` says: its exit status, and the nodes by name."""
    done = lab.run([STEPGUARD, "health", "nodes", "--json", *words], "n1", "root", check=False)
    return done.status, {one["node"]: one for one in json.loads(done.stdout)["nodes"]}


def remembered(lab: Cluster, node: str) -> list[list[str]]:
    """Which GPUs have failed which jobs, by what the agent keeps over a restart."""
    kept = json.loads((lab.agents.spool(node) / "health.json").read_text())
    return [one[:2] for one in kept["offences"]["jobs"]]


def test_a_lemon_is_the_last_spare_and_is_listed() -> None:
    with sick_lab(4, more="lemon_jobs = 1\ncycle_s = 2\nclear_s = 0") as lab:
        gpus = gpus_of(lab, "n3")
        failed = submit(lab, "sleep 300", "--gres=gpu:2", "--exclusive", "--nodelist=n3")
        await_scripts(lab, "n3", "sleep 300")
        await_first_look(lab, "n3")  # what was so before is not the job's
        gpus["gpu1.rows.failure"] = 1
        until("it has failed", lambda: health(lab, "n3")["status"] == "fail", 30, 0.2)
        lab.run(["scancel", failed], user="root")
        until("it is remembered", lambda: remembered(lab, "n3") == [[GPU_1, failed]], 15, 0.2)
        gpus["gpu1.rows.failure"] = 0
        until("it is repaired", lambda: health(lab, "n3")["status"] == "ok", 30, 0.2)
        lab.wait_idle()

        job = new_job(lab)
        step = f"srun --auto-resume=1 -N2 -n2 --gres=gpu:2 {job.ring(200)}"
        job.submit(step, "-N4", "--exclusive", "--gres=gpu:2")
        assert hosts_of(job.await_steps(10)) == {"n1", "n2"}
        kernel(lab, "n2").xid(79)
        assert hosts_of(job.await_steps(5, attempt=1)) == {"n1", "n4"}
        assert job.await_end(120) == "COMPLETED"

        until("n3 is well in the list", lambda: listed(lab)[1].get("n3", {}).get("status") == "ok", 90, 1)
        status, nodes = listed(lab)
        assert (status, list(nodes)) == (2, ["n2", "n3"])
        [lemon] = nodes["n3"]["offenders"]
        assert (lemon["gpu"], lemon["job_ids"], nodes["n3"]["items"]) == (GPU_1, [failed], [])
        assert (nodes["n2"]["status"], nodes["n2"]["action"]) == ("fail", "replace")
        assert [one["gpu"] for one in nodes["n2"]["offenders"]] == [GPU_0]
        assert set(listed(lab, "--all")[1]) >= {"n2", "n3"}
        lines = lab.run([STEPGUARD, "health", "nodes"], "n4", "root", check=False).stdout.splitlines()
        assert f"{GPU_1}: {failed}" in lines[2]
        done = lab.run([STEPGUARD, "health", "nodes"], "n4", "alice", check=False)
        assert (done.status, "admin_groups" in done.stderr) == (3, True)
