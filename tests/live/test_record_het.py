# SPDX-License-Identifier: Apache-2.0
"""Each part of a het job has a record of its own, led by its own first node, whatever steps span several parts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from guarded import until
from lab.cluster import Cluster
from recorded import Record, record_of, recording_lab

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

STEPGUARD = "/opt/stepguard/bin/stepguard"
SHAPES = {
    "1:1": ["-n1", ":", "-n1"],
    "2:1": ["-N2", ":", "-N1"],
    "1:2": ["-N1", ":", "-N2"],
    "1:1:1": ["-N1", ":", "-N1", ":", "-N1"],
}
SETTINGS = {"SchedulerParameters": "bf_interval=1,sched_interval=1,sched_min_interval=1"}


@pytest.fixture(scope="module", params=["", "Alloc"], ids=["prolog at the first step", "at allocation"])
def lab(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    flags = {"PrologFlags": request.param} if request.param else {}
    with recording_lab(4, slurm_conf={**SETTINGS, **flags}) as cluster:
        yield cluster


def last_job(lab: Cluster) -> int:
    """The id of the last part of the job that was submitted last."""
    shown = lab.run(["scontrol", "-o", "show", "job"], user="root").stdout
    return max(int(line.split()[0].partition("=")[2]) for line in shown.splitlines())


def parts_of(lab: Cluster, shape: list[str]) -> list[Record]:
    """The whole records of the parts of the last job."""
    count = shape.count(":") + 1
    first = last_job(lab) - count + 1
    parts = [record_of(lab, str(first + offset)) for offset in range(count)]
    names = {f"{first}+{offset}" for offset in range(count)}
    assert {part.manifest.printed_id for part in parts} == names

    def are_listed() -> bool:
        """A record's line in the index is written after it."""
        listed = json.loads(lab.run([STEPGUARD, "jobs", "--json", "--limit", "0"]).stdout)["jobs"]
        return names <= {one["printed_id"] for one in listed if one["state"] == "ended"}

    until(f"{names} among the jobs", are_listed, 30, 0.2)
    return parts


def assert_own_nodes(lab: Cluster, parts: list[Record]) -> None:
    """Every node is in one part, and each part has those that Slurm says."""
    for part in parts:
        manifest = part.manifest
        shown = lab.run(["scontrol", "-o", "show", "job", manifest.job_id], user="root").stdout
        told = next(word.partition("=")[2] for word in shown.split() if word.startswith("NodeList="))
        assert manifest.node_list == told
        assert (set(part.nodes), manifest.lead_node) == (set(manifest.nodes), manifest.nodes[0])
        assert {step.nodes for step in manifest.steps if step.nodes} == {told}
    names = [name for part in parts for name in part.manifest.nodes]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", ["sbatch", "salloc", "srun"])
def test_a_step_of_all_parts(lab: Cluster, how: str, shape: str) -> None:
    options = SHAPES[shape]
    groups = ",".join(str(offset) for offset in range(options.count(":") + 1))
    step = f"srun --het-group={groups} hostname"
    if how == "srun":
        words = " ".join(f"hostname {word}" if word == ":" else word for word in options)
        lab.run(["srun", *words.split(), "hostname"])
    elif how == "salloc":
        lab.run(["salloc", "-Q", *options, "bash", "-c", step])
    else:
        lab.write("het.sh", f"#!/bin/bash\n{step}\n", mode=0o755)
        lab.run(["sbatch", "--wait", "-o", "het.out", *options, "het.sh"])
    parts = parts_of(lab, options)
    assert_own_nodes(lab, parts)
    kinds = [part.manifest.kind for part in parts]
    assert kinds == (["batch"] if how == "sbatch" else ["interactive"]) + ["interactive"] * (len(parts) - 1)
    assert all(part.step("0").argv == ["hostname"] for part in parts)


def test_a_step_on_the_last_node_of_a_part_alone(lab: Cluster) -> None:
    options = SHAPES["1:2"]
    lab.run(["salloc", "-Q", *options, "bash", "-c", "srun --het-group=1 -N1 -n1 -r1 hostname"])
    first, second = parts_of(lab, options)
    assert (len(first.manifest.nodes), len(second.manifest.nodes)) == (1, 2)
    assert second.manifest.lead_node == second.manifest.nodes[0]
    assert [step.nodes for step in second.nodes[second.manifest.nodes[1]].steps] == [second.manifest.nodes[1]]
