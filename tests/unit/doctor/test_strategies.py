# SPDX-License-Identifier: Apache-2.0
"""What the doctor says of the cluster is what the strategies will do on it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stepguard.config import Resume
from stepguard.doctor import strategies as doctor
from stepguard.doctor.result import Level, Result
from stepguard.doctor.strategies import check_strategies
from stepguard.resume.strategies import ALL, expand, wait
from stepguard.slurm.records import ClusterConfig, Job


def judged(cluster: ClusterConfig, name: str, resume: Resume | None = None, has_gres: bool = False) -> Result:
    results = check_strategies(cluster, resume or Resume(), has_gres)
    return next(result for result in results if result.check == name)


def test_one_result_for_each_configured_strategy_in_its_order(cluster: ClusterConfig) -> None:
    resume = Resume(strategies=("requeue", "spare"))
    assert [result.check for result in check_strategies(cluster, resume, False)] == ["requeue", "spare"]
    assert {result.check for result in check_strategies(cluster, Resume(), False)} == set(ALL)


def test_slurms_defaults_are_no_findings(cluster: ClusterConfig) -> None:
    assert {result.level for result in check_strategies(cluster, Resume(), True)} == {Level.OK}


def test_the_rules_are_those_of_auto_resume() -> None:
    assert expand._BLOCKING_PROLOG_FLAGS == doctor.BLOCKING_PROLOG_FLAGS
    assert wait._SHARE_OF_SLURMD_TIMEOUT == doctor.SHARE_OF_SLURMD_TIMEOUT


@pytest.mark.parametrize("flags", [(), ("Alloc",), ("Contain", "Alloc"), ("X11",), ("NoHold",)])
@pytest.mark.parametrize("parameters", [(), ("permit_job_expansion",), ("bf_interval=10", "permit_job_expansion")])
def test_expand_works_where_its_probe_passes(
    cluster: ClusterConfig, job: Job, flags: tuple[str, ...], parameters: tuple[str, ...]
) -> None:
    cluster = cluster._replace(prolog_flags=frozenset(flags), scheduler_parameters=parameters)
    situation: Any = SimpleNamespace(
        job=job, cluster=cluster, batch_host_lost=False, command=SimpleNamespace(distribution="")
    )
    refused = ALL["expand"].probe(situation)
    result = judged(cluster, "expand")
    assert (result.level is Level.OK and result.found == "for jobs without GRES") == (not refused)
    assert (result.level is Level.WARN) == ("keeps Slurm from merging" in refused)


def test_with_gres_it_says_that_jobs_with_gres_do_not_expand(cluster: ClusterConfig) -> None:
    assert "GRES never expand" in judged(cluster, "expand", has_gres=True).found


def test_a_cluster_that_forbids_shrinking_fails(cluster: ClusterConfig) -> None:
    result = judged(cluster._replace(scheduler_parameters=("disable_job_shrink",)), "spare")
    assert (result.level, "SlurmdTimeout=300" in result.found) == (Level.FAIL, True)


@pytest.mark.parametrize(
    ("timeout_s", "wait_s", "level", "said"),
    [
        (300, 600, Level.OK, "up to 240 s"),
        (300, 60, Level.OK, "up to 60 s"),
        (300, 0, Level.OK, "off"),
        (0, 600, Level.WARN, "SlurmdTimeout=0"),
    ],
)
def test_wait_is_bounded_by_slurm(
    cluster: ClusterConfig, timeout_s: int, wait_s: float, level: Level, said: str
) -> None:
    result = judged(cluster._replace(slurmd_timeout_s=timeout_s), "wait", Resume(wait_s=wait_s))
    assert result.level is level
    assert said in result.found


@pytest.mark.parametrize(
    ("value", "said"), [(0, "not a rebooted one"), (1, "not a rebooted"), (2, "a rebooted node too")]
)
def test_whether_a_rebooted_node_is_waited_for(cluster: ClusterConfig, value: int, said: str) -> None:
    assert said in judged(cluster._replace(return_to_service=value), "wait").found


@pytest.mark.parametrize(
    ("changes", "level", "said"),
    [
        ({}, Level.OK, "at least 121 s"),
        ({"credential_lifetime_s": 600}, Level.OK, "at least 601 s"),
        ({"scheduler_parameters": ("requeue_delay=5",)}, Level.OK, "at least 121 s"),
        ({"scheduler_parameters": ("requeue_delay=5",), "release": (26, 5, 1)}, Level.OK, "at least 5 s"),
        ({"slurmctld_parameters": ("enable_expedited_requeue",)}, Level.OK, "at least 121 s"),
        ({"slurmctld_parameters": ("enable_expedited_requeue",), "release": (25, 11)}, Level.OK, "at once"),
        ({"job_requeue": False}, Level.WARN, "--requeue"),
    ],
)
def test_how_soon_a_requeued_job_starts(
    cluster: ClusterConfig, changes: dict[str, Any], level: Level, said: str
) -> None:
    result = judged(cluster._replace(**changes), "requeue")
    assert result.level is level
    assert said in result.found
