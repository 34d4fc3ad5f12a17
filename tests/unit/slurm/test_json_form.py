# SPDX-License-Identifier: Apache-2.0
"""The commands' JSON says what their text says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepguard.slurm import json_form, text

DATA = Path(__file__).parents[2] / "data" / "slurm"
RELEASES = ["22.05", "24.11", "26.05"]


def recorded(release: str, name: str) -> dict[str, Any]:
    before_23_02 = {
        "show-job": "squeue",
        "show-job-exclusive": "squeue-exclusive",
        "show-job-hostile": "squeue-hostile",
    }
    name = {**before_23_02, "show-node": "sinfo"}[name] if release == "22.05" else name
    document = json.loads((DATA / release / f"{name}.json").read_text())
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("as_text", "as_json"),
    [("show-job-batch-gres", "show-job"), ("show-job-salloc-exclusive", "show-job-exclusive")],
)
def test_job_is_that_of_the_text(release: str, as_text: str, as_json: str) -> None:
    expected = text.job((DATA / release / f"{as_text}.txt").read_text(), 1000.0)
    if release == "22.05":
        expected = expected._replace(cpus_per_node="")
    assert json_form.job(recorded(release, as_json), expected.id, 1000.0) == expected


@pytest.mark.parametrize("release", RELEASES)
def test_hostile_job_is_read(release: str) -> None:
    document = recorded(release, "show-job-hostile")
    job = json_form.job(document, str(document["jobs"][0]["job_id"]), 0)
    assert job is not None
    assert (job.state, job.user_id, job.nodes, job.restart_count) == ("RUNNING", 65534, ("n1", "n2", "n3"), 0)
    assert job.comment.startswith("hi JobState=FAILED\n   JobState=FAILED")


@pytest.mark.parametrize("release", RELEASES)
def test_other_job_is_absent(release: str) -> None:
    assert json_form.job(recorded(release, "show-job"), "4711", 0) is None


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_are_those_of_the_text(release: str) -> None:
    expected = text.nodes((DATA / release / "show-node.txt").read_text())
    assert json_form.nodes(recorded(release, "show-node"))[:2] == expected
