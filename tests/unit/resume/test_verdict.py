# SPDX-License-Identifier: Apache-2.0
"""Only hardware is resumed; whatever a person or a policy ended stays ended."""

from __future__ import annotations

import signal

import pytest

from stepguard.resume.verdict import Cause, Evidence, Finding, gravity, judge

LOST = Finding("n2", "silence", "reboot", "does not answer", lost=True)
FAILED_GPU = Finding("n3", "fault-file", "replace", "XID 79")
RESET_GPU = Finding("n4", "agent", "reset-gpu", "xid 48 (agent)", device="0000:0f:00", code="48")
XID_43 = Finding("n2", "agent", "restart-application", "XID 43 on GPU 0000:0f:00", device="0000:0f:00", code="43")


@pytest.mark.parametrize(
    ("evidence", "cause"),
    [
        (Evidence(status=1), Cause.APPLICATION),
        (Evidence(status=137), Cause.APPLICATION),
        (Evidence(status=137, step_state="OUT_OF_MEMORY"), Cause.APPLICATION),
        (Evidence(status=1, findings=(LOST,)), Cause.HARDWARE),
        (Evidence(status=1, findings=(LOST,), ended_by_us=True, step_state="CANCELLED"), Cause.HARDWARE),
        (Evidence(status=143, findings=(LOST,), step_state="CANCELLED"), Cause.CANCELLED),
        # srun gives up a step that it cannot launch on a node that has just died (status 233 on 22.05.8).
        (Evidence(status=233, findings=(LOST,), step_state="CANCELLED"), Cause.HARDWARE),
        (Evidence(status=233, findings=(FAILED_GPU,), step_state="CANCELLED"), Cause.CANCELLED),
        (Evidence(status=1, findings=(LOST,), job_state="CANCELLED"), Cause.CANCELLED),
        (Evidence(status=1, findings=(LOST,), job_state="TIMEOUT"), Cause.TIME_LIMIT),
        (Evidence(status=1, findings=(LOST,), job_state="NODE_FAIL"), Cause.CANCELLED),
        (Evidence(status=1, findings=(LOST,), job_state="COMPLETING"), Cause.CANCELLED),
        (Evidence(status=1, findings=(FAILED_GPU,), step_state="TIMEOUT"), Cause.TIME_LIMIT),
        (Evidence(status=1, findings=(FAILED_GPU,), time_left_s=0), Cause.TIME_LIMIT),
        (Evidence(status=1, findings=(FAILED_GPU,), job_state="PREEMPTED"), Cause.PREEMPTED),
        (Evidence(status=130, findings=(LOST,), interrupted_by=signal.SIGINT), Cause.CANCELLED),
        (Evidence(status=1, flapped=("n1",)), Cause.NETWORK),
        (Evidence(status=1, findings=(LOST,), flapped=("n1",)), Cause.HARDWARE),
        (Evidence(status=1, blind=True), Cause.UNKNOWN),
        (Evidence(status=1, program=(XID_43,)), Cause.APPLICATION),
        (Evidence(status=1, program=(XID_43,), findings=(RESET_GPU,)), Cause.HARDWARE),
        (Evidence(status=1, program=(XID_43,), findings=(LOST,)), Cause.HARDWARE),
        (Evidence(status=1, program=(XID_43,), flapped=("n1",)), Cause.APPLICATION),
        (Evidence(status=143, program=(XID_43,), step_state="CANCELLED"), Cause.CANCELLED),
        (Evidence(status=1, standing=(RESET_GPU,)), Cause.HARDWARE),
        (Evidence(status=1, standing=(RESET_GPU,), flapped=("n1",)), Cause.HARDWARE),
        (Evidence(status=1, standing=(RESET_GPU,), program=(XID_43,)), Cause.APPLICATION),
        (Evidence(status=137, standing=(RESET_GPU,), step_state="OUT_OF_MEMORY"), Cause.APPLICATION),
        (Evidence(status=143, standing=(RESET_GPU,), step_state="CANCELLED"), Cause.CANCELLED),
        (Evidence(status=130, standing=(RESET_GPU,), interrupted_by=signal.SIGINT), Cause.CANCELLED),
        (Evidence(status=137, program=(XID_43,), step_state="OUT_OF_MEMORY"), Cause.APPLICATION),
    ],
)
def test_cause(evidence: Evidence, cause: Cause) -> None:
    assert judge(evidence).cause is cause


def test_what_was_seen_of_this_run_is_blamed_before_what_was_known() -> None:
    assert judge(Evidence(status=1, findings=(LOST,), standing=(RESET_GPU,))).nodes == ("n2",)
    assert judge(Evidence(status=1, standing=(RESET_GPU,))).nodes == ("n4",)


def test_nodes_are_healthy_only_where_they_tell_of_nothing() -> None:
    assert judge(Evidence(status=4)).why == "the program ended with status 4, and its nodes are healthy"
    why = "what its nodes tell is no ground to run it again: n1: fans; n2: fans; n3: fans"
    told = tuple(f"n{number}: fans" for number in range(1, 6))
    assert judge(Evidence(status=4, unwell=told)).why == f"the program ended with status 4; {why}"


def test_hardware_verdict_names_every_node_and_the_worst_action() -> None:
    verdict = judge(Evidence(status=1, findings=(LOST, FAILED_GPU)))
    assert verdict.nodes == ("n2", "n3")
    assert verdict.action == "replace"
    assert verdict.why == "n2: does not answer; n3: XID 79"


@pytest.mark.parametrize(
    ("findings", "action"),
    [((), ""), ((RESET_GPU,), "reset-gpu"), ((RESET_GPU, LOST), "reboot"), ((LOST, RESET_GPU, FAILED_GPU), "replace")],
)
def test_the_action_is_that_of_the_worst(findings: tuple[Finding, ...], action: str) -> None:
    assert judge(Evidence(status=1, findings=findings)).action == action


def test_the_programs_own_fault_is_named_each_once() -> None:
    other = XID_43._replace(node="n3")
    verdict = judge(Evidence(status=6, program=(XID_43, XID_43, other)))
    assert verdict.why == (
        "XID 43 on GPU 0000:0f:00 of n2, XID 43 on GPU 0000:0f:00 of n3: the program's own fault; "
        "the program ended with status 6"
    )
    assert verdict.nodes == ()  # nobody but the program is to blame
    assert verdict.findings == (XID_43, XID_43, other)


def test_findings_are_ordered_by_what_they_mean_for_the_node() -> None:
    check = Finding("n1", "helper", "check", "its helper job has ended")
    assert sorted([check, RESET_GPU, FAILED_GPU, LOST], key=gravity) == [LOST, FAILED_GPU, RESET_GPU, check]


@pytest.mark.parametrize(
    ("status", "text"),
    [(3, "status 3"), (-9, "srun was ended by SIGKILL"), (139, "SIGSEGV"), (255, "status 255")],
)
def test_application_verdict_says_how_the_program_ended(status: int, text: str) -> None:
    assert text in judge(Evidence(status=status)).why


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT])
def test_a_crash_is_no_cancellation_though_the_books_say_so(number: int) -> None:
    crash = Evidence(128 + number, step_state="CANCELLED")
    assert judge(crash).cause is Cause.APPLICATION
    faulty = crash._replace(findings=(Finding("n4", "slurm", "replace", "FAIL in Slurm"),))
    assert judge(faulty).cause is Cause.HARDWARE
