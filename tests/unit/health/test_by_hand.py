# SPDX-License-Identifier: Apache-2.0
"""What `stepguard node` would do, and what it leaves to --force."""

from __future__ import annotations

import pytest

from stepguard.health.by_hand import Change, Nothing, Refusal, Verb, plan
from stepguard.slurm.reasons import REBOOT, REPLACE, gate_comment
from stepguard.slurm.records import Node
from unit.health.building import node

NHC = node(reason="NHC: disk", states="IDLE+DRAIN", user="bob")
NEAR = node(reason="Action: Replace", states="IDLE+DRAIN", user="bob")
SILENT = node(reason="Not responding", states="DOWN+NOT_RESPONDING", user="slurm")
REPLACED = node(reason=REPLACE, states="ALLOCATED+FAIL")
DRAINED = node(reason="stepguard: replace: xid 79", states="IDLE+DRAIN")


@pytest.mark.parametrize(
    ("verb", "found", "kind"),
    [
        ("replace", node(), Change),
        ("replace", NHC, Refusal),
        ("replace", NEAR, Refusal),
        ("replace", SILENT, Change),
        ("replace", REPLACED, Nothing),
        ("reboot", REPLACED, Change),
        ("replace", node(reason=REPLACE, states="IDLE+DRAIN"), Change),
        ("replace", node(reason=f"{REPLACE} : Not responding", states="DOWN+FAIL"), Change),
        ("replace", DRAINED, Change),
        ("resume", node(), Nothing),
        ("resume", NHC, Refusal),
        ("resume", NEAR, Refusal),
        ("resume", SILENT, Refusal),
        ("resume", node(states="DOWN"), Refusal),
        ("resume", REPLACED, Change),
        ("resume", DRAINED, Change),
        ("resume", node(reason=f"{REBOOT} : Not responding", states="DOWN+FAIL"), Change),
        ("resume", node(reason=f"{REBOOT} : Kill task failed", states="IDLE+FAIL"), Refusal),
    ],
)
def test_only_what_is_ours_is_touched_without_force(verb: Verb, found: Node, kind: type) -> None:
    (step,) = plan(verb, [found])
    assert type(step) is kind
    (forced,) = plan(verb, [found], force=True)
    assert type(forced) is (Change if kind is Refusal else kind)


def test_the_reason_is_exact_and_the_text_becomes_the_comment() -> None:
    (step,) = plan("replace", [REPLACED._replace(reason=REBOOT)], "row remap failed")
    assert step == Change(
        "n1",
        "FAIL",
        "Action:Replace",
        "stepguard: row remap failed",
        "state FAIL, reason Action:Replace; its jobs run on, and it gets no more",
    )
    assert plan("reboot", [node()]) == [Change("n1", "FAIL", "Action:Reboot", None, "state FAIL, reason Action:Reboot")]


def test_a_comment_of_somebody_else_stays() -> None:
    theirs = REPLACED._replace(comment="row 7, being rewired")
    (refused,) = plan("reboot", [theirs], "why")
    assert isinstance(refused, Refusal)
    assert "row 7, being rewired" in refused.why
    (resumed,) = plan("resume", [theirs])
    assert isinstance(resumed, Change)
    assert resumed.comment is None
    (ours,) = plan("resume", [REPLACED._replace(comment="stepguard: why")])
    assert isinstance(ours, Change)
    assert (ours.state, ours.reason, ours.comment) == ("RESUME", None, "")


def test_a_gate_that_is_shut_is_opened() -> None:
    """Also where Slurm has drained the node for a job that was refused; its agent is to hear of it before the next."""
    shut = node(comment=gate_comment(1000, "xid 79"))
    (step,) = plan("resume", [shut])
    assert isinstance(step, Change)
    assert (step.state, step.comment, step.until_heard) == ("RESUME", "", "DRAIN")
    for reason in ("Prolog error", "Prolog error : Not responding"):
        drained = node(reason=reason, states="IDLE+DRAIN", comment=shut.comment)
        (step,) = plan("resume", [drained])
        assert isinstance(step, Change)
        assert (step.state, step.comment, step.until_heard) == ("RESUME", "", "")
    assert isinstance(plan("resume", [drained._replace(comment="")])[0], Refusal), "whose prolog it was nobody can tell"
    assert isinstance(plan("resume", [drained._replace(reason="NHC: disk")])[0], Refusal)
    assert isinstance(plan("resume", [drained._replace(reason="Prolog error : NHC: disk")])[0], Refusal)


@pytest.mark.parametrize("has_gates", [False, True])
def test_an_agent_that_refuses_jobs_by_its_mark_is_to_hear_of_it_first(has_gates: bool) -> None:
    (step,) = plan("resume", [DRAINED], has_gates=has_gates)
    assert isinstance(step, Change)
    assert step.until_heard == ("" if has_gates else None)


def test_a_refusal_says_whose_reason_it_is_and_explains_a_near_miss() -> None:
    (step,) = plan("replace", [NEAR])
    assert isinstance(step, Refusal)
    assert "DRAIN+IDLE, Action: Replace (bob) [almost Action:Replace: blanks in it]" in step.why


def test_a_node_that_does_not_answer_gets_no_job_yet() -> None:
    (step,) = plan("resume", [SILENT], force=True)
    assert isinstance(step, Change)
    assert "before it answers" in step.told
