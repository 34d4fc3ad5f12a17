# SPDX-License-Identifier: Apache-2.0
"""The environment of the next attempt."""

from __future__ import annotations

from pathlib import Path

from stepguard.slurm import text
from stepguard.slurm.environment import rebuilt

DATA = Path(__file__).parents[2] / "data" / "slurm"
JOB = text.job((DATA / "22.05" / "show-job-batch-shrunk.txt").read_text(), 0)
BEFORE = {
    "PATH": "/usr/bin",
    "SLURM_JOB_ID": "9",
    "SLURM_JOB_NODELIST": "n[1-3]",
    "SLURM_NODELIST": "n[1-3]",
    "SLURM_JOB_NUM_NODES": "3",
    "SLURM_NNODES": "3",
    "SLURM_JOB_CPUS_PER_NODE": "1(x3)",
    "SLURM_TASKS_PER_NODE": "1(x3)",
}


def test_nodes_are_those_of_the_job() -> None:
    assert rebuilt(BEFORE, JOB) == {
        "PATH": "/usr/bin",
        "SLURM_JOB_ID": "9",
        "SLURM_JOB_NODELIST": "n[1,3]",
        "SLURM_NODELIST": "n[1,3]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NNODES": "2",
        "SLURM_JOB_CPUS_PER_NODE": "1(x2)",
    }


def test_unknown_cpus_are_those_of_before_where_all_nodes_had_as_many() -> None:
    unknown = JOB._replace(cpus_per_node="")
    assert rebuilt(BEFORE, unknown)["SLURM_JOB_CPUS_PER_NODE"] == "1(x2)"
    assert "SLURM_JOB_CPUS_PER_NODE" not in rebuilt({**BEFORE, "SLURM_JOB_CPUS_PER_NODE": "3,1(x2)"}, unknown)
    assert "SLURM_JOB_CPUS_PER_NODE" not in rebuilt({"PATH": "/bin"}, unknown)


def test_number_of_tasks_stays_the_users() -> None:
    environment = {**BEFORE, "SLURM_NTASKS": "6", "SLURM_NPROCS": "6", "SLURM_NTASKS_PER_NODE": "2"}
    new = rebuilt(environment, JOB)
    assert (new["SLURM_NTASKS"], new["SLURM_NPROCS"], new["SLURM_NTASKS_PER_NODE"]) == ("6", "6", "2")
    assert "SLURM_NTASKS" not in rebuilt(BEFORE, JOB)


def test_number_of_tasks_follows_a_smaller_step_where_it_was_derived() -> None:
    derived = {**BEFORE, "SLURM_NTASKS": "6", "SLURM_NPROCS": "6", "SLURM_NTASKS_PER_NODE": "2"}
    new = rebuilt(derived, JOB, step_num_nodes=2)
    assert (new["SLURM_NTASKS"], new["SLURM_NPROCS"]) == ("4", "4")
    chosen = {**derived, "SLURM_NTASKS": "5", "SLURM_NPROCS": "5"}
    assert rebuilt(chosen, JOB, step_num_nodes=2)["SLURM_NTASKS"] == "5"


def test_own_option_is_not_inherited() -> None:
    environment = {
        **BEFORE,
        "_SLURM_SPANK_OPTION_stepguard_auto_resume": "1",
        "SLURM_SPANK__SLURM_SPANK_OPTION_stepguard_auto_resume": "1",
        "_SLURM_SPANK_OPTION_pyxis_container_image": "ubuntu",
    }
    new = rebuilt(environment, JOB)
    assert [name for name in new if "SPANK" in name] == ["_SLURM_SPANK_OPTION_pyxis_container_image"]
