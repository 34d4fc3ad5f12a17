# SPDX-License-Identifier: Apache-2.0
"""Crash loops end, with the rule that ended them."""

from __future__ import annotations

import pytest

from stepguard.config import Resume
from stepguard.resume.limits import Limits
from stepguard.resume.verdict import Cause, Finding, Verdict

LOST = Verdict(Cause.HARDWARE, "", ("n1",), (Finding("n1", "silence", "reboot", ""),))
GPU = Verdict(Cause.HARDWARE, "", ("n1",), (Finding("n1", "fault-file", "replace", ""),))


def test_hardware_is_resumed_until_max_resumes() -> None:
    limits = Limits(Resume(max_resumes=2))
    for _ in range(2):
        assert limits.refusal(LOST, ran_s=1000, time_left_s=None) == ""
        limits.resumes += 1
    assert limits.refusal(LOST, ran_s=1000, time_left_s=None) == "max_resumes reached (2)"


def test_resumes_of_earlier_runs_of_the_job_count() -> None:
    assert Limits(Resume(max_resumes=2), resumes=2).refusal(LOST, 1000, None) == "max_resumes reached (2)"


def test_third_quick_failure_of_one_kind_is_a_crash_loop() -> None:
    limits = Limits(Resume(max_resumes=100))
    assert limits.refusal(LOST, 59, None) == ""
    assert limits.refusal(LOST, 59, None) == ""
    assert "no progress: 3 failures" in limits.refusal(LOST, 59, None)


def test_progress_or_another_kind_of_failure_breaks_the_loop() -> None:
    limits = Limits(Resume(max_resumes=100))
    for verdict, ran_s in [(LOST, 1), (LOST, 1), (GPU, 1), (GPU, 1), (LOST, 61), (LOST, 1), (LOST, 1)]:
        assert limits.refusal(verdict, ran_s, None) == ""
    assert "no progress" in limits.refusal(LOST, 1, None)


@pytest.mark.parametrize("cause", [c for c in Cause if c not in (Cause.HARDWARE, Cause.NETWORK)])
def test_nothing_but_hardware_and_network_is_resumed(cause: Cause) -> None:
    assert Limits(Resume()).refusal(Verdict(cause, ""), 1000, None) == f"not resumed: {cause.value}"


def test_network_is_resumed_only_where_configured() -> None:
    network = Verdict(Cause.NETWORK, "")
    assert "resume_network" in Limits(Resume()).refusal(network, 1000, None)
    assert Limits(Resume(resume_network=True)).refusal(network, 1000, None) == ""


def test_a_resume_needs_time_left_in_the_job() -> None:
    assert "too little time" in Limits(Resume(min_time_left_s=60)).refusal(LOST, 1000, time_left_s=59)
    assert Limits(Resume(min_time_left_s=60)).refusal(LOST, 1000, time_left_s=60) == ""
