# SPDX-License-Identifier: Apache-2.0
"""A job is a part of the array or het job that Slurm has made it a part of, whatever its environment says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from guarded import until
from lab.cluster import Cluster
from recorded import await_state, record_of, recording_lab, submit

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

STEPGUARD = "/opt/stepguard/bin/stepguard"


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    with recording_lab(2) as cluster:
        yield cluster


def parts(lab: Cluster, job_id: str) -> dict[str, str]:
    """What root finds of a job: raw id to the id that is shown."""
    shown = json.loads(lab.run([STEPGUARD, "job", job_id, "--json"], user="root").stdout)
    return {one["job_id"]: one["printed_id"] for one in shown["records"]}


def test_a_job_from_within_a_task_of_an_array_is_no_task_of_it(lab: Cluster) -> None:
    inner = "sbatch --parsable -J nested -o nested.out --wrap 'srun hostname' > nested.id"
    array = submit(lab, inner, "--array=7", "-o", "array.out")
    told = lab.home() / "nested.id"
    nested = until("the nested job", lambda: told.exists() and told.read_text().strip(), 60, 0.2)
    record = record_of(lab, nested)
    assert record.environment["SLURM_ARRAY_JOB_ID"] == array, "Slurm has it inherit that"
    assert (record.manifest.printed_id, record.manifest.array_job_id) == (nested, "")
    assert record_of(lab, array).manifest.printed_id == f"{array}_7"
    assert parts(lab, array) == {array: f"{array}_7"}
    assert parts(lab, nested) == {nested: nested}


def test_nobody_can_make_a_job_a_part_of_another_users(lab: Cluster) -> None:
    bobs = submit(lab, "true", "-o", "/dev/null", user="bob")
    record_of(lab, bobs)
    for forged in (
        {"SLURM_ARRAY_JOB_ID": bobs, "SLURM_ARRAY_TASK_ID": "5"},
        {"SLURM_HET_JOB_ID": bobs, "SLURM_HET_JOB_OFFSET": "1"},
    ):
        mine = submit(lab, "srun true", "-o", "/dev/null", env=forged)
        await_state(lab, mine, "COMPLETED")
        record = record_of(lab, mine)
        assert record.environment.items() >= forged.items()
        assert record.manifest.printed_id == mine
    assert parts(lab, bobs) == {bobs: bobs}
    page = lab.run([STEPGUARD, "job", bobs], user="root").stdout
    assert re.match(rf"Job {bobs}( sbatch)?: completed\n", page), page
    assert "of bob on cluster lab" in page
