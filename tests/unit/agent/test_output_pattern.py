# SPDX-License-Identifier: Apache-2.0
"""sbatch's output patterns, as slurmstepd expands them (src/slurmd/common/fname.c)."""

from __future__ import annotations

import pytest

from stepguard.agent.output_pattern import Names, default, path

PLAIN = Names(71, node="n1", user="alice", job_name="a b", work_dir="/w")
ARRAY = Names(75, array_job_id=71, array_task_id=13, node="n1", user="alice", job_name="x", work_dir="/w/")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("slurm-%j.out", "/w/slurm-71.out"),
        ("/o/%x-%u-%N", "/o/a b-alice-n1"),
        ("%5j", "/w/00071"),
        ("%12j", "/w/0000000071"),
        ("%005j", "/w/00071"),
        ("%4u", "/w/alice"),
        ("%A_%a", "/w/71_4294967294"),
        ("%t-%n-%3t", "/w/0-0-000"),
        ("%s-%7s", "/w/batch-batch"),
        ("%J-%4J", "/w/71-0071"),
        ("100%%", "/w/100%"),
        ("%%j", "/w/%j"),
        ("%%%j", "/w/%71"),
        ("%z-%", "/w/%z-%"),
        ("%12z", "/w/2z"),
        ("a%12", "/w/a2"),
        ("%4%j", "/w/471"),
        ("", "/w/"),
        ("5", "/w/5"),
        ("0", "/w/0"),
        (r"/o/\%j", "/o/%j"),
        (r"/o/a\\b", r"/o/a\b"),
        (r"\%j", "/w/%j"),
    ],
)
def test_a_pattern(pattern: str, expected: str) -> None:
    assert path(pattern, PLAIN) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("%A_%a-%j", "/w/71_13-75"), ("%3a%b", "/w/0133"), ("%2b", "/w/03"), ("%J", "/w/75")],
)
def test_a_pattern_of_an_array(pattern: str, expected: str) -> None:
    assert path(pattern, ARRAY) == expected


def test_the_default() -> None:
    assert path(default(PLAIN), PLAIN) == "/w/slurm-71.out"
    assert path(default(ARRAY), ARRAY) == "/w/slurm-71_13.out"
