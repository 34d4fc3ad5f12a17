# SPDX-License-Identifier: Apache-2.0
"""A part's tasks take their places in the whole step: what slurmstepd hands to a program, by SLURM_STEPGUARD_PLACES."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from guarded import PLUGSTACK
from lab.cluster import Cluster
from lab.processes import Completed
from product import installed

NAME = "SLURM_STEPGUARD_PLACES"
# Three nodes of a whole of four; n2 and n3 have changed places.
VARIABLES = {
    "SLURM_JOB_ID": "4711",
    "SLURM_NTASKS": "7",
    "SLURM_NNODES": "4",
    "SLURM_STEP_NODELIST": "n[1,3,2,9]",
    "SLURM_TASKS_PER_NODE": "2(x3),1",
    "SLURM_LAUNCH_NODE_IPADDR": "192.0.2.1",
    "STEPGUARD_HELPER_JOB_ID": "4712",
}
ROWS = "@n1=0:0-1;@n3=1:2,3;@n2=2:6,4;@n9=3:5"
PLACES = ";".join(["1", *(f"{name}={value}" for name, value in VARIABLES.items()), ROWS])
# By the rank in the part, which srun's labels show.
RANKS = ["0", "1", "6", "4", "2", "3"]
NODES = ["0", "0", "2", "2", "1", "1"]
GTIDS = ["0,1", "0,1", "6,4", "6,4", "2,3", "2,3"]


@pytest.fixture(scope="module")
def placing() -> Iterator[Cluster]:
    """Three nodes with the plugin, whose TaskProlog tells the rank that it sees."""
    with Cluster(nodes=3, plugstack=PLUGSTACK, prefix=installed()) as cluster:
        prolog = cluster.write(
            cluster.shared / "prolog", '#!/bin/sh\necho "export SEEN=$SLURM_PROCID $SLURM_JOB_ID"\n', mode=0o755
        )
        cluster.reconfigure({"TaskProlog": str(prolog)})
        yield cluster


def step(lab: Cluster, text: str, *options: str) -> Completed:
    """A step of two tasks a node that prints its environment; `text` is in the entry."""
    allocate = ["salloc", "-Q", "-N3", "--ntasks-per-node=2", "--exclusive"]
    return lab.run([*allocate, "env", f"{NAME}={text}", "FOO=1", "srun", "-l", *options, "/usr/bin/env"])


def environments(done: Completed) -> list[dict[str, str]]:
    """That of each task, by the rank in the part."""
    tasks: list[dict[str, str]] = [{} for _ in RANKS]
    for line in done.stdout.splitlines():
        label, _, entry = line.partition(": ")
        name, _, value = entry.partition("=")
        tasks[int(label)][name] = value
    return tasks


@pytest.mark.parametrize("export", ["ALL", "NONE", "NIL", "FOO", "BAR=1", "ALL,BAR=1"])
def test_tasks_take_their_places(placing: Cluster, export: str) -> None:
    done = step(placing, PLACES, f"--export={export}")
    tasks = environments(done)
    assert done.stderr == ""
    assert [task["SLURM_PROCID"] for task in tasks] == RANKS
    assert [task["SLURM_NODEID"] for task in tasks] == NODES
    assert [task["SLURM_GTIDS"] for task in tasks] == GTIDS
    assert [task["SLURM_LOCALID"] for task in tasks] == ["0", "1"] * 3
    for task in tasks:
        assert {name: task.get(name) for name in VARIABLES} == VARIABLES
        assert NAME not in task
    assert ["FOO" in task for task in tasks] == [export in ("ALL", "FOO", "ALL,BAR=1")] * 6


def test_task_prolog_sees_the_whole(placing: Cluster) -> None:
    assert [task["SEEN"] for task in environments(step(placing, PLACES))] == [f"{rank} 4711" for rank in RANKS]


@pytest.mark.parametrize("text", ["", "2;SLURM_JOB_ID=4711", PLACES + ";SLURM_PROCID=0", "1;SLURM_NTASKS=9;@n9=0:0-1"])
def test_garbage_changes_nothing(placing: Cluster, text: str) -> None:
    done = step(placing, text)
    tasks = environments(done)
    assert [task["SLURM_PROCID"] for task in tasks] == ["0", "1", "2", "3", "4", "5"]
    assert {task["SLURM_NTASKS"] for task in tasks} == {"6"}
    assert not [task for task in tasks if NAME in task or task["SLURM_JOB_ID"] == "4711"]
    # Each task says why on its own stderr.
    assert sorted(line.partition(":")[0] for line in done.stderr.splitlines()) == ["0", "1", "2", "3", "4", "5"]
    assert done.stderr.count(f"stepguard: {NAME} changes nothing: field ") == 6


def test_a_job_script_takes_its_place_too(placing: Cluster) -> None:
    placing.write("job.sh", "#!/bin/sh\nenv\n")
    placing.run(["sbatch", "-W", "-o", "out", "job.sh"], env={NAME: "1;STEPGUARD_X=1"})
    out = (placing.home() / "out").read_text().splitlines()
    assert "STEPGUARD_X=1" in out
    assert not [line for line in out if line.startswith(NAME)]
