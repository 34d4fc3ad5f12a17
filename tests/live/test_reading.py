# SPDX-License-Identifier: Apache-2.0
"""`stepguard job` and `stepguard jobs` on records of real jobs: the owner, another user, and root."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from guarded import until
from lab.cluster import Cluster
from lab.processes import Completed
from lab.roots import PREFIX
from recorded import await_records, record_of, recording_lab, submit

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    with recording_lab(2) as cluster:
        yield cluster


def read(lab: Cluster, *arguments: str, user: str = "alice") -> Completed:
    return lab.run([f"{PREFIX}/bin/stepguard", *arguments], user=user, check=False)


def listed(lab: Cluster, *arguments: str, user: str = "alice") -> list[dict[str, Any]]:
    told = read(lab, "jobs", "--json", *arguments, user=user).stdout
    return json.loads(told)["jobs"] if told else []  # while the archive holds nothing at all


def test_a_job_is_read_by_its_owner_and_by_root_alone(lab: Cluster) -> None:
    body = "echo out; srun -N2 -n2 sh -c 'test $SLURM_PROCID = 0 || exit 3; sleep 1'; exit 5"
    job_id = submit(lab, body, "-N2", "--job-name=tr\x1b[31main")
    record_of(lab, job_id)
    page = read(lab, "job", job_id)
    assert page.status == 0, page.stderr
    assert page.stdout.startswith(f"Job {job_id} tr\\x1b[31main: failed, exit status 5\nof alice on cluster lab\n")
    assert "first to fail: task 1 of step 0 on " in page.stdout
    assert ": exit status 3" in page.stdout
    assert "\n  | out\n" in page.stdout
    assert read(lab, "job", job_id, "script").stdout == f"#!/bin/bash\n{body}\n"
    assert read(lab, "job", job_id, "stdout").stdout.startswith("out\n")
    assert f"SLURM_JOB_ID={job_id}\n" in read(lab, "job", job_id, "env").stdout
    assert len(json.loads(read(lab, "job", job_id, "--json").stdout)["records"][0]["nodes"]) == 2
    assert read(lab, "job", job_id, user="root").stdout == page.stdout
    other = read(lab, "job", job_id, user="bob")
    assert (other.status, other.stdout) == (1, "")
    assert f"no record of job {job_id}: " in other.stderr
    assert "there is one, but it is another user's" in other.stderr


def test_an_array_and_lists(lab: Cluster) -> None:
    array = submit(lab, "exit $SLURM_ARRAY_TASK_ID", "--array=0-2")
    bobs = submit(lab, "true", user="bob")

    def all_listed() -> list[dict[str, Any]] | None:
        found = [one for one in listed(lab) if one["printed_id"].startswith(f"{array}_") and one["state"] == "ended"]
        return found if len(found) == 3 else None

    found = until("the array in the index", all_listed, 60, 0.5)
    await_records(lab, [one["job_id"] for one in found], 60)
    await_records(lab, [bobs], 60)
    outcomes = {one["printed_id"]: (one["outcome"], one["exit"]) for one in found}
    assert outcomes == {
        f"{array}_0": ("completed", "0:0"),
        f"{array}_1": ("failed", "1:0"),
        f"{array}_2": ("failed", "2:0"),
    }
    whole = read(lab, "job", array).stdout.splitlines()
    assert [line.split()[0] for line in whole] == ["JOB", f"{array}_0", f"{array}_1", f"{array}_2"]
    assert read(lab, "job", f"{array}_2").stdout.startswith(f"Job {array}_2 ")
    assert bobs not in [one["job_id"] for one in listed(lab, "--all")]
    assert [one["job_id"] for one in listed(lab, user="bob")] == [bobs]
    assert {bobs, found[0]["job_id"]} <= {one["job_id"] for one in listed(lab, "--all", user="root")}
    assert [one["job_id"] for one in listed(lab, "--user", "bob", user="root")] == [bobs]


def test_the_index_is_the_same_when_it_is_rebuilt(lab: Cluster) -> None:
    job_id = submit(lab, "srun true")
    record_of(lab, job_id)
    before = listed(lab, "--all", user="root")
    for path in (lab.archive / "lab/index").rglob("*.tsv"):
        path.unlink()
    assert listed(lab, "--all", user="root") == []
    assert read(lab, "archive", "rebuild-index", user="root").status == 0
    assert listed(lab, "--all", user="root") == before
    assert read(lab, "job", job_id).status == 0
