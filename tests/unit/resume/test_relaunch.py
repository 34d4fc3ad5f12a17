# SPDX-License-Identifier: Apache-2.0
"""The sruns of the next attempt, and what their tasks are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stepguard.resume import places
from stepguard.resume.layout import Layout, Slot
from stepguard.resume.parts import Relaunch
from stepguard.resume.relaunch import Memory, relaunch
from stepguard.slurm.records import Job
from stepguard.slurm.srun_arguments import parse

LAYOUT = Layout((Slot("n1", (0, 1)), Slot("n2", (2, 3)), Slot("n3", (4, 5))))
ENVIRONMENT = {"PATH": "/usr/bin", "SLURM_JOB_ID": "71", "SLURM_NTASKS_PER_NODE": "2"}


def job(*nodes: str, **changes: Any) -> Job:
    """A running job on these nodes."""
    blank = dict.fromkeys(Job._fields, "")
    return Job(**blank | {"id": "71", "nodes": nodes, "cpus_per_node": f"8(x{len(nodes)})"} | changes)


def helper(job_id: str, *nodes: str) -> Any:
    return SimpleNamespace(id=job_id, nodes=nodes, cpus_per_node=f"8(x{len(nodes)})")


def attempt(line: str, on: Job, nodes: str, *helpers: Any, environment: dict[str, str] | None = None) -> Relaunch:
    """The next attempt of `srun LINE` on those nodes."""
    command = parse(["srun", *line.split()])
    variables = ENVIRONMENT | (environment or {})
    return relaunch(
        command, variables, on, nodes.split(), helpers, Memory(LAYOUT, {"SLURM_DISTRIBUTION": "block"}), None
    )


def told(entry: str) -> dict[str, str]:
    """An entry's fields."""
    version, *fields = entry.split(";")
    assert version == "1"
    return dict(field.split("=", 1) for field in fields)


def test_where_all_have_their_places_anyway_slurm_places_the_tasks() -> None:
    made = attempt("-n6 --mem-per-cpu=1 prog -x", job("n1", "n2", "n3", "n4"), "n1 n2 n3")
    assert made.others("0") == []
    assert list(made.first.words) == [
        *("srun", "-n6", "--nodes=3", "--nodelist=n1,n2,n3", "--overlap", "--mem=0", "--open-mode=append", "prog", "-x")
    ]
    assert places.VARIABLE not in made.first.environment


def test_in_one_job_every_task_gets_its_host_in_the_order_of_ranks() -> None:
    made = attempt("-N3 --ntasks-per-node=2 prog", job("n1", "n3", "n4"), "n1 n3 n4")
    assert made.others("0") == []
    assert "--nodelist=n1,n1,n4,n4,n3,n3" in made.first.words
    assert "--distribution=arbitrary" in made.first.words
    assert not [word for word in made.first.words if word.startswith(("-N", "--nodes", "--ntasks-per-node"))]
    entry = told(made.first.environment[places.VARIABLE])
    assert (entry["@n1"], entry["@n4"], entry["@n3"]) == ("0:0-1", "1:2-3", "2:4-5")
    assert entry["SLURM_STEP_NODELIST"] == "n[1,4,3]"
    assert (made.first.leads, made.first.alone, made.first.helper) == (True, True, False)


def test_srun_is_not_told_what_would_place_its_tasks_and_the_tasks_are() -> None:
    made = attempt("prog", job("n1", "n3", "n4"), "n1 n3 n4", environment={"SLURM_GPUS": "6"})
    assert not {"SLURM_NTASKS_PER_NODE", "SLURM_GPUS"} & made.first.environment.keys()
    entry = told(made.first.environment[places.VARIABLE])
    assert (entry["SLURM_NTASKS_PER_NODE"], entry["SLURM_GPUS"]) == ("2", "6")
    assert entry["SLURM_DISTRIBUTION"] == "block"
    assert "--gpus-per-node=2" in made.first.words


def test_over_two_jobs_each_part_has_its_own_and_is_told_of_the_whole() -> None:
    made = attempt("-n6 -o out-%j-%4s prog", job("n1", "n2"), "n1 n2 n9", helper("75", "n9"))
    (part,) = made.others("3")
    assert (made.first.job_id, part.job_id) == ("71", "75")
    assert (made.first.leads, part.leads, part.helper, part.alone, made.first.alone) == (
        True,
        False,
        True,
        False,
        False,
    )
    assert "--jobid=75" in part.words and "--nodelist=n9,n9" in part.words and "--ntasks=2" in part.words
    assert "--output=out-71-0003" in part.words and "out-%j-%4s" in made.first.words
    assert "--quiet" in part.words and "--input=none" in part.words
    assert part.environment["SLURM_JOB_NODELIST"] == "n9" and part.environment["SLURM_NNODES"] == "1"
    whole, entry = told(made.first.environment[places.VARIABLE]), told(part.environment[places.VARIABLE])
    assert entry.pop("STEPGUARD_HELPER_JOB_ID") == "75"
    assert (entry.pop("SLURM_STEP_ID"), entry.pop("SLURM_STEPID")) == ("3", "3")
    assert entry.pop("@n9") == "2:4-5"
    assert whole.pop("@n1") == "0:0-1" and whole.pop("@n2") == "1:2-3"
    assert whole == entry
    assert entry["SLURM_JOB_NODELIST"] == entry["SLURM_STEP_NODELIST"] == "n[1-2,9]"
    assert entry["SLURM_JOB_CPUS_PER_NODE"] == "8(x3)"
    assert (entry["SLURM_JOB_ID"], entry["SLURM_NTASKS"], entry["SLURM_NNODES"]) == ("71", "6", "3")
    assert entry["SLURM_TASKS_PER_NODE"] == "2(x3)"


def test_rank_0_may_be_in_the_helper_and_reads_stdin_there() -> None:
    made = attempt("prog", job("n2", "n3"), "n2 n3 n9", helper("75", "n9"))
    (part,) = made.others("0")
    assert (made.first.leads, part.leads) == (False, True)
    assert "--input=none" in made.first.words
    assert "--input=none" not in part.words


@pytest.mark.parametrize(
    ("option", "each"),
    [("--gpus=6", "--gpus-per-node=2"), ("-G a100:6", "--gpus-per-node=a100:2"), ("-G 7", "--gpus-per-node=3")],
)
def test_gpus_of_the_whole_are_shared_out(option: str, each: str) -> None:
    made = attempt(f"{option} prog", job("n1", "n2"), "n1 n2 n9", helper("75", "n9"))
    assert each in made.first.words
    assert each in made.others("0")[0].words
    assert not [word for word in made.first.words if word.startswith(("-G", "--gpus="))]


def test_a_pattern_without_meaning_stays_as_it_is() -> None:
    made = attempt(r"-o a\%j -e %%j-%x-%A_%a/%%%j prog", job("n1", "n2"), "n1 n2 n9", helper("75", "n9"))
    words = made.others("0")[0].words
    assert r"--output=a\%j" in words
    assert "--error=%%j-%x-71_%a/%%71" in words
